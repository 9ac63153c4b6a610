// Ways of an allreduce among the processes of one node, timed against each other in one run, and
// beside what the memory gives to plain loops. Each rank has a core while there are enough.
#include <sched.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "horovod_opt/csrc/core/elements/streaming_copy.h"
#include "horovod_opt/csrc/core/reduction/node_collectives.h"
#include "horovod_opt/csrc/core/shared_memory/node_barrier.h"

namespace horovod_opt {
namespace {

constexpr int kMostRanks = 16, kMostRounds = 200, kMostWays = 8;

struct Options {
  std::size_t bytes = 102'400'000, ranks = 2, rounds = 21, tensors = 161;
  bool huge = false;  // pages of the gradients
};

struct Times {
  double wall, cpu;  // seconds
};

// In memory that all ranks share.
struct Shared {
  NodeBarrier barrier;
  pid_t process[kMostRanks];
  char* gradients[kMostRanks];  // in the memory of that process
  Times times[kMostWays][kMostRounds][kMostRanks];
};

char* Map(std::size_t bytes, int kind, bool huge) {
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, kind | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  if (huge) madvise(memory, bytes, MADV_HUGEPAGE);
  return static_cast<char*>(memory);
}

double Seconds(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// One rank of the job.
class Rank {
 public:
  Rank(const Options& options, Shared& shared, char* node, char* mapped, int rank)
      : options_(options),
        shared_(shared),
        rank_(rank),
        own_(Map(options.bytes, MAP_PRIVATE, options.huge)),
        mapped_(mapped),
        node_(node, NodeCollectives::Bytes(ranks()), rank, ranks()),
        scratch_(kBlock * options.ranks) {
    shared.process[rank] = getpid();
    shared.gradients[rank] = own_;
    cpu_set_t cores;
    CPU_ZERO(&cores);
    CPU_SET(
        static_cast<std::size_t>(rank) % static_cast<std::size_t>(sysconf(_SC_NPROCESSORS_ONLN)),
        &cores);
    sched_setaffinity(0, sizeof(cores), &cores);
  }

  struct Way {
    const char* name;
    std::function<void(Rank&)> run;
    bool uses_mapped, is_allreduce;
  };
  static std::vector<Way> Ways() {
    return {{"the product's", &Rank::Product, false, true},
            {"single copy", &Rank::SingleCopy, false, true},
            {"gradients in shared memory", &Rank::SharedGradients, true, true},
            {"  only adding up a part", &Rank::AddUp, true, false},
            {"  only copying the others", &Rank::CopyOthers, true, false},
            {"a barrier", [](Rank&) {}, false, false}};
  }

  // Every way in every round.
  void Measure() {
    for (std::size_t round = 0; round < options_.rounds; ++round) {
      int number = 0;
      for (const Way& way : Ways()) {
        char* const gradients = way.uses_mapped ? Mapped(rank_) : own_;
        Fill(gradients);
        Meet();
        const double wall = Seconds(CLOCK_MONOTONIC), cpu = Seconds(CLOCK_THREAD_CPUTIME_ID);
        way.run(*this);
        Meet();
        shared_.times[number++][round][rank_] = {Seconds(CLOCK_MONOTONIC) - wall,
                                                 Seconds(CLOCK_THREAD_CPUTIME_ID) - cpu};
        if (way.is_allreduce) Check(gradients);
      }
    }
  }

 private:
  static constexpr std::size_t kBlock = 256 << 10;

  int ranks() const { return static_cast<int>(options_.ranks); }
  std::size_t Begin(int rank) const {
    const std::size_t elements = options_.bytes / sizeof(float);
    return elements * static_cast<std::size_t>(rank) / options_.ranks * sizeof(float);
  }
  char* Mapped(int rank) const { return mapped_ + options_.bytes * static_cast<std::size_t>(rank); }

  void Meet() { shared_.barrier.Pass(++barriers_, ranks(), stop_, counts_); }

  void Fill(char* gradients) const {
    float* const values = reinterpret_cast<float*>(gradients);
    for (std::size_t i = 0; i < options_.bytes / sizeof(float); ++i) {
      values[i] = static_cast<float>(i % 97) + static_cast<float>(rank_);
    }
  }

  void Check(const char* gradients) const {
    const float* const values = reinterpret_cast<const float*>(gradients);
    const float ranks = static_cast<float>(options_.ranks);
    for (std::size_t i = 0; i < options_.bytes / sizeof(float); i += 4099) {
      if (values[i] != ranks * static_cast<float>(i % 97) + ranks * (ranks - 1) / 2) {
        throw std::logic_error("element " + std::to_string(i) + " is wrong");
      }
    }
  }

  void Product() {
    std::vector<Segment> segments;
    const std::size_t each = options_.bytes / options_.tensors / 64 * 64;
    for (std::size_t i = 0; i < options_.tensors; ++i) {
      const bool is_last = i + 1 == options_.tensors;
      segments.push_back({own_ + i * each, own_ + i * each,
                          static_cast<std::int64_t>(is_last ? options_.bytes - i * each : each)});
    }
    node_.Allreduce({segments, arithmetic_, 1, 1}, 1, stop_, counts_);
  }

  void Reduce(char* to, const std::vector<const void*>& inputs, std::size_t bytes) const {
    arithmetic_.reduce(to, inputs.data(), ranks(), static_cast<std::int64_t>(bytes / 4));
  }

  template <class Step>
  void ForEachBlock(int rank, const Step& step) const {
    for (std::size_t at = Begin(rank); at < Begin(rank + 1); at += kBlock) {
      step(at, std::min(kBlock, Begin(rank + 1) - at));
    }
  }

  // Each rank reads its part of the others' gradients out of their memory, and the finished parts.
  // Of at most two ranks, as with more the sum may not take the place of each one's gradient.
  void SingleCopy() {
    ForEachBlock(rank_, [&](std::size_t at, std::size_t bytes) {
      std::vector<const void*> inputs(options_.ranks, own_ + at);
      for (int rank = 0; rank < ranks(); ++rank) {
        if (rank == rank_) continue;
        char* const block = scratch_.data() + kBlock * static_cast<std::size_t>(rank);
        ReadFrom(rank, at, bytes, block);
        inputs[static_cast<std::size_t>(rank)] = block;
      }
      char* const sum = scratch_.data() + kBlock * static_cast<std::size_t>(rank_);
      Reduce(rank_ < 2 ? own_ + at : sum, inputs, bytes);
      if (rank_ >= 2) std::memcpy(own_ + at, sum, bytes);
    });
    Meet();
    for (int rank = 0; rank < ranks(); ++rank) {
      if (rank == rank_) continue;
      ForEachBlock(
          rank, [&](std::size_t at, std::size_t bytes) { ReadFrom(rank, at, bytes, own_ + at); });
    }
  }

  void ReadFrom(int rank, std::size_t at, std::size_t bytes, char* to) const {
    const iovec local{to, bytes}, remote{shared_.gradients[rank] + at, bytes};
    if (process_vm_readv(shared_.process[rank], &local, 1, &remote, 1, 0) !=
        static_cast<ssize_t>(bytes)) {
      throw std::runtime_error(std::string("process_vm_readv: ") + std::strerror(errno));
    }
  }

  // Each rank has mapped the others' gradients.
  void SharedGradients() {
    AddUp();
    Meet();
    CopyOthers();
  }

  void AddUp() {
    ForEachBlock(rank_, [&](std::size_t at, std::size_t bytes) {
      std::vector<const void*> inputs;
      for (int rank = 0; rank < ranks(); ++rank) inputs.push_back(Mapped(rank) + at);
      Reduce(rank_ < 2 ? Mapped(rank_) + at : scratch_.data(), inputs, bytes);
      if (rank_ >= 2) std::memcpy(Mapped(rank_) + at, scratch_.data(), bytes);
    });
  }

  void CopyOthers() {
    for (int rank = 0; rank < ranks(); ++rank) {
      if (rank == rank_) continue;
      StreamingCopy(Mapped(rank_) + Begin(rank), Mapped(rank) + Begin(rank),
                    Begin(rank + 1) - Begin(rank));
    }
  }

  const Options options_;
  Shared& shared_;
  const int rank_;
  char* const own_;
  char* const mapped_;
  NodeCollectives node_;
  std::vector<char> scratch_;
  const Arithmetic arithmetic_ = *ArithmeticOf(data_type::kFloat32, reduce_op::kSum);
  const std::atomic<bool> stop_{false};
  WaitCounts counts_;
  std::uint64_t barriers_ = 0;
};

Options Parse(int count, char** arguments) {
  Options options;
  for (int i = 1; i < count; ++i) {
    const std::string name = arguments[i];
    if (name == "--huge") {
      options.huge = true;
      continue;
    }
    std::size_t* const value = name == "--bytes"     ? &options.bytes
                               : name == "--ranks"   ? &options.ranks
                               : name == "--rounds"  ? &options.rounds
                               : name == "--tensors" ? &options.tensors
                                                     : nullptr;
    if (value == nullptr || i + 1 == count) throw std::invalid_argument("not an option: " + name);
    *value = std::stoull(arguments[++i]);
  }
  options.bytes = options.bytes / sizeof(float) * sizeof(float);
  if (options.ranks < 2 || options.ranks > kMostRanks || options.rounds < 1 ||
      options.rounds > kMostRounds || options.tensors < 1 || options.bytes / options.tensors < 64) {
    throw std::invalid_argument("2 to 16 ranks, 1 to 200 rounds, 64 bytes a tensor at least");
  }
  return options;
}

void Print(const Options& options, const Shared& shared) {
  std::printf("%zu bytes, %zu ranks, %zu rounds: ms, median (10 %% to 90 %% of the rounds)\n",
              options.bytes, options.ranks, options.rounds);
  int number = 0;
  for (const Rank::Way& way : Rank::Ways()) {
    std::vector<double> walls, cpus;
    for (std::size_t round = 0; round < options.rounds; ++round) {
      double wall = 0, cpu = 0;
      for (std::size_t rank = 0; rank < options.ranks; ++rank) {
        wall = std::max(wall, shared.times[number][round][rank].wall);
        cpu += shared.times[number][round][rank].cpu;
      }
      walls.push_back(wall * 1e3);
      cpus.push_back(cpu * 1e3);
    }
    std::sort(walls.begin(), walls.end());
    std::sort(cpus.begin(), cpus.end());
    const std::size_t rounds = options.rounds;
    std::printf("%-28s %8.2f (%.2f-%.2f)   processor time of all %8.2f (%.2f-%.2f)\n", way.name,
                walls[rounds / 2], walls[rounds / 10], walls[rounds * 9 / 10], cpus[rounds / 2],
                cpus[rounds / 10], cpus[rounds * 9 / 10]);
    ++number;
  }
}

int Main(int count, char** arguments) {
  const Options options = Parse(count, arguments);
  auto& shared = *new (Map(sizeof(Shared), MAP_SHARED, false)) Shared;
  char* const node =
      Map(NodeCollectives::Bytes(static_cast<int>(options.ranks)), MAP_SHARED, false);
  char* const mapped = Map(options.bytes * options.ranks, MAP_SHARED, options.huge);
  for (int rank = 0; rank < static_cast<int>(options.ranks); ++rank) {
    if (fork() != 0) continue;
    int status = 0;
    try {
      Rank(options, shared, node, mapped, rank).Measure();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
      status = 1;
    }
    if (status != 0) kill(0, SIGTERM);  // all others: they wait for this one
    _exit(status);
  }
  for (int status = 0; wait(&status) > 0;) {
    if (status != 0) return 1;
  }
  Print(options, shared);
  return 0;
}

}  // namespace
}  // namespace horovod_opt

int main(int count, char** arguments) {
  try {
    return horovod_opt::Main(count, arguments);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
