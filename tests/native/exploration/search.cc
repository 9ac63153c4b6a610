#include "tests/native/exploration/search.h"

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <unordered_map>
#include <utility>

namespace horovod_opt {
namespace exploration {
namespace {

struct Sleeper {
  Event event;
  Footprint footprint;
};

bool IsIn(const Event& event, const std::vector<Sleeper>& sleepers) {
  return std::any_of(sleepers.begin(), sleepers.end(),
                     [&](const Sleeper& sleeper) { return sleeper.event == event; });
}

class Search {
 public:
  Search(const MakeWorld& make_world, const Limits& limits)
      : make_world_(make_world), limits_(limits), random_(limits.seed + 1) {}

  Findings Run() {
    try {
      world_ = make_world_();
      Enter({}, limits_.preemptions, -1);
      while (!nodes_.empty()) Advance();
    } catch (const std::exception& violation) {
      findings_.violation = violation.what();
      Tell();
    }
    return std::move(findings_);
  }

 private:
  struct Node {
    std::vector<Event> enabled, next;  // of which `next` are still to be followed, the last first
    std::vector<Sleeper> asleep;
    int preemptions, last_actor;
  };
  // What is known of a state: events that were asleep whenever the search came there, and how many
  // preemptions were left, at most.
  struct Visit {
    std::vector<Event> asleep;
    int preemptions;
  };

  bool IsBounded() const { return limits_.preemptions != Limits::kAnyNumber; }

  void Advance() {
    Node& node = nodes_.back();
    if (node.next.empty()) {
      nodes_.pop_back();
      if (!path_.empty()) path_.pop_back();
      world_.reset();
      return;
    }
    const Event event = node.next.back();
    node.next.pop_back();
    if (world_ == nullptr) Replay();
    path_.push_back(event);
    ++findings_.events;
    const Footprint footprint = world_->Do(event);
    std::vector<Sleeper> asleep;
    for (const Sleeper& sleeper : node.asleep) {
      if ((sleeper.footprint & footprint) == 0) asleep.push_back(sleeper);
    }
    if (!IsBounded()) node.asleep.push_back({event, footprint});
    const auto goes_on = [&](const Event& other) { return other.actor == node.last_actor; };
    const bool preempts = event.actor != node.last_actor &&
                          std::any_of(node.enabled.begin(), node.enabled.end(), goes_on);
    Enter(std::move(asleep), node.preemptions - (IsBounded() && preempts ? 1 : 0), event.actor);
  }

  // The world is in the state at the end of the path.
  void Enter(std::vector<Sleeper> asleep, int preemptions, int last_actor) {
    findings_.deepest = std::max(findings_.deepest, path_.size());
    Node node{world_->Enabled(), {}, std::move(asleep), preemptions, last_actor};
    std::string state = world_->State();
    if (IsBounded()) state += "\n" + std::to_string(last_actor);
    const auto [visit, is_new] = visits_.try_emplace(std::hash<std::string>()(state));
    if (is_new) {
      ++findings_.states;
      if (node.enabled.empty()) {
        ++findings_.ends;
        world_->CheckEnd();
      }
      for (const Sleeper& sleeper : node.asleep) visit->second.asleep.push_back(sleeper.event);
      for (const Event& event : node.enabled) {
        if (!IsIn(event, node.asleep)) node.next.push_back(event);
      }
    } else if (IsBounded()) {
      if (preemptions > visit->second.preemptions) node.next = node.enabled;
    } else {
      std::vector<Event> still_asleep;
      for (const Event& event : visit->second.asleep) {
        (IsIn(event, node.asleep) ? still_asleep : node.next).push_back(event);
      }
      visit->second.asleep = std::move(still_asleep);
    }
    if (is_new || preemptions > visit->second.preemptions) visit->second.preemptions = preemptions;
    if (preemptions == 0) KeepOn(node);
    if (findings_.states >= limits_.states) {
      findings_.is_complete = false;
      nodes_.clear();
      return;
    }
    std::reverse(node.next.begin(), node.next.end());
    if (limits_.seed != 0) std::shuffle(node.next.begin(), node.next.end(), random_);
    nodes_.push_back(std::move(node));
  }

  static void KeepOn(Node& node) {
    std::vector<Event> own;
    for (const Event& event : node.enabled) {
      if (event.actor == node.last_actor) own.push_back(event);
    }
    if (!own.empty() && !node.next.empty()) node.next = std::move(own);
  }

  void Replay() {
    ++findings_.replays;
    world_ = make_world_();
    for (const Event& event : path_) world_->Do(event);
  }

