#include "horovod_opt/csrc/io/c_api.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "horovod_opt/csrc/io/byte_lists.h"
#include "horovod_opt/csrc/io/cached_records.h"
#include "horovod_opt/csrc/io/crc32c.h"
#include "horovod_opt/csrc/io/gather.h"
#include "horovod_opt/csrc/io/loader.h"
#include "horovod_opt/csrc/io/page_cache.h"
#include "horovod_opt/csrc/io/peer_watch.h"
#include "horovod_opt/csrc/io/permutation.h"
#include "horovod_opt/csrc/io/queue_numbers.h"
#include "horovod_opt/csrc/io/step_order.h"
#include "horovod_opt/csrc/io/step_queue.h"

using horovod_opt::Descriptor;
namespace io = horovod_opt::io;

struct HioRing {
  explicit HioRing(io::RingMemory memory) : ring(std::move(memory)) {}

  io::Ring ring;
  io::FileTable files;
  std::unique_ptr<io::Loader> loader;  // the leader's
  std::unique_ptr<io::CachedRecords> cached;
  std::unique_ptr<io::PeerWatch> watch;
  std::mutex queues_mutex;
  std::vector<std::weak_ptr<io::StepQueue>> queues;  // to be detached
};

struct HioQueue {
  std::shared_ptr<io::StepQueue> queue;
  std::int64_t number;
  io::StepQuestion question;  // the feeder's last one
  io::StepAnswer answer;      // the taker's last one
};

namespace {

thread_local std::string last_error;

// No exception leaves the library.
template <class Result, class Action>
Result Guarded(Result failed, const Action& action) {
  try {
    return action();
  } catch (const std::exception& error) {
    last_error = error.what();
    return failed;
  }
}

int EndOf(const io::Ring& ring) {
  switch (ring.end()) {
    case io::End::kNone:
      return HIO_OK;
    case io::End::kClosed:
      return HIO_CLOSED;
    case io::End::kLeaderDied:
      return HIO_LEADER_DIED;
    case io::End::kRankDied:
      return HIO_RANK_DIED;
    case io::End::kFailed:
      last_error = ring.failure();
      return HIO_LEADER_FAILED;
  }
  return HIO_CLOSED;
}

int Code(io::Gathered gathered, const io::Ring& ring) {
  switch (gathered) {
    case io::Gathered::kAll:
      return HIO_OK;
    case io::Gathered::kTimeout:
      return HIO_TIMEOUT;
    case io::Gathered::kOver:
      return HIO_OVER;
    case io::Gathered::kTooFar:
      return HIO_TOO_FAR;
    case io::Gathered::kEnded:
      break;
  }
  return EndOf(ring);
}

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
  return Code(gathered, ring.ring);
}

template <class Number>
std::vector<Number> Copy(const Number* numbers, std::int64_t count) {
  return numbers == nullptr ? std::vector<Number>() : std::vector<Number>(numbers, numbers + count);
}

}  // namespace

int hio_version(void) { return HIO_VERSION; }

const char* hio_error(void) { return last_error.c_str(); }

uint32_t hio_crc32c(uint32_t crc, const void* data, int64_t bytes) {
  return io::Crc32c(crc, data, static_cast<std::size_t>(bytes));
}

int hio_permute(int64_t count, const uint64_t* numbers, int64_t ns, const uint64_t* n, int64_t keys,
                const uint64_t* first, const uint64_t* step, int forward, uint64_t* out) {
  return Guarded(int{HIO_FAILED}, [&] {
    for (int64_t i = 0; i < count; ++i) {
      const uint64_t below = n[ns > 1 ? i : 0];
      if (numbers[i] >= below || below > uint64_t{1} << 62) {
        throw std::invalid_argument("there is no number " + std::to_string(numbers[i]) + " of " +
                                    std::to_string(below) + " to permute");
      }
      const int64_t k = keys > 1 ? i : 0;
      const io::Permutation permutation(below, {first[k], step[k]});
      out[i] = forward ? permutation.Forward(numbers[i]) : permutation.Backward(numbers[i]);
    }
    return int{HIO_OK};
  });
}

