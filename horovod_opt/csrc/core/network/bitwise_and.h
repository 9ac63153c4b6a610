// A bitwise AND over the leaders of all groups, by which they agree (horovod_ops_order.h): an exchange that
// the caller waits for.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "horovod_opt/csrc/core/network/progress_engine.h"

namespace horovod_opt {

class LeadersAnd {
 public:
  // `channels`: as of Exchange.
  LeadersAnd(Exchanges& exchanges, int members, int self, int channels)
      : exchanges_(exchanges), members_(members), self_(self), channels_(channels) {}

  // In place. One thread. False if the others cannot be reached any more, or after Close().
  bool operator()(std::vector<std::uint64_t>& words);
  // Any thread.
  void Close() { closed_ = true; }

 private:
  // Lives as long as the exchange, which may never end.
  struct Call {
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<std::uint64_t> words;
    bool over = false, good = false;
  };

  Exchanges& exchanges_;
  const int members_, self_, channels_;
  std::uint64_t calls_ = 0;
  std::atomic<bool> closed_{false};
};

}  // namespace horovod_opt
