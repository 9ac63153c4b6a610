// Descriptor passing over a Unix socket (SCM_RIGHTS): a file descriptor goes from one process of a
// job to others on its host, and to nobody else.
#pragma once

#include <string>

#include "horovod_opt/csrc/core/base/file_descriptor.h"

namespace horovod_opt {

// The giver listens on an abstract Unix socket, which is in no file system and ends with the giver.
// Anyone on the host may connect to that, so both sides check that the other one is of the same
// user (SO_PEERCRED) and knows a secret: the giver's address, which the caller tells the takers
// alone. Abstract sockets belong to a network namespace: a taker in another one is refused.
//
// Nothing here waits. The callers agree on what comes when:
//   1. the giver listens and its address is told to the takers;
//   2. every taker connects and asks;
//   3. after all have asked, the giver gives;
//   4. after that, every taker takes.
// Whoever has connected and said nothing by step 3 is no taker, so a stranger holds up nobody; and
// who dies in the middle is an error of the next step. Errors are std::exception, and say the
// cause.

class SegmentGiver {
 public:
  SegmentGiver();

  // The socket's name and two secrets, one to ask with and one to answer with.
  const std::string& address() const { return address_; }

  // Gives `file` to all who have asked. There must be `takers` of them.
  void Give(const Descriptor& file, int takers);

 private:
  std::string address_;
  Descriptor listener_;
};

class SegmentTaker {
 public:
  // Connects to the giver and asks.
  explicit SegmentTaker(const std::string& address);

  // What the giver has given.
  Descriptor Take();

 private:
  std::string address_;
  Descriptor connection_;
};

}  // namespace horovod_opt
