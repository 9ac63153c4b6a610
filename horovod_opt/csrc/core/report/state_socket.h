// Abstract Unix socket on which a process tells its own user, and root, its state, by a thread that
// sleeps until somebody connects. Nothing is read from who does.
//
// A signal would interrupt the framework's system calls, and its handler may take no lock; a file
// in a folder would outlive processes that are killed, and both need a thread as well. The name
// of the socket is drawn: /proc/PID/fd, which only the user and root can read, tells whose it is,
// also where processes of several containers share a network namespace.
#pragma once

#include <pthread.h>

#include <functional>
#include <string>

#include "horovod_opt/csrc/core/base/file_descriptor.h"

namespace horovod_opt {

class StateSocket {
 public:
  static constexpr const char* kPrefix = "horovod-opt-state-";

  // `state`: by the thread of the socket, each time that somebody may know it. Throws
  // std::system_error.
  explicit StateSocket(std::function<std::string()> state);
  // Waits for an answer that is being made.
  ~StateSocket();
  StateSocket(const StateSocket&) = delete;
  StateSocket& operator=(const StateSocket&) = delete;

  // In a forked child, which has the descriptors and not the thread: closes them. Afterwards the
  // object may be deleted. (Else who asks the parent when it has ended would wait for the child.)
  void LeaveToParent();

  const std::string& name() const { return name_; }

 private:
  static void* RunThread(void* socket);
  void Run();
  void Answer(const Descriptor& connection) const;
  // Until the descriptor is ready for `events`; false: the thread is to end, or nothing happens for
  // so long. Negative: forever.
  bool Await(int descriptor, short events, int milliseconds) const;

  const std::function<std::string()> state_;
  const std::string name_;
  Descriptor listener_, end_;
  pthread_t thread_{};
  bool has_thread_ = false;
};

}  // namespace horovod_opt
