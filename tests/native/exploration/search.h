// Stateless model checking by replay (Godefroid 1997, DOI 10.1145/263699.263717): every order of the
// events of a world, depth first, from its beginning again for each branch.
//
// What leads to a known state is followed no further, and sleep sets (Godefroid 1996, DOI
// 10.1007/3-540-60761-7, chapter 5) leave out orders that differ only in independent events: neither
// loses a state. With a limit of preemptions (Musuvathi and Qadeer 2007, DOI 10.1145/1250734.1250785)
// it does not find all of them.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace horovod_opt {
namespace exploration {

struct Event {
  int actor = 0;  // the thread that it happens in
  int code = 0;   // what the world makes of it
  bool operator==(const Event& other) const { return actor == other.actor && code == other.code; }
};

// The objects that an event depends on or changes, a bit for each. Two that have none in common are
// independent: neither makes the other possible or impossible, and their order is of no consequence.
using Footprint = std::uint64_t;

// A rule is broken.
struct Violation : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class World {
 public:
  virtual ~World() = default;
  // What can happen now: the same, in the same order, in equal states.
  virtual std::vector<Event> Enabled() const = 0;
  // Lets it happen. Any exception is a violation.
  virtual Footprint Do(const Event& event) = 0;
  // Worlds with the same text have the same future.
  virtual std::string State() const = 0;
  // Nothing can happen any more. Throws Violation unless that is the end.
  virtual void CheckEnd() = 0;
  virtual std::string Name(const Event& event) const = 0;
};

using MakeWorld = std::function<std::unique_ptr<World>()>;

struct Limits {
  static constexpr int kAnyNumber = std::numeric_limits<int>::max();
  // How often an actor that can go on is interrupted by another.
  int preemptions = kAnyNumber;
  std::size_t states = std::numeric_limits<std::size_t>::max();
  // 0: branches are followed in the order of Enabled(), else in a random one. Where not all states
  // can be found, several searches with different seeds see more than a longer one.
  std::uint32_t seed = 0;
};

struct Findings {
  std::size_t states = 0, events = 0, ends = 0, replays = 0, deepest = 0;
  bool is_complete = true;  // no limit of states was reached
  std::string violation;    // empty: none
  std::vector<std::string> trace;

  std::string Text() const;
  // What another search has found, which may have come to the same states.
  void Add(const Findings& other);
};

// Ends with the first violation.
Findings Explore(const MakeWorld& make_world, const Limits& limits = {});

// Probabilistic concurrency testing (Burckhardt and others 2010, DOI 10.1145/1736020.1736040): so many
// walks from the beginning to an end. That actor goes on which has the highest of random priorities;
// at each of `changes` random places it gets the lowest. What goes wrong when few threads are
// interrupted is found with a probability that does not depend on how many states there are.
// `states` are those that were come to, known or not.
Findings Walk(const MakeWorld& make_world, std::uint32_t seed, int walks, int changes);

// Two ways into one state, for a sample of states: what World::State() leaves out must not matter.
// Continues both alike, at random, and returns in what they differ; empty: in nothing.
std::string CompareTwins(const MakeWorld& make_world, std::uint32_t seed, int pairs);

}  // namespace exploration
}  // namespace horovod_opt
