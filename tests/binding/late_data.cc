// Tensors whose data is still being written when they are handed over, as that of a copy from a GPU
// to main memory that has only been started.
#include <chrono>
#include <cstdint>
#include <cstring>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "fakes.h"
#include "horovod_opt/csrc/binding/hooks/enqueue.h"

namespace horovod_opt {
namespace {

using horovod::common::Status;

struct LateTensor {
  explicit LateTensor(std::int64_t elements) : tensor(std::make_shared<FakeTensor>(elements)) {}

  void Write(float value, std::chrono::milliseconds late) {
    const auto end = std::chrono::steady_clock::now() + late;
    for (float garbage = -1e6f; std::chrono::steady_clock::now() < end; garbage -= 1.0f) {
      for (volatile float& one : tensor->values()) one = garbage;
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    for (volatile float& one : tensor->values()) one = value;
    event->Set();
  }

  std::shared_ptr<FakeTensor> tensor;
  std::shared_ptr<FakeReadyEvent> event = std::make_shared<FakeReadyEvent>();
  std::promise<Status> done;
  std::thread writer;
};

}  // namespace
}  // namespace horovod_opt

// Sums `tensors` tensors of `elements` floats over the ranks, all under way at once: with keys from
// `first_key` on and the names key.N. Each element is `value`, but only some time after the call:
// `late_ms` for the last tensor, and as much more for each one before it. Copies the results one
// behind the other. False if one has an error.
extern "C" bool late_data_sum(std::int64_t first_key, int tensors, std::int64_t elements,
                              float value, int late_ms, float* results) {
  using namespace horovod_opt;
  std::vector<LateTensor> all;
  for (int i = 0; i < tensors; ++i) all.emplace_back(elements);
  for (int i = 0; i < tensors; ++i) {
    LateTensor& one = all[i];
    one.writer = std::thread(&LateTensor::Write, &one, value,
                             std::chrono::milliseconds(late_ms * (tensors - i)));
    horovod::common::ReadyEventList events;
    events.AddReadyEvent(one.event);
    const auto enqueued = EnqueueTensorAllreduce(
        first_key + i, std::make_shared<FakeContext>(), one.tensor, one.tensor, events,
        "key." + std::to_string(first_key + i), CPU_DEVICE_ID,
        [&one](const Status& status) { one.done.set_value(status); }, horovod::common::SUM, 1.0,
        1.0, 0);
    if (!enqueued.ok()) one.done.set_value(enqueued);
  }
  bool ok = true;
  for (LateTensor& one : all) {
    ok = one.done.get_future().get().ok() && ok;
    one.writer.join();
    std::memcpy(results, one.tensor->data(), one.tensor->size());
    results += elements;
  }
  return ok;
}
