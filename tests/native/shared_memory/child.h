// Processes that a test forks.
#pragma once

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <utility>

namespace horovod_opt {

constexpr uid_t kNobody = 65534;  // no user whose files anyone has

// Runs a function and ends with the status that it returns; killed by the destructor if it is not
// waited for before.
class Child {
 public:
  explicit Child(const std::function<int()>& run) : pid_(fork()) {
    if (pid_ == 0) _exit(run());
  }
  Child(Child&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}
  ~Child() { Kill(); }

  pid_t pid() const { return pid_; }

  // Waits for its end; -1 if a signal ended it.
  int Status() {
    int status = 0;
    waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  void Kill() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    Status();
  }

 private:
  pid_t pid_;
};

// One process waits for what another has done.
class Signal {
 public:
  Signal() {
    if (pipe(ends_) != 0) ends_[0] = ends_[1] = -1;
  }
  Signal(const Signal&) = delete;
  ~Signal() {
    close(ends_[0]);
    close(ends_[1]);
  }

  bool Send() const { return write(ends_[1], "", 1) == 1; }
  bool Wait() const {
    char byte;
    return read(ends_[0], &byte, 1) == 1;
  }

 private:
  int ends_[2];
};

}  // namespace horovod_opt
