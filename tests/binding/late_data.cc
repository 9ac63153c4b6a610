// Tensors whose data is still being written when they are handed over, as that of a copy from a GPU
// to main memory that has only been started, or of a GPU that still computes it.
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <future>
#include <string>
#include <thread>

#include "fakes.h"
#include "horovod_opt/csrc/binding/hooks/enqueue.h"

// Tensors of floats, all under way at once, with keys from `first_key` on and the names key.N.
// late_tensors.py has the same struct.
struct LateCall {
  std::int64_t first_key;
  std::int32_t tensors;
  std::int32_t dies_after;       // so many of them are handed over; negative: it does not die
  const float* values;           // one tensor behind the other
  const std::int64_t* elements;  // by tensor
  const std::int32_t* devices;   // by tensor
  const std::int32_t* late_us;   // by tensor: from the call on, its values are not there
  // What came of it.
  float* sums;                  // over the ranks, as `values`
  std::int32_t* places;         // by tensor: how many had been called back before it
  std::int32_t* by_background;  // by tensor: no other thread than hvd-background has read it
  std::int32_t returned_early;  // all were handed over before the last one's values were there
  double ahead_ms;              // the first was called back so long before the last one's values
};

namespace horovod_opt {
namespace {

using horovod::common::Status;
using Clock = std::chrono::steady_clock;

// Knows who has read it.
class ReadTensor : public FakeTensor {
 public:
  using FakeTensor::FakeTensor;

  const void* data() const override {
    char name[16] = "";
    pthread_getname_np(pthread_self(), name, sizeof(name));
    (std::strcmp(name, "hvd-background") == 0 ? by_background_ : by_others_) = true;
    return FakeTensor::data();
  }
  bool ByBackgroundAlone() const { return by_background_ && !by_others_; }

 private:
  mutable std::atomic<bool> by_background_{false}, by_others_{false};
};

struct LateTensor {
  explicit LateTensor(std::int64_t elements) : tensor(std::make_shared<ReadTensor>(elements)) {}

  // The values are not there before all tensors are handed over; if that hangs, after a minute.
  void Write(const float* values, std::chrono::microseconds late,
             const std::atomic<bool>& handed_over) {
    const auto begin = Clock::now(), end = begin + late, hang = begin + std::chrono::minutes(1);
    const auto is_late = [&] {
      return Clock::now() < end || (!handed_over && Clock::now() < hang);
    };
    for (float garbage = -1e6f; is_late(); garbage -= 1.0f) {
      for (volatile float& value : tensor->values()) value = garbage;
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    for (volatile float& value : tensor->values()) value = *values++;
    written = Clock::now();
    event->Set();
  }

  std::shared_ptr<ReadTensor> tensor;
  std::shared_ptr<FakeReadyEvent> event = std::make_shared<FakeReadyEvent>();
  Clock::time_point written, called_back;
  int place = 0;
  std::promise<Status> done;
  std::thread writer;
};

}  // namespace
}  // namespace horovod_opt

// Returns the error of a tensor that has an error, or "".
extern "C" const char* late_data_sum(LateCall* call) {
  using namespace horovod_opt;
  static std::string error;
  error.clear();
  std::atomic<int> called_back{0};
  std::atomic<bool> handed_over{false};
  std::deque<LateTensor> all;
  const float* values = call->values;
  for (int i = 0; i < call->tensors; ++i) {
    if (i == call->dies_after) kill(getpid(), SIGKILL);
    LateTensor& late = all.emplace_back(call->elements[i]);
    late.writer = std::thread(&LateTensor::Write, &late, values,
                              std::chrono::microseconds(call->late_us[i]), std::cref(handed_over));
    values += call->elements[i];
    horovod::common::ReadyEventList events;
    events.AddReadyEvent(late.event);
    const auto enqueued = EnqueueTensorAllreduce(
        call->first_key + i, std::make_shared<FakeContext>(), late.tensor, late.tensor, events,
        "key." + std::to_string(call->first_key + i), call->devices[i],
        [&late, &called_back](const Status& status) {
          late.called_back = Clock::now();
          late.place = called_back++;
          late.done.set_value(status);
        },
        horovod::common::SUM, 1.0, 1.0, 0);
    if (!enqueued.ok()) late.done.set_value(enqueued);
  }
  call->returned_early = !all.back().event->opt_ready_now();
  handed_over = true;
  float* sums = call->sums;
  for (int i = 0; i < call->tensors; ++i) {
    LateTensor& late = all[i];
    const Status status = late.done.get_future().get();
    if (!status.ok()) error = status.reason();
    late.writer.join();
    call->places[i] = late.place;
    call->by_background[i] = late.tensor->ByBackgroundAlone();
    std::memcpy(sums, late.tensor->values().data(), late.tensor->size());
    sums += call->elements[i];
  }
  const std::chrono::duration<double, std::milli> ahead =
      all.back().written - all.front().called_back;
  call->ahead_ms = ahead.count();
  return error.c_str();
}
