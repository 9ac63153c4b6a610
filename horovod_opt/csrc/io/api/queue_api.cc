// The queue's functions of the C API.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "horovod_opt/csrc/io/api/handles.h"
#include "horovod_opt/csrc/io/node_cache/gather.h"
#include "horovod_opt/csrc/io/order/step_queue.h"
#include "horovod_opt_io_abi.h"

namespace io = horovod_opt::io;

struct HioQueue {
  std::shared_ptr<io::StepQueue> queue;
  std::int64_t number;
  io::StepQuestion question;  // the feeder's last one
  io::StepAnswer answer;      // the taker's last one
};

namespace {

io::QueueNumbers& Numbers() {
  static auto* const numbers = new io::QueueNumbers;  // threads may outlive static objects
  return *numbers;
}

// Copies a step out of the node cache. The caller has it in use, see StepQueue.
int FillStep(HioNodeCache& cache, std::int64_t rank, const io::QueuedStep& step,
             const std::int64_t* places, io::Status* statuses, std::int64_t& begin,
             std::chrono::nanoseconds longest) {
  const io::StepGroup& group = *step.group;
  const std::int64_t first = step.first * group.parts, end = step.samples * group.parts;
  const HioRecords records{0,
                           group.loads.data() + first,
                           group.places.data() + first,
                           group.sizes.data() + first,
                           group.checksums.empty() ? nullptr : group.checksums.data() + first,
                           group.files.data() + first,
                           group.offsets.data() + first,
                           nullptr,
                           places,
                           statuses,
                           0,
                           group.chunks.empty() ? nullptr : group.chunks.data() + first};
  HioProgress progress{0, begin, 0};
  const io::GatherResult result =
      io::GatherSteps(cache.cache, *cache.cached, rank, {step.cache_step(), 1, &end}, records,
                      progress, longest);
  begin = progress.records;
  return io::Code(result, cache.cache);
}

template <class Number>
std::vector<Number> Copy(const Number* numbers, std::int64_t count) {
  return numbers == nullptr ? std::vector<Number>() : std::vector<Number>(numbers, numbers + count);
}

}  // namespace

HioQueue* hio_queue_create(HioNodeCache* cache, int64_t rank) {
  return io::Guarded<HioQueue*>(nullptr, [&] {
    auto queue = std::make_shared<io::StepQueue>(
        [cache, rank](const io::QueuedStep& step, const std::int64_t* places, io::Status* statuses,
                     std::int64_t& begin, std::chrono::nanoseconds longest) {
          return FillStep(*cache, rank, step, places, statuses, begin, longest);
        });
    const std::lock_guard<std::mutex> lock(cache->queues_mutex);
    auto& queues = cache->queues;
    queues.erase(std::remove_if(queues.begin(), queues.end(),
                                [](const auto& weak) { return weak.expired(); }),
                 queues.end());
    queues.push_back(queue);
    const std::int64_t number = Numbers().Add(queue);
    return new HioQueue{std::move(queue), number, {}, {}};
  });
}

HioQueue* hio_queue_claim(int64_t number) {
  return io::Guarded<HioQueue*>(nullptr, [&]() -> HioQueue* {
    std::shared_ptr<io::StepQueue> queue = Numbers().Claim(number);
    return queue == nullptr ? nullptr : new HioQueue{std::move(queue), number, {}, {}};
  });
}

void hio_queue_free(HioQueue* queue) {
  Numbers().Remove(queue->number);
  delete queue;
}

int64_t hio_queue_number(const HioQueue* queue) { return queue->number; }

int64_t hio_queue_handed_out(const HioQueue* queue) { return queue->queue->handed_out(); }

int64_t hio_queue_waited(const HioQueue* queue) { return queue->queue->waited().count(); }

void hio_queue_stop(HioQueue* queue) { queue->queue->Stop(); }

int hio_queue_wait(HioQueue* queue) {
  switch (queue->queue->Wait()) {
    case io::StepQueue::Event::kRoom:
      return HIO_ROOM;
    case io::StepQueue::Event::kQuestion:
      return HIO_QUESTION;
    case io::StepQueue::Event::kStop:
      break;
  }
  return HIO_STOP;
}

