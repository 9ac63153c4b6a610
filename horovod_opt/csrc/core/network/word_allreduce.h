// Allreduces of words: what the members of a reduction over groups agree by, and by what they try
// out whether their messages arrive.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "horovod_opt/csrc/core/network/nonblocking_allreduce.h"
#include "horovod_opt/csrc/core/network/transport.h"

namespace horovod_opt {

class ProgressEngine;

using Words = std::vector<std::uint64_t>;

// Words that an allreduce replaces by what it has made of them. `reduce`: of words.
inline AllreduceData AllreduceDataOf(const std::shared_ptr<Words>& words,
                                     decltype(Arithmetic::reduce) reduce) {
  return {static_cast<std::int64_t>(words->size() * sizeof(Words::value_type)),
          {sizeof(Words::value_type), reduce, nullptr},
          [words](std::int64_t begin, std::int64_t end, char* to) {
            std::memcpy(to, reinterpret_cast<const char*>(words->data()) + begin,
                        static_cast<std::size_t>(end - begin));
          },
          [words](std::int64_t begin, std::int64_t end, const char* from) {
            std::memcpy(reinterpret_cast<char*>(words->data()) + begin, from,
                        static_cast<std::size_t>(end - begin));
          },
          {},
          {}};
}

// A bitwise AND over the leaders of all groups, by which they agree (horovod_ops_order.h): an
// allreduce that the caller waits for.
class BitwiseAndAllreduce {
 public:
  // `channels`: as of NonblockingAllreduce.
  BitwiseAndAllreduce(ProgressEngine& engine, int members, int self, int channels)
      : engine_(engine), members_(members), self_(self), channels_(channels) {}

  // In place. One thread. False if the others cannot be reached any more, or after Close().
  bool operator()(std::vector<std::uint64_t>& words);
  // Any thread.
  void Close() { closed_ = true; }

 private:
  // Lives as long as the allreduce, which may never end.
  struct Call {
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<std::uint64_t> words;
    bool over = false, good = false;
  };

  ProgressEngine& engine_;
  const int members_, self_, channels_;
  std::uint64_t calls_ = 0;
  std::atomic<bool> closed_{false};
};

// Whether messages between the members of a reduction arrive at all, before anything depends on it:
// a firewall, a container without the right to read another process's memory, an MPI whose
// interface is wrong. Adds up little several times and then much, as buckets are. Collective over
// the members. How long it took at best: it is done a few times, as a machine may be busy with
// something else. Throws std::runtime_error if it does not end within `patience`, or the sums are
// wrong.
std::chrono::nanoseconds TryAllreduce(Transport& transport, int members, int self,
                                      std::chrono::milliseconds patience);

}  // namespace horovod_opt
