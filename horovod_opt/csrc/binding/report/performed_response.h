// What upstream's background thread performs at this moment, for a state dump: it may have been
// waiting in there, inside MPI or Gloo, for long.
#pragma once

#include <chrono>
#include <mutex>
#include <vector>

#include "horovod_opt/csrc/core/report/state_page.h"

namespace horovod {
namespace common {
class Response;
struct TensorTableEntry;
}  // namespace common
}  // namespace horovod

namespace horovod_opt {

class PerformedResponse {
 public:
  // The background thread. What is given stays as it is until End().
  void Begin(const horovod::common::Response& response,
             const std::vector<horovod::common::TensorTableEntry>& entries,
             std::chrono::steady_clock::time_point start);
  void End();

  // Any thread.
  void DumpState(StatePage& page);

  // A forked child has none, and the mutex may have been locked.
  void Forget();

 private:
  std::mutex mutex_;  // protects what follows
  const horovod::common::Response* response_ = nullptr;
  const std::vector<horovod::common::TensorTableEntry>* entries_ = nullptr;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace horovod_opt
