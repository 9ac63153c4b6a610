// Connections of a rank with those of its number on the other hosts of its group. Who performs a call
// drives them; between calls nobody does.
//
// Invariants (each with a test that fails without it):
// 1. One thread at a time is in Run(), and it alone touches the messages.
// 2. What a collective reads and writes stays until it has ended or the connections are closed: one
//    that was stopped is kept until then, and nobody drives it.
// 3. The connections of a broken group are closed, after why it is has been told to all hosts. So who
//    waits for one of its messages, now or in a later call, gets to know.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>

#include "horovod_opt/csrc/core/network/nonblocking_collective.h"
#include "horovod_opt/csrc/core/network/transport.h"

namespace horovod_opt {

class HostLinks {
 public:
  // `members`: hosts, of which this is the `self`-th.
  HostLinks(std::unique_ptr<Transport> transport, int members, int self);

  int members() const { return members_; }
  int self() const { return self_; }

  // Performs it; false if `stop` was set, or the links are closed. Throws std::runtime_error if
  // another member cannot be reached.
  bool Run(std::unique_ptr<NonblockingCollective> collective, const std::atomic<bool>& stop);

  // For ever; any thread. Who is in Run() returns.
  void Close();

 private:
  bool Advance(NonblockingCollective& collective, const std::atomic<bool>& stop);

  const int members_, self_;
  std::atomic<bool> is_closing_{false};
  std::mutex mutex_;  // of who drives
  BufferPool buffers_;
  std::mutex transport_mutex_;  // after mutex_; of who wakes, while another may drop it
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<NonblockingCollective> stopped_;
};

}  // namespace horovod_opt
