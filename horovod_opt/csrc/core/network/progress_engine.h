// Progress engine: the nonblocking collectives of one rank that are under way, and the thread that
// advances them.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "horovod_opt/csrc/core/network/nonblocking_collective.h"

namespace horovod_opt {

class ProgressEngine {
 public:
  // `on_begin`, `on_end`: called by the thread when it begins and when it ends. `memory`: bytes for
  // messages, beyond what a chunk of each allreduce needs. `on_signal`: called by the thread with
  // what another member signals.
  ProgressEngine(
      std::unique_ptr<Transport> transport, std::int64_t memory, std::function<void()> on_begin,
      std::function<void()> on_end,
      std::function<void(std::uint64_t number)> on_signal = [](std::uint64_t) {});
  ~ProgressEngine();
  ProgressEngine(const ProgressEngine&) = delete;
  ProgressEngine& operator=(const ProgressEngine&) = delete;

  // Any thread, also from where another one ends. After Close(), or a failure, it will never end.
  void Begin(std::unique_ptr<NonblockingCollective> collective);
  // Signals the neighbours, if the transport can; of several numbers perhaps only the greatest. Any
  // thread.
  bool CanSignal() const { return transport_->CanSignal(); }
  void Signal(std::uint64_t number);
  // Ends the thread; allreduces that have not ended never will.
  void Close();

  // Why nothing goes on; empty: it does.
  std::string Failure() const;

  // What is under way, which its own thread tells; if that does not within the patience of the page,
  // this is told.
  void DumpState(StatePage& page);

 private:
  void Run();
  void Advance();
  void Fail(std::string failure);
  void AnswerDump();

  std::unique_ptr<Transport> transport_;
  BufferPool buffers_;                                           // of the thread
  std::list<std::unique_ptr<NonblockingCollective>> under_way_;  // of the thread
  std::uint64_t sent_signal_ = 0;                                // of the thread
  std::atomic<std::uint64_t> signal_{0};                         // the greatest number
  std::atomic<bool> stop_{false};
  mutable std::mutex mutex_;  // protects what follows
  std::vector<std::unique_ptr<NonblockingCollective>> new_;
  std::string failure_;
  // The page that somebody waits for and the thread is to fill; until `dumped_`.
  StatePage* wanted_dump_ = nullptr;
  std::condition_variable dumped_;
  std::thread thread_;
};

}  // namespace horovod_opt
