// Bounded queue of steps: on their way from a thread of Python, which knows what is in them, to
// whoever takes them without Python's lock.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "horovod_opt/csrc/io/files/damages.h"

namespace horovod_opt {
namespace io {

// Steps that follow each other in the node cache, from `cache_step` on. Records lie sample after
// sample, part after part.
struct StepGroup {
  static constexpr std::int64_t kInfos = 6;  // whole numbers of a batch, see batch.py

  std::int64_t cache_step = 0, parts = 1;
  std::vector<std::int64_t> ends;  // step i has the samples before ends[i]
  std::vector<std::int64_t> loads, places, sizes, offsets;  // of records
  std::vector<std::int32_t> files;
  std::vector<std::uint32_t> checksums;  // none: not compared
  std::vector<std::int64_t> chunks;      // of records; none: not compared
  std::vector<std::int64_t> labels;      // of samples; or none
  std::vector<std::int64_t> infos;       // kInfos of each step
  std::vector<float> weights;            // of steps
};

// One of them, for as long as it is the next one.
struct QueuedStep {
  const StepGroup* group;
  std::int64_t step;            // in the group
  std::int64_t first, samples;  // its first sample there, and how many it has

  std::int64_t cache_step() const { return group->cache_step + step; }
};

// What the taker cannot go on without: `code` says why it failed, or the step has bad records; or
// with HIO_TIMEOUT that it has waited for some time, and goes on doing so.
struct StepQuestion {
  std::int64_t number = 0;
  std::int64_t step = 0;  // from the first one that was added on
  int code = 0;           // HIO_*; HIO_OK: see statuses
  std::string text;       // of HIO_FAILED
  std::vector<Status> statuses;  // of the step's records
};

struct StepAnswer {
  std::string error;            // empty: go on with the good samples
  bool is_input_error = false;  // of the caller's
  std::vector<std::uint8_t> is_good;  // of samples
  std::int64_t size = 0;              // of the batch without the others
  float weight = 0;
};

// Between a feeder and a taker, each of them one thread at a time. Its invariants:
//   (1) the taker gets the steps in the order in which they were added: a step stays the next one
//       until it is handed out, whatever becomes of the attempts to take it;
//   (2) the end, also that of a feeder that failed, comes after all steps;
//   (3) the feeder hears of room only while fewer than kGroups groups are kept, so that no more are
//       if it adds one each time; the step that is being taken is in one of them;
//   (4) an answer reaches the question that it was given to, or nobody: the taker may have given up
//       and asked something else;
//   (5) a question is heard of before room: the taker waits, and room can;
//   (6) once Detach() has returned, nobody is in `fill`, and nobody enters it again: the node cache
//       that it reads, and the names of the files, may go;
//   (7) Stop() wakes both sides, and nobody waits afterwards;
//   (8) handed_out() counts what was handed out, nothing that was only begun.
//
// Nobody calls Python, and the node cache is in use in `fill` only, which returns in time. So what
// Detach() waits for does not wait for Python, which has called it.
class StepQueue {
 public:
  static constexpr std::size_t kGroups = 2;

  // Copies records of a step from number `begin` on to places[], waits for `longest` at most, and
  // is done with the step when it has all: Gather() in the rank's node cache. Returns HIO_*.
  using Fill = std::function<int(const QueuedStep& step, const std::int64_t* places,
                                 Status* statuses, std::int64_t& begin,
                                 std::chrono::nanoseconds longest)>;

  explicit StepQueue(Fill fill) : fill_(std::move(fill)) {}
  StepQueue(const StepQueue&) = delete;

  // The feeder's. Wait() sleeps until there is something to do.
  enum class Event { kRoom, kQuestion, kStop };
  Event Wait();
  // At least one step. Throws std::invalid_argument: its arrays do not fit together.
  void Add(StepGroup group);
  // Nothing comes after that. `has_failed`: the taker then asks why.
  void Finish(bool has_failed);
  StepQuestion question() const;  // after kQuestion
  void Answer(std::int64_t number, StepAnswer answer);

  // Anybody's.
  void Stop();
  void Detach();
  std::int64_t handed_out() const;
  std::chrono::nanoseconds waited() const;

  // The taker's.
  enum class Next { kStep, kTimeout, kOver, kFailed, kStopped };
  Next Look(std::chrono::nanoseconds longest, QueuedStep& step);
  // Takes the step that Look() has found, as `fill` does; HIO_CLOSED after Detach().
  int Take(const std::int64_t* places, std::int64_t& begin, std::chrono::nanoseconds longest);
  // Of the step's records, after HIO_OK.
  const std::vector<Status>& statuses() const { return statuses_; }
  enum class AskResult { kAnswered, kTimeout, kStopped };
  // After kTimeout the next call goes on waiting for the same answer.
  AskResult Ask(int code, const std::string& text, std::chrono::nanoseconds longest,
            StepAnswer& answer);
  // `waited`: how long whoever wanted the step has.
  void HandOut(std::chrono::nanoseconds waited = {});

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<StepGroup> groups_;
  std::size_t next_ = 0;  // step of the first group
  std::int64_t handed_out_ = 0;
  std::chrono::nanoseconds waited_{};  // of these steps together
  bool is_finished_ = false, has_failed_ = false;
  bool is_stopped_ = false, is_detached_ = false, is_filling_ = false;
  bool is_asked_ = false, is_answered_ = false;
  StepQuestion question_;
  StepAnswer answer_;
  Fill fill_;
  // The taker's alone.
  QueuedStep step_{};
  std::vector<Status> statuses_;
};

// Numbers of queues: what a graph of TensorFlow can carry to where their steps are taken.
//
// For several threads. Invariants: a number is never given twice; it is good for one Claim(), so
// that a queue has one taker; and the numbers keep no queue alive.
class QueueNumbers {
 public:
  std::int64_t Add(const std::shared_ptr<StepQueue>& queue);
  // Null: there is none of this number, or it has a taker already.
  std::shared_ptr<StepQueue> Claim(std::int64_t number);
  // It is not to be claimed any more.
  void Remove(std::int64_t number);

 private:
  std::mutex mutex_;
  std::int64_t next_ = 1;
  std::map<std::int64_t, std::weak_ptr<StepQueue>> queues_;
};

}  // namespace io
}  // namespace horovod_opt
