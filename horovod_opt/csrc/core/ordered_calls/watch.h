// A watchdog: one thread of the process that looks after all its groups, ten times a second.
#pragma once

#include <functional>
#include <memory>

namespace horovod_opt {

class Watched {
 public:
  virtual ~Watched() = default;
  virtual void LookAfter() = 0;  // by the watch's thread
  virtual void LeaveAtExit() = 0;
};

namespace watch {

// From now on until it is gone. LeaveAtExit() is called as the process ends.
void Add(const std::weak_ptr<Watched>& watched);

// Has the watch's thread call it, and waits. What belongs to a thread that ends with the process
// alone, as a robust mutex, is taken there. What it throws reaches the caller.
void Do(const std::function<void()>& function);

}  // namespace watch
}  // namespace horovod_opt