int hio_order_take(const HioOrder* order, int64_t begin, int64_t positions, int64_t steps,
                   int64_t first, int64_t end, int64_t* taken_positions, int64_t* samples) {
  return Guarded(int{HIO_FAILED}, [&] {
    io::StepOrder(*order).Take({begin, positions, steps}, first, end, taken_positions, samples);
    return int{HIO_OK};
  });
}

int hio_order_mark(const HioOrder* order, int64_t begin, int64_t positions, int64_t steps,
                   int64_t first, int64_t end, int64_t number, int64_t* firsts, int64_t* lasts) {
  return Guarded(int{HIO_FAILED}, [&] {
    io::StepOrder(*order).Mark({begin, positions, steps}, first, end, number, firsts, lasts);
    return int{HIO_OK};
  });
}

HioRing* hio_create(int64_t ranks, int64_t slots, int64_t slot_bytes, int64_t memory,
                    int64_t start) {
  return Guarded<HioRing*>(nullptr, [&] {
    return new HioRing(io::RingMemory::Create({ranks, slots, slot_bytes, memory, start}));
  });
}

int hio_file(const HioRing* ring) { return ring->ring.memory().file().number(); }

HioRing* hio_attach(int file) {
  return Guarded<HioRing*>(nullptr,
                           [&] { return new HioRing(io::RingMemory::Attach(Descriptor(file))); });
}

int hio_watch(HioRing* ring, int socket) {
  return Guarded(int{HIO_FAILED}, [&] {
    ring->watch = std::make_unique<io::PeerWatch>(
        socket, [ring] { ring->ring.EndHere(io::End::kLeaderDied); });
    return int{HIO_OK};
  });
}

int hio_files(HioRing* ring, const char* root, int64_t files, const char* names,
              const int64_t* ends, const int64_t* bytes, const int64_t* mtime_ns) {
  return Guarded(int{HIO_FAILED}, [&] {
    ring->files = {root, files, names, ends, bytes, mtime_ns};
    ring->cached = std::make_unique<io::CachedRecords>(
        ring->files, ring->ring.memory().header().counters, ring->ring.ended_here());
    return int{HIO_OK};
  });
}

int hio_start(HioRing* ring, int threads, int leave_cached) {
  return Guarded(int{HIO_FAILED}, [&] {
    ring->loader =
        std::make_unique<io::Loader>(ring->ring, ring->files, threads, pread,
                                     leave_cached ? io::IsCached : io::Loader::Cached());
    return int{HIO_OK};
  });
}

int hio_announce(HioRing* ring, int64_t loads, const int64_t* first, const int64_t* last,
                 const int64_t* bytes) {
  return Guarded(int{HIO_FAILED}, [&] {
    std::vector<io::Load> announced;
    for (int64_t i = 0; i < loads; ++i) announced.push_back({first[i], last[i], bytes[i], {}});
    ring->loader->Check(announced);
    return int{HIO_OK};
  });
}

int hio_loads(HioRing* ring, int64_t loads, const int64_t* first, const int64_t* last,
              const int64_t* bytes, const int64_t* extents, const int32_t* file,
              const int64_t* offset, const int64_t* length, const int64_t* place) {
  return Guarded(int{HIO_FAILED}, [&] {
    std::vector<io::Load> added;
    for (int64_t i = 0; i < loads; ++i) {
      io::Load load{first[i], last[i], bytes[i], {}};
      for (int64_t e = extents[i]; e < extents[i + 1]; ++e) {
        load.extents.push_back({file[e], offset[e], length[e], place[e]});
      }
      added.push_back(std::move(load));
    }
    const bool is_added = ring->loader->Add(std::move(added));
    return is_added ? int{HIO_OK} : EndOf(ring->ring);
  });
}

int hio_gather(HioRing* ring, int64_t rank, int64_t step, int64_t records, const int64_t* load,
               const int64_t* place, const int64_t* size, const uint32_t* checksum,
               const int32_t* file, const int64_t* offset, void* out, const int64_t* out_place,
               int32_t* status, int64_t* begin, int64_t milliseconds) {
  return Guarded(int{HIO_FAILED}, [&]() -> int {
    const io::Records wanted{records, load,   place, size, checksum, file, offset,
                             static_cast<char*>(out), out_place, status};
    return Code(
        io::Gather(ring->ring, *ring->cached, rank, step, wanted, *begin,
                   std::chrono::milliseconds(milliseconds)),
        ring->ring);
  });
}