int hio_queue_add(HioQueue* queue, int64_t cache_step, int64_t steps, int64_t parts,
                  const int64_t* ends, const HioRecords* records, const int64_t* labels,
                  const int64_t* infos, const float* weights) {
  return io::Guarded(int{HIO_FAILED}, [&] {
    static_assert(HIO_INFOS == io::StepGroup::kInfos, "");
    io::StepGroup group;
    group.cache_step = cache_step;
    group.parts = parts;
    group.ends = Copy(ends, steps);
    const std::int64_t samples = steps > 0 ? ends[steps - 1] : 0, count = samples * parts;
    group.loads = Copy(records->loads, count);
    group.places = Copy(records->places, count);
    group.sizes = Copy(records->sizes, count);
    group.checksums = Copy(records->checksums, count);
    group.chunks = Copy(records->chunks, count);
    group.files = Copy(records->files, count);
    group.offsets = Copy(records->offsets, count);
    group.labels = Copy(labels, samples);
    group.infos = Copy(infos, steps * HIO_INFOS);
    group.weights = Copy(weights, steps);
    queue->queue->Add(std::move(group));
    return int{HIO_OK};
  });
}

void hio_queue_finish(HioQueue* queue, int has_failed) { queue->queue->Finish(has_failed != 0); }

void hio_queue_question(HioQueue* queue, HioQuestion* question) {
  io::StepQuestion& latest = queue->question;
  latest = queue->queue->question();
  *question = {latest.number,
               latest.step,
               latest.code,
               static_cast<std::int64_t>(latest.statuses.size()),
               latest.statuses.data(),
               latest.text.c_str()};
}

void hio_queue_go_on(HioQueue* queue, int64_t number, int64_t samples, const uint8_t* is_good,
                     int64_t size, float weight) {
  queue->queue->Answer(number, {"", false, Copy(is_good, samples), size, weight});
}

void hio_queue_refuse(HioQueue* queue, int64_t number, const char* error, int is_input) {
  queue->queue->Answer(number, {error, is_input != 0, {}, 0, 0});
}

int hio_queue_look(HioQueue* queue, HioStep* step, int64_t milliseconds) {
  io::QueuedStep next{};
  switch (queue->queue->Look(std::chrono::milliseconds(milliseconds), next)) {
    case io::StepQueue::Next::kTimeout:
      return HIO_TIMEOUT;
    case io::StepQueue::Next::kOver:
      return HIO_OVER;
    case io::StepQueue::Next::kFailed:
      return HIO_FAILED;
    case io::StepQueue::Next::kStopped:
      return HIO_CLOSED;
    case io::StepQueue::Next::kStep:
      break;
  }
  const io::StepGroup& group = *next.group;
  *step = {next.samples,
           group.parts,
           group.sizes.data() + next.first * group.parts,
           group.labels.empty() ? nullptr : group.labels.data() + next.first,
           group.infos.data() + next.step * HIO_INFOS,
           group.weights[static_cast<std::size_t>(next.step)]};
  return HIO_OK;
}

int hio_queue_take(HioQueue* queue, const int64_t* places, int64_t* begin, int64_t* bad,
                   int64_t milliseconds) {
  return io::Guarded(int{HIO_FAILED}, [&] {
    const int code =
        queue->queue->Take(places, *begin, std::chrono::milliseconds(milliseconds));
    if (code == HIO_OK) {
      const std::vector<io::Status>& statuses = queue->queue->statuses();
      *bad = std::count_if(statuses.begin(), statuses.end(),
                           [](io::Status status) { return status != io::kGood; });
    }
    return code;
  });
}

int hio_queue_ask(HioQueue* queue, int code, const char* text, HioAnswer* answer,
                  int64_t milliseconds) {
  io::StepAnswer& latest = queue->answer;
  switch (queue->queue->Ask(code, text, std::chrono::milliseconds(milliseconds), latest)) {
    case io::StepQueue::AskResult::kTimeout:
      return HIO_TIMEOUT;
    case io::StepQueue::AskResult::kStopped:
      return HIO_CLOSED;
    case io::StepQueue::AskResult::kAnswered:
      break;
  }
  *answer = {latest.error.empty() ? nullptr : latest.error.c_str(), latest.is_input_error,
             latest.is_good.data(), latest.size, latest.weight};
  return HIO_OK;
}

void hio_queue_hand_out(HioQueue* queue, int64_t nanoseconds) {
  queue->queue->HandOut(std::chrono::nanoseconds(nanoseconds));
}
