#include "horovod_opt/csrc/binding/report/performed_response.h"

#include <new>
#include <string>

#include "horovod/common/common.h"
#include "horovod/common/message.h"

namespace horovod_opt {

using horovod::common::Response;
using horovod::common::TensorTableEntry;

void PerformedResponse::Begin(const Response& response,
                              const std::vector<TensorTableEntry>& entries,
                              std::chrono::steady_clock::time_point start) {
  std::lock_guard<std::mutex> lock(mutex_);
  response_ = &response;
  entries_ = &entries;
  start_ = start;
}

void PerformedResponse::End() {
  std::lock_guard<std::mutex> lock(mutex_);
  response_ = nullptr;
}

void PerformedResponse::DumpState(StatePage& page) {
  std::unique_lock<std::mutex> lock(mutex_, std::defer_lock);
  page.Under(lock, "what the background thread performs", [&] {
    if (response_ == nullptr) return;
    std::vector<std::string> names;
    for (const TensorTableEntry& entry : *entries_) {
      names.push_back(entry.tensor_name);
      page.Fact({"performs", page.Milliseconds(start_), entry.tensor_name});
    }
    page.Line(0, "background thread: performs " +
                     Response::ResponseType_Name(response_->response_type()) +
                     (names.empty() ? "" : " of " + StatePage::Names(names)) + ", " +
                     page.Age(start_));
  });
}

void PerformedResponse::Forget() { new (this) PerformedResponse; }

}  // namespace horovod_opt
