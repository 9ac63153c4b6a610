#include "horovod_opt/csrc/core/network/progress_engine.h"

#include <pthread.h>

#include <exception>
#include <utility>

namespace horovod_opt {

ProgressEngine::ProgressEngine(std::unique_ptr<Transport> transport, std::int64_t memory,
                               std::function<void()> on_begin, std::function<void()> on_end,
                               std::function<void(std::uint64_t number)> on_signal)
    : transport_(std::move(transport)),
      buffers_(memory),
      thread_([this, on_begin = std::move(on_begin), on_end = std::move(on_end),
               on_signal = std::move(on_signal)]() mutable {
        transport_->Listen(std::move(on_signal));
        on_begin();
        Run();
        on_end();
      }) {}

void ProgressEngine::Close() {
  if (!thread_.joinable()) return;
  stop_ = true;
  transport_->Wake();
  thread_.join();
}

ProgressEngine::~ProgressEngine() {
  Close();
  if (!transport_->MustStay()) return;
  // Never deleted, nor is the memory that they use.
  static auto& for_ever = *new std::vector<std::unique_ptr<Transport>>;
  static auto& with_them = *new std::list<std::unique_ptr<NonblockingCollective>>;
  static std::mutex mutex;
  std::lock_guard<std::mutex> lock(mutex);
  for_ever.push_back(std::move(transport_));
  with_them.splice(with_them.end(), under_way_);
}

void ProgressEngine::Begin(std::unique_ptr<NonblockingCollective> collective) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    new_.push_back(std::move(collective));
  }
  transport_->Wake();
}

void ProgressEngine::Signal(std::uint64_t number) {
  std::uint64_t greatest = signal_;
  while (greatest < number && !signal_.compare_exchange_weak(greatest, number)) continue;
  transport_->Wake();
}

std::string ProgressEngine::Failure() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return failure_;
}

void ProgressEngine::Fail(std::string failure) {
  std::lock_guard<std::mutex> lock(mutex_);
  failure_ = std::move(failure);
}

// No exception may leave a thread: it would end the process without a word to the other ranks.
void ProgressEngine::Run() {
  pthread_setname_np(pthread_self(), "hvd-nodes");
  try {
    while (!stop_) {
      Advance();
      if (!stop_) transport_->Progress(Transport::Clock::time_point::max());
    }
  } catch (const std::exception& problem) {
    Fail(problem.what());
  }
}

// Under the mutex, so that who waits for the page does not go meanwhile.
void ProgressEngine::AnswerDump() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (wanted_dump_ == nullptr) return;  // too late
  StatePage& page = *std::exchange(wanted_dump_, nullptr);
  page.Line(0, "between nodes, under way: " + std::to_string(under_way_.size()));
  for (const auto& collective : under_way_) collective->DumpState(page);
  transport_->DumpState(page);
  dumped_.notify_all();
}

void ProgressEngine::DumpState(StatePage& page) {
  std::unique_lock<std::mutex> own(mutex_, std::defer_lock);
  bool told = true;
  page.Under(own, "what goes between nodes", [&] {
    if (!failure_.empty()) return page.Line(0, "between nodes nothing goes on: " + failure_);
    if (stop_) return page.Line(0, "between nodes: shut down");
    wanted_dump_ = &page;
    own.unlock();
    transport_->Wake();
    own.lock();
    told = dumped_.wait_for(own, StatePage::kPatience, [&] { return wanted_dump_ == nullptr; });
    wanted_dump_ = nullptr;
  });
  if (!told) {
    page.Line(0, "between nodes: the thread hvd-nodes has not answered within " +
                     std::to_string(StatePage::kPatience.count()) +
                     " ms; it is blocked, in a call of the network or of what it calls back");
    page.Fact({"locked", "the thread hvd-nodes"});
  }
}

void ProgressEngine::Advance() {
  const std::uint64_t signal = signal_;
  if (signal > sent_signal_) {
    sent_signal_ = signal;
    transport_->Signal(signal);
  }
  std::vector<std::unique_ptr<NonblockingCollective>> collectives;
  bool dump = false;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    collectives.swap(new_);
    dump = wanted_dump_ != nullptr;
  }
  for (auto& collective : collectives) under_way_.push_back(std::move(collective));
  for (auto collective = under_way_.begin(); collective != under_way_.end();) {
    const bool over = (*collective)->Advance(*transport_, buffers_);
    collective = over ? under_way_.erase(collective) : std::next(collective);
  }
  if (dump) AnswerDump();
}

}  // namespace horovod_opt