  // How it came to the violation.
  void Tell() {
    const auto world = make_world_();
    for (const Event& event : path_) findings_.trace.push_back(world->Name(event));
  }

  const MakeWorld& make_world_;
  const Limits limits_;
  std::minstd_rand random_;
  std::unique_ptr<World> world_;  // in the state of the last node; nullptr: in none
  std::vector<Event> path_;
  std::vector<Node> nodes_;  // the first is the beginning, each other follows an event of the path
  std::unordered_map<std::size_t, Visit> visits_;  // by hash of the state
  Findings findings_;
};

using Path = std::vector<Event>;

std::unique_ptr<World> After(const MakeWorld& make_world, const Path& path) {
  auto world = make_world();
  for (const Event& event : path) world->Do(event);
  return world;
}

}  // namespace

std::string Findings::Text() const {
  std::string text = std::to_string(states) + " states, " + std::to_string(events) + " events, " +
                     std::to_string(replays) + " replays, " + std::to_string(ends) +
                     " ends, at most " + std::to_string(deepest) + " events in a row";
  if (!violation.empty()) text += "\nviolation: " + violation + "\nafter:";
  for (const std::string& event : trace) text += "\n  " + event;
  return text;
}

void Findings::Add(const Findings& other) {
  states += other.states;
  events += other.events;
  ends += other.ends;
  replays += other.replays;
  deepest = std::max(deepest, other.deepest);
  is_complete = is_complete && other.is_complete;
  violation = other.violation;
  trace = other.trace;
}

Findings Explore(const MakeWorld& make_world, const Limits& limits) {
  return Search(make_world, limits).Run();
}

Findings Walk(const MakeWorld& make_world, std::uint32_t seed, int walks, int changes) {
  constexpr std::size_t kUsualLength = 100, kLong = 1000;
  std::minstd_rand random(seed);
  Findings findings;
  for (int walk = 0; walk < walks && findings.violation.empty(); ++walk) {
    std::map<int, std::uint32_t> priorities;  // by actor
    std::set<std::size_t> places;
    while (static_cast<int>(places.size()) < changes)
      places.insert(1 + random() % std::max(findings.deepest, kUsualLength));
    Path path;
    std::unique_ptr<World> world;  // not unwound by a violation
    const auto priority = [&](const Event& event) {
      const auto lowest = static_cast<std::uint32_t>(changes);
      return priorities.try_emplace(event.actor, lowest + random()).first->second;
    };
    try {
      world = make_world();
      for (auto enabled = world->Enabled(); !enabled.empty(); enabled = world->Enabled()) {
        auto next = std::max_element(
            enabled.begin(), enabled.end(),
            [&](const Event& a, const Event& b) { return priority(a) < priority(b); });
        // Two that wait for each other by looking again and again.
        if (path.size() > kLong) next = enabled.begin() + random() % enabled.size();
        path.push_back(*next);
        ++findings.states;
        world->Do(path.back());
        const auto place = places.find(path.size());
        if (place == places.end()) continue;
        priorities[path.back().actor] = static_cast<std::uint32_t>(places.size() - 1);
        places.erase(place);
      }
      world->CheckEnd();
      ++findings.ends;
    } catch (const std::exception& violation) {
      findings.violation = violation.what();
      for (const Event& event : path) findings.trace.push_back(world->Name(event));
    }
    findings.deepest = std::max(findings.deepest, path.size());
  }
  findings.events = findings.states;
  return findings;
}

std::string CompareTwins(const MakeWorld& make_world, std::uint32_t seed, int pairs) {
  std::minstd_rand random(seed);
  std::unordered_map<std::string, Path> known;
  for (int found = 0, walks = 0; found < pairs && walks < 100 * pairs; ++walks) {
    Path path;
    auto world = make_world();
    for (auto enabled = world->Enabled(); !enabled.empty() && found < pairs;
         enabled = world->Enabled()) {
      path.push_back(enabled[random() % enabled.size()]);
      world->Do(path.back());
      const auto [twin, is_new] = known.try_emplace(world->State(), path);
      if (is_new || twin->second == path || random() % 8 != 0) continue;
      ++found;
      const auto first = After(make_world, twin->second), second = After(make_world, path);
      for (auto next = first->Enabled(); next == second->Enabled(); next = first->Enabled()) {
        if (next.empty()) break;
        const Event event = next[random() % next.size()];
        first->Do(event);
        second->Do(event);
        if (first->State() != second->State())
          return "after " + first->Name(event) + "\n" + first->State() + "\n" + second->State();
      }
      if (!(first->Enabled() == second->Enabled()))
        return "not the same is possible\n" + first->State();
    }
  }
  return "";
}

}  // namespace exploration
}  // namespace horovod_opt
