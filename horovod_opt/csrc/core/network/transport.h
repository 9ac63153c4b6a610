// Point-to-point messages between the members of a reduction over groups, one rank of each: what
// MPI and TCP have in common.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

#include "horovod_opt/csrc/core/report/state_page.h"

namespace horovod_opt {

// Of one thread, except for Wake().
class Transport {
 public:
  using Clock = std::chrono::steady_clock;

  // A message that is on its way. Stays where it is until it is done.
  struct Operation {
    bool done = true;
    std::int64_t bytes = 0;  // received
  };

  virtual ~Transport() = default;

  // Begins to send or to receive a message, and waits for nothing. Between two members, messages
  // of one channel arrive in the order in which they were sent; those of different channels do not
  // wait for each other. `data` stays as it is until the operation is done.
  virtual void Send(int to, int channel, const void* data, std::int64_t bytes,
                    Operation& operation) = 0;
  virtual void Receive(int from, int channel, void* data, std::int64_t capacity,
                       Operation& operation) = 0;

  // Ends operations that can be ended. If there are none, sleeps until there is one, until Wake(),
  // or until `deadline`. Throws std::runtime_error if a member cannot be reached.
  virtual void Progress(Clock::time_point deadline) = 0;
  // Progress() returns; any thread.
  virtual void Wake() = 0;

  // All neighbours can be signalled: given a number that none of them has asked for.
  virtual bool CanSignal() const { return false; }
  // One that cannot be reached any more is not told, and that is no error.
  virtual void Signal(std::uint64_t) {}
  // Called in Progress() with what a neighbour signals. Before the first message.
  virtual void Listen(std::function<void(std::uint64_t number)>) {}

  // Connections and the messages on their way.
  virtual void DumpState(StatePage&) const {}

  // Memory of operations that are not done has to stay, and so has this object: what is under way
  // cannot be ended.
  virtual bool MustStay() const = 0;
};

}  // namespace horovod_opt