int hio_take(HioRing* ring, int64_t rank, int64_t first, int64_t steps, const int64_t* ends,
             const int64_t* load, const int64_t* place, const int64_t* size,
             const uint32_t* checksum, const int32_t* file, const int64_t* offset,
             const int64_t* out_place, int32_t* status, void* out,
             int64_t origin, int64_t* taken, int64_t* begin, int64_t* bad, int64_t milliseconds) {
  return Guarded(int{HIO_FAILED}, [&] {
    const io::Records wanted{0,      load,      place,  size,  checksum, file,
                             offset, static_cast<char*>(out), out_place, status, origin};
    io::Progress progress{*taken, *begin, *bad};
    const io::Gathered gathered =
        io::GatherSteps(ring->ring, *ring->cached, rank, first, steps, ends, wanted, progress,
                        std::chrono::milliseconds(milliseconds));
    *taken = progress.steps;
    *begin = progress.records;
    *bad = progress.bad;
    return Code(gathered, ring->ring);
  });
}

void* hio_byte_lists(const HioPython* python, int64_t lists, const int64_t* ends,
                     const int64_t* sizes, int64_t* places) {
  return io::NewByteLists(*python, lists, ends, sizes, places);
}

HioQueue* hio_queue_create(HioRing* ring, int64_t rank) {
  return Guarded<HioQueue*>(nullptr, [&] {
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
  return Guarded<HioQueue*>(nullptr, [&]() -> HioQueue* {
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
  return Guarded(int{HIO_FAILED}, [&] {
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
  return Guarded(int{HIO_FAILED}, [&] {
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

int hio_done(HioRing* ring, int64_t rank, int64_t step) {
  return ring->ring.Done(rank, step) ? HIO_OK : HIO_TOO_FAR;
}

int hio_skip_to(HioRing* ring, int64_t rank, int64_t step) {
  ring->ring.SkipTo(rank, step);
  return HIO_OK;
}

int hio_leave(HioRing* ring, int64_t rank) {
  ring->ring.Leave(rank);
  return HIO_OK;
}

int hio_has_left(const HioRing* ring, int64_t rank) { return ring->ring.HasLeft(rank); }

int64_t hio_cursor(const HioRing* ring, int64_t rank) {
  return ring->ring.memory().rank(rank).cursor;
}

void hio_leader_stats(const HioRing* ring, int64_t stats[8]) {
  const io::Counters& counters = ring->ring.memory().header().counters;
  const std::atomic<std::int64_t>* const in_order[] = {
      &counters.bytes_read,     &counters.requests,   &counters.loads,
      &counters.skipped_loads,  &counters.live_bytes, &counters.most_live_bytes,
      &counters.most_used_bytes, &counters.cached_bytes};
  for (const auto* counter : in_order) *stats++ = *counter;
}

void hio_rank_stats(const HioRing* ring, int64_t rank, int64_t stats[5]) {
  const io::RankState& state = ring->ring.memory().rank(rank);
  for (const auto* counter :
       {&state.waits, &state.wait_ns, &state.records, &state.bytes, &state.cached}) {
    *stats++ = *counter;
  }
}

int hio_state(const HioRing* ring) { return EndOf(ring->ring); }

int64_t hio_dead_rank(const HioRing* ring) { return ring->ring.memory().header().dead_rank; }

void hio_end(HioRing* ring, int64_t dead_rank) {
  ring->ring.EndForAll(dead_rank < 0 ? io::End::kClosed : io::End::kRankDied, dead_rank);
}

void hio_fail(HioRing* ring, const char* why) { ring->ring.Fail(why); }

void hio_end_here(HioRing* ring) { ring->ring.EndHere(io::End::kClosed); }

void hio_free(HioRing* ring) {
  ring->ring.EndHere(io::End::kClosed);  // whoever takes a step returns
  for (const auto& each : ring->queues) {
    if (const auto queue = each.lock()) queue->Detach();
  }
  ring->watch.reset();
  ring->loader.reset();
  delete ring;
}

void hio_forget(HioRing* ring) { ring->ring.memory().Forget(); }
