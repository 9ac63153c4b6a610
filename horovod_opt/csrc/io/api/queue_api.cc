// The queue's functions of the C API.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "horovod_opt/csrc/io/api/c_api.h"
#include "horovod_opt/csrc/io/node_cache/gather.h"
#include "horovod_opt/csrc/io/api/handles.h"
#include "horovod_opt/csrc/io/order/queue_numbers.h"
#include "horovod_opt/csrc/io/order/step_queue.h"

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

// Copies a step out of the ring. The caller has the ring in use, see StepQueue.
int FillStep(HioRing& ring, std::int64_t rank, const io::QueuedStep& step,
             const std::int64_t* places, io::Status* statuses, std::int64_t& begin,
             std::chrono::nanoseconds longest) {
  const io::StepGroup& group = *step.group;
  const std::int64_t first = step.first * group.parts, end = step.samples * group.parts;
  const io::Records wanted{0,
                           group.loads.data() + first,
                           group.places.data() + first,
                           group.sizes.data() + first,
                           group.checksums.empty() ? nullptr : group.checksums.data() + first,
                           group.files.data() + first,
                           group.offsets.data() + first,
                           nullptr,
                           places,
                           statuses};
  io::Progress progress{0, begin, 0};
  const io::Gathered gathered = io::GatherSteps(ring.ring, *ring.cached, rank, step.ring_step(), 1,
                                                &end, wanted, progress, longest);
  begin = progress.records;
  return io::Code(gathered, ring.ring);
}

template <class Number>
std::vector<Number> Copy(const Number* numbers, std::int64_t count) {
  return numbers == nullptr ? std::vector<Number>() : std::vector<Number>(numbers, numbers + count);
}

}  // namespace

HioQueue* hio_queue_create(HioRing* ring, int64_t rank) {
  return io::Guarded<HioQueue*>(nullptr, [&] {
    auto queue = std::make_shared<io::StepQueue>(
        [ring, rank](const io::QueuedStep& step, const std::int64_t* places, io::Status* statuses,
                     std::int64_t& begin, std::chrono::nanoseconds longest) {
          return FillStep(*ring, rank, step, places, statuses, begin, longest);
        });
    const std::lock_guard<std::mutex> lock(ring->queues_mutex);
    auto& queues = ring->queues;
    queues.erase(std::remove_if(queues.begin(), queues.end(),
                                [](const auto& each) { return each.expired(); }),
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

int hio_queue_is_over(const HioQueue* queue) { return queue->queue->is_over(); }

int64_t hio_queue_waited(const HioQueue* queue) { return queue->queue->waited().count(); }

void hio_queue_stop(HioQueue* queue) { queue->queue->Stop(); }

int hio_queue_wait(HioQueue* queue) {
  switch (queue->queue->Wait()) {
    case io::StepQueue::Event::kRoom:
      return HIO_ROOM;
    case io::StepQueue::Event::kAsked:
      return HIO_ASKED;
    case io::StepQueue::Event::kStopped:
      break;
  }
  return HIO_STOPPED;
}

int hio_queue_add(HioQueue* queue, int64_t ring_step, int64_t steps, int64_t parts,
                  const int64_t* ends, const int64_t* load, const int64_t* place,
                  const int64_t* size, const uint32_t* checksum, const int32_t* file,
                  const int64_t* offset, const int64_t* labels, const int64_t* infos,
                  const float* weights) {
  return io::Guarded(int{HIO_FAILED}, [&] {
    static_assert(HIO_INFOS == io::StepGroup::kInfos, "");
    io::StepGroup group;
    group.ring_step = ring_step;
    group.parts = parts;
    group.ends = Copy(ends, steps);
    const std::int64_t samples = steps > 0 ? ends[steps - 1] : 0, records = samples * parts;
    group.loads = Copy(load, records);
    group.places = Copy(place, records);
    group.sizes = Copy(size, records);
    group.checksums = Copy(checksum, records);
    group.files = Copy(file, records);
    group.offsets = Copy(offset, records);
    group.labels = Copy(labels, samples);
    group.infos = Copy(infos, steps * HIO_INFOS);
    group.weights = Copy(weights, steps);
    queue->queue->Add(std::move(group));
    return int{HIO_OK};
  });
}

void hio_queue_finish(HioQueue* queue, int has_failed) { queue->queue->Finish(has_failed != 0); }

void hio_queue_question(HioQueue* queue, HioQuestion* question) {
  io::StepQuestion& asked = queue->question;
  asked = queue->queue->question();
  *question = {asked.number,
               asked.step,
               asked.code,
               static_cast<std::int64_t>(asked.statuses.size()),
               asked.statuses.data(),
               asked.text.c_str()};
}

void hio_queue_go_on(HioQueue* queue, int64_t number, int64_t samples, const uint8_t* is_good,
                     int64_t size, float weight) {
  queue->queue->Answer(number, {"", false, Copy(is_good, samples), size, weight});
}

void hio_queue_refuse(HioQueue* queue, int64_t number, const char* error, int is_input) {
  queue->queue->Answer(number, {error, is_input != 0, {}, 0, 0});
}

int hio_queue_look(HioQueue* queue, HioStep* step, int64_t milliseconds) {
  io::QueuedStep found{};
  switch (queue->queue->Look(std::chrono::milliseconds(milliseconds), found)) {
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
  const io::StepGroup& group = *found.group;
  *step = {found.samples,
           group.parts,
           group.sizes.data() + found.first * group.parts,
           group.labels.empty() ? nullptr : group.labels.data() + found.first,
           group.infos.data() + found.step * HIO_INFOS,
           group.weights[static_cast<std::size_t>(found.step)]};
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
  io::StepAnswer& given = queue->answer;
  switch (queue->queue->Ask(code, text, std::chrono::milliseconds(milliseconds), given)) {
    case io::StepQueue::Asked::kTimeout:
      return HIO_TIMEOUT;
    case io::StepQueue::Asked::kStopped:
      return HIO_CLOSED;
    case io::StepQueue::Asked::kAnswered:
      break;
  }
  *answer = {given.error.empty() ? nullptr : given.error.c_str(), given.is_input_error,
             given.is_good.data(), given.size, given.weight};
  return HIO_OK;
}

void hio_queue_hand_out(HioQueue* queue, int64_t nanoseconds) {
  queue->queue->HandOut(std::chrono::nanoseconds(nanoseconds));
}
