// The exchanges and rings of one rank that are under way, and the thread that advances them.
#pragma once

#include <atomic>
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

class Exchanges {
 public:
  // `began`, `ended`: called by the thread when it begins and when it ends. `memory`: bytes for
  // messages, beyond what a chunk of each exchange needs. `heard`: called by the thread with what
  // another member rings with.
  Exchanges(std::unique_ptr<Transport> transport, std::int64_t memory, std::function<void()> began,
            std::function<void()> ended,
            std::function<void(std::uint64_t number)> heard = [](std::uint64_t) {});
  ~Exchanges();
  Exchanges(const Exchanges&) = delete;
  Exchanges& operator=(const Exchanges&) = delete;

  // Any thread, also from where another one ends. After Close(), or a failure, it will never end.
  void Begin(std::unique_ptr<Nonblocking> collective);
  // Rings the neighbours, if the transport can; of several numbers perhaps only the greatest. Any
  // thread.
  bool CanRing() const { return transport_->CanRing(); }
  void Ring(std::uint64_t number);
  // Ends the thread; exchanges that have not ended never will.
  void Close();

  // Why nothing goes on; empty: it does.
  std::string Failure() const;

 private:
  void Run();
  void Advance();
  void Fail(std::string failure);

  std::unique_ptr<Transport> transport_;
  BufferPool buffers_;                              // of the thread
  std::list<std::unique_ptr<Nonblocking>> under_way_;  // of the thread
  std::uint64_t rung_ = 0;                          // of the thread
  std::atomic<std::uint64_t> ring_{0};              // the greatest number
  std::atomic<bool> stop_{false};
  mutable std::mutex mutex_;  // protects what follows
  std::vector<std::unique_ptr<Nonblocking>> begun_;
  std::string failure_;
  std::thread thread_;
};

}  // namespace horovod_opt
