// Tensors that make trouble when one asks whether they can be read, as before they are reduced.
#include <signal.h>
#include <unistd.h>

#include <cstdint>
#include <future>
#include <new>
#include <string>

#include "fakes.h"
#include "horovod_opt/csrc/binding/hooks/enqueue.h"

namespace horovod_opt {
namespace {

using horovod::common::Status;

enum class Trouble { kNone, kThrows, kKills };

class TroubledEvent : public FakeReadyEvent {
 public:
  explicit TroubledEvent(Trouble trouble) : trouble_(trouble) { Set(); }

  bool opt_ready_now() const override {
    if (trouble_ == Trouble::kThrows) throw std::bad_alloc();
    if (trouble_ == Trouble::kKills) kill(getpid(), SIGKILL);
    return true;
  }

 private:
  const Trouble trouble_;
};

}  // namespace
}  // namespace horovod_opt

// Sums a tensor on `device` with key 1 and one in main memory with key 2 over the ranks, both of
// ones. The latter makes `trouble`. What went wrong, or the first element of the
// sum.
extern "C" const char* troubled_sum(int device, int trouble) {
  using namespace horovod_opt;
  static std::string outcome;
  constexpr std::int64_t kElements = 10;
  const std::shared_ptr<FakeTensor> tensors[] = {std::make_shared<FakeTensor>(kElements),
                                                 std::make_shared<FakeTensor>(kElements)};
  std::promise<Status> done[2];
  for (int i = 0; i < 2; ++i) {
    for (float& value : tensors[i]->values()) value = 1;
    horovod::common::ReadyEventList events;
    if (i == 1)
      events.AddReadyEvent(std::make_shared<TroubledEvent>(static_cast<Trouble>(trouble)));
    const auto enqueued = EnqueueTensorAllreduce(
        1 + i, std::make_shared<FakeContext>(), tensors[i], tensors[i], events,
        "key." + std::to_string(1 + i), i == 0 ? device : CPU_DEVICE_ID,
        [&done, i](const Status& status) { done[i].set_value(status); }, horovod::common::SUM, 1.0,
        1.0, 0);
    if (!enqueued.ok()) done[i].set_value(enqueued);
  }
  outcome.clear();
  for (auto& promise : done) {
    const Status status = promise.get_future().get();
    if (!status.ok()) outcome = status.reason();
  }
  if (outcome.empty()) outcome = std::to_string(tensors[1]->values()[0]);
  return outcome.c_str();
}
