// Ranks are threads, of one host or of several. Each makes the calls of one random program; who waits
// for which call, how and when, is each rank's own.
#include "horovod_opt/csrc/core/ordered_calls/ordered_group.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace horovod_opt {
namespace ordered_group_test {

using namespace std::chrono_literals;

constexpr auto kLong = 60s;

// Where threads meet.
class Table {
 public:
  explicit Table(int ranks) : texts_(static_cast<std::size_t>(ranks)) {}

  std::vector<SharedText> Gather(int rank, const std::string& text) {
    std::unique_lock<std::mutex> lock(mutex_);
    texts_[static_cast<std::size_t>(rank)] = text;
    const int round = round_;
    if (++shown_ == static_cast<int>(texts_.size())) {
      all_.assign(texts_.begin(), texts_.end());
      shown_ = 0;
      ++round_;
      changed_.notify_all();
    }
    EXPECT_TRUE(changed_.wait_for(lock, kLong, [&] { return round_ != round; }));
    return all_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> texts_;
  std::vector<SharedText> all_;
  int shown_ = 0, round_ = 0;
};

class ThreadMeeting final : public RankMeeting {
 public:
  ThreadMeeting(Table& table, int rank, int ranks) : table_(table), rank_(rank), ranks_(ranks) {}
  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }
  std::vector<SharedText> Gather(const std::string& text) override {
    return table_.Gather(rank_, text);
  }
  int NameOf(int rank) const override { return 10 * rank; }

 private:
  Table& table_;
  const int rank_, ranks_;
};

// Where threads leave notes.
class Wall {
 public:
  explicit Wall(int ranks) : notes_(static_cast<std::size_t>(ranks)) {}

  void Write(int rank, const std::string& note) {
    std::lock_guard<std::mutex> lock(mutex_);
    notes_[static_cast<std::size_t>(rank)] = note;
  }
  std::vector<std::string> Read() {
    std::lock_guard<std::mutex> lock(mutex_);
    return notes_;
  }
  std::string Settle(const std::string& text) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (settled_.empty()) settled_ = text;
    return settled_;
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> notes_;
  std::string settled_;
};

class ThreadNotes final : public GroupNotes {
 public:
  ThreadNotes(std::shared_ptr<Wall> wall, int rank) : wall_(std::move(wall)), rank_(rank) {}
  void Write(const std::string& note) override { wall_->Write(rank_, note); }
  std::vector<std::string> Read() override { return wall_->Read(); }
  std::string Settle(const std::string& text) override { return wall_->Settle(text); }

 private:
  const std::shared_ptr<Wall> wall_;
  const int rank_;
};

using Group = std::shared_ptr<OrderedGroup>;
using OnRank = std::function<void(Group&, int rank)>;

// By rank, the number of its host.
using Hosts = std::vector<int>;

Hosts OneHost(int ranks) { return Hosts(static_cast<std::size_t>(ranks), 0); }

// A group of threads.
class Job {
 public:
  explicit Job(Hosts hosts)
      : hosts_(std::move(hosts)), table_(ranks()), wall_(std::make_shared<Wall>(ranks())) {}

  int ranks() const { return static_cast<int>(hosts_.size()); }
  Group Start(int rank) {
    ThreadMeeting meeting(table_, rank, ranks());
    const OrderedGroup::Site site{std::to_string(hosts_[static_cast<std::size_t>(rank)]),
                                  [] { return std::string("127.0.0.1"); }, 0,
                                  std::make_shared<ThreadNotes>(wall_, rank)};
    std::string error;
    Group group = OrderedGroup::Start(meeting, "test", site, error);
    EXPECT_NE(group, nullptr) << error;
    EXPECT_EQ(error, "");
    return group;
  }

 private:
  const Hosts hosts_;
  Table table_;
  const std::shared_ptr<Wall> wall_;
};

void RunRanks(const Hosts& hosts, const OnRank& on_rank) {
  Job job(hosts);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < job.ranks(); ++rank) {
    threads.emplace_back([&, rank] {
      Group group = job.Start(rank);
      on_rank(group, rank);
      if (group != nullptr) group->Leave();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

void RunRanks(int ranks, const OnRank& on_rank) { RunRanks(OneHost(ranks), on_rank); }

CallFacts FactsOf(CallKind kind, std::int64_t bytes, int root = -1) {
  CallFacts facts;
  facts.kind = kind;
  facts.bytes = bytes;
  facts.root = root;
  facts.tensors = bytes > 0;
  facts.dimensions = 1;
  facts.sizes[0] = bytes / 4;
  std::snprintf(facts.type.data(), facts.type.size(), "int32");
  return facts;
}

// A call with the memory that it works on, and what has to be there in the end.
struct Trial {
  OrderedCallPtr call = std::make_shared<OrderedCall>();
  std::vector<std::int32_t> in, out, expected;
};
using TrialPtr = std::shared_ptr<Trial>;
using Made = HierarchicalCollectives::Call;

TrialPtr Sum(int rank, int ranks, int count, int seed) {
  auto trial = std::make_shared<Trial>();
  for (int i = 0; i < count; ++i) {
    trial->in.push_back((rank + 1) * (i + seed));
    trial->expected.push_back(ranks * (ranks + 1) / 2 * (i + seed));
  }
  trial->out.resize(trial->in.size());
  trial->call->facts = FactsOf(CallKind::kAllreduce, 4 * count);
  trial->call->reduction = std::make_shared<const BucketReduction>(
      std::vector<Segment>{{trial->in.data(), trial->out.data(), 4 * count}},
      *ArithmeticOf(data_type::kInt32, reduce_op::kSum), 1.0, 1.0);
  return trial;
}

TrialPtr Gathered(int rank, int ranks, int count, int seed) {
  auto trial = std::make_shared<Trial>();
  for (int other = 0; other < ranks; ++other) {
    for (int i = 0; i < count; ++i) trial->expected.push_back(other + i * seed);
  }
  for (int i = 0; i < count; ++i) trial->in.push_back(rank + i * seed);
  trial->out.resize(trial->expected.size());
  trial->call->facts = FactsOf(CallKind::kAllgather, 4 * count);
  Trial* const own = trial.get();
  trial->call->perform = [own, count](HierarchicalCollectives& collectives, const Made& made) {
    return collectives.Allgather(own->in.data(), 4 * count, own->out.data(), made);
  };
  return trial;
}

TrialPtr FromRoot(int rank, int root, int count, int seed) {
  auto trial = std::make_shared<Trial>();
  for (int i = 0; i < count; ++i) {
    trial->expected.push_back(i ^ seed);
    trial->out.push_back(rank == root ? i ^ seed : -1);
  }
  trial->call->facts = FactsOf(CallKind::kBroadcast, 4 * count, root);
  Trial* const own = trial.get();
  trial->call->perform = [own, count, root](HierarchicalCollectives& collectives,
                                            const Made& made) {
    return collectives.Broadcast(own->out.data(), 4 * count, root, made);
  };
  return trial;
}

TrialPtr Scattered(int rank, int ranks, int count, int seed) {
  auto trial = std::make_shared<Trial>();
  for (int i = 0; i < ranks * count; ++i) trial->in.push_back((rank + 1) * (i + seed));
  for (int i = 0; i < count; ++i) {
    trial->expected.push_back(ranks * (ranks + 1) / 2 * (rank * count + i + seed));
  }
  trial->out.resize(trial->expected.size());
  trial->call->facts = FactsOf(CallKind::kReduceScatter, 4 * ranks * count);
  Trial* const own = trial.get();
  trial->call->perform = [own, count](HierarchicalCollectives& collectives, const Made& made) {
    return collectives.ReduceScatter(own->in.data(), own->out.data(), 4 * count,
                                     *ArithmeticOf(data_type::kInt32, reduce_op::kSum), 1.0, 1.0,
                                     made);
  };
  return trial;
}

TrialPtr RandomCall(std::mt19937& program, int rank, int ranks) {
  const int seed = static_cast<int>(program() % 1000);
  const int sizes[] = {0, 1, 17, 5000, 140'000};
  const int count = sizes[program() % 5];
  switch (program() % 5) {
    case 4:
      return Scattered(rank, ranks, count + 1, seed);
    case 0:
      return Gathered(rank, ranks, count + 1, seed);
    case 1:
      return FromRoot(rank, static_cast<int>(program()) & 1 ? ranks - 1 : 0, count + 1, seed);
    default:
      return Sum(rank, ranks, count, seed);
  }
}

std::string TextOf(std::exception_ptr error) {
  if (error == nullptr) return "";
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& problem) {
    return problem.what();
  }
}

std::string ErrorOf(const OrderedCallPtr& call) { return TextOf(call->error); }

class Programs : public testing::TestWithParam<Hosts> {};

// Some calls are waited for at once, some later, in any order, some only by their end; then by the
// group's thread.
TEST_P(Programs, AllCallsEndWithTheirResultsHoweverTheyAreWaitedFor) {
  const int ranks = static_cast<int>(GetParam().size());
  RunRanks(GetParam(), [ranks](Group& group, int rank) {
    std::mt19937 program(7), own(static_cast<unsigned>(rank));
    std::vector<std::pair<TrialPtr, std::future<void>>> later;
    for (int step = 0; step < 50; ++step) {
      TrialPtr trial = RandomCall(program, rank, ranks);
      auto ended = std::make_shared<std::promise<void>>();
      std::future<void> future = ended->get_future();
      trial->call->ended = [ended](std::exception_ptr error) {
        EXPECT_EQ(TextOf(error), "");
        ended->set_value();
      };
      const bool wakes = own() % 3 != 0;
      group->Make(trial->call, wakes);
      if (!wakes || own() % 3 == 0) {
        group->Await(trial->call, 0ms);
        EXPECT_EQ(trial->out, trial->expected);
      } else {
        later.emplace_back(std::move(trial), std::move(future));
      }
      if (own() % 20 == 0) std::this_thread::sleep_for(1ms);
    }
    while (!later.empty()) {
      const std::size_t which = own() % later.size();
      auto& [trial, future] = later[which];
      ASSERT_EQ(future.wait_for(kLong), std::future_status::ready);
      EXPECT_TRUE(group->HasEnded(trial->call));
      EXPECT_EQ(trial->out, trial->expected);
      later.erase(later.begin() + static_cast<std::ptrdiff_t>(which));
    }
  });
}

// Invariant 3.
TEST_P(Programs, ACallsEndMayMakeAndAwaitCalls) {
  const int ranks = static_cast<int>(GetParam().size());
  for (const int count : {5, 140'000}) {
    RunRanks(GetParam(), [ranks, count](Group& group, int rank) {
      std::promise<void> all;
      TrialPtr first = Sum(rank, ranks, count, 1), second = Sum(rank, ranks, count, 2);
      first->call->ended = [&](std::exception_ptr) {
        group->Make(second->call, false);
        group->Await(second->call, 0ms);
        all.set_value();
      };
      group->Make(first->call, true);
      ASSERT_EQ(all.get_future().wait_for(kLong), std::future_status::ready);
      EXPECT_EQ(second->out, second->expected);
    });
  }
}

// Invariant 2: ranks await two groups' calls in opposite orders.
TEST_P(Programs, NoGroupWaitsForAnother) {
  Job jobs[] = {Job(GetParam()), Job(GetParam())};
  const int ranks = jobs[0].ranks();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      std::vector<Group> groups;
      for (Job& job : jobs) groups.push_back(job.Start(rank));
      for (int step = 0; step < 6; ++step) {
        std::vector<TrialPtr> trials;
        for (int i = 0; i < 2; ++i) {
          const std::size_t which = static_cast<std::size_t>((rank + i) % 2);
          trials.push_back(Sum(rank, ranks, step % 2 == 0 ? 9 : 140'000, step));
          groups[which]->Make(trials.back()->call, true);
        }
        for (int i = 0; i < 2; ++i) {
          const std::size_t which = static_cast<std::size_t>((rank + i) % 2);
          groups[which]->Await(trials[static_cast<std::size_t>(i)]->call, 0ms);
          EXPECT_EQ(trials[static_cast<std::size_t>(i)]->out,
                    trials[static_cast<std::size_t>(i)]->expected);
        }
      }
      for (Group& group : groups) group->Leave();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

INSTANTIATE_TEST_SUITE_P(Ranks, Programs,
                         testing::Values(OneHost(1), OneHost(2), OneHost(3), OneHost(4),
                                         Hosts{0, 1}, Hosts{0, 1, 2}, Hosts{0, 0, 1, 1},
                                         Hosts{0, 1, 0, 1}, Hosts{0, 0, 1}));

// Three ranks, and two.
const Hosts kThree[] = {OneHost(3), {0, 1, 2}}, kTwo[] = {OneHost(2), {0, 1}};

// Invariant 5, for each way in which two of three ranks can differ from the third.
TEST(OrderedGroup, RanksThatDifferGetOneErrorAndNoResult) {
  using Make = std::function<TrialPtr(int rank)>;
  const Make small = [](int rank) { return Sum(rank, 3, 10, 1); };
  const Make other_size = [](int rank) { return Sum(rank, 3, 11, 1); };
  const Make large = [](int rank) { return Sum(rank, 3, 140'000, 1); };
  const Make larger = [](int rank) { return Sum(rank, 3, 140'001, 1); };
  const Make gather = [](int rank) { return Gathered(rank, 3, 10, 1); };
  const Make of_first = [](int rank) { return FromRoot(rank, 0, 10, 1); };
  const Make of_second = [](int rank) { return FromRoot(rank, 1, 10, 1); };
  const std::pair<Make, Make> cases[] = {{small, other_size},   {small, large},    {large, small},
                                         {large, larger},       {gather, small},   {large, gather},
                                         {of_first, of_second}, {gather, of_first}};
  for (const Hosts& hosts : kThree)
    for (const auto& [two, one] : cases) {
      std::vector<std::string> errors(3);
      RunRanks(hosts, [&](Group& group, int rank) {
        TrialPtr before = Sum(rank, 3, 4, 1);
        group->Make(before->call, false);
        group->Await(before->call, 0ms);
        TrialPtr trial = rank == 1 ? one(rank) : two(rank);
        const std::vector<std::int32_t> out = trial->out;
        group->Make(trial->call, false);
        group->Await(trial->call, 0ms);
        EXPECT_EQ(trial->out, out);
        errors[static_cast<std::size_t>(rank)] = ErrorOf(trial->call);
        TrialPtr after = Sum(rank, 3, 4, 1);
        group->Make(after->call, false);
        group->Await(after->call, 0ms);
        EXPECT_EQ(ErrorOf(after->call), ErrorOf(trial->call));
      });
      EXPECT_NE(errors[0].find("ranks differ: rank "), std::string::npos) << errors[0];
      EXPECT_NE(errors[0].find("rank 10 has "), std::string::npos) << errors[0];
      EXPECT_EQ(errors[0], errors[1]);
      EXPECT_EQ(errors[0], errors[2]);
    }
}

// Of several hosts a rank is known to have come when it has said so, which takes a while.
TEST(OrderedGroup, WhoHasNotComeIsNamed) {
  const struct {
    Hosts hosts;
    int count;
    std::chrono::milliseconds timeout;
    const char* within;
  } cases[] = {{kThree[0], 3, 1s, "1"}, {kThree[0], 140'000, 1s, "1"}, {kThree[1], 3, 3s, "3"}};
  for (const auto& [hosts, size, timeout, within] : cases) {
    const int count = size;
    const auto patience = timeout;
    const std::string expected = "allreduce 1 of group test, int32 [" + std::to_string(count) +
                                 "]: rank 10 has not come within " + within +
                                 " s; remedy: see what they do, or a longer timeout=";
    std::promise<void> is_over;
    std::shared_future<void> over = is_over.get_future().share();
    RunRanks(hosts, [&](Group& group, int rank) {
      if (rank == 1) {
        over.wait_for(kLong);
        return;
      }
      TrialPtr trial = Sum(rank, 3, count, 1);
      trial->call->timeout = patience;
      group->Make(trial->call, false);
      group->Await(trial->call, 0ms);
      EXPECT_EQ(ErrorOf(trial->call), expected);
      if (rank == 0) is_over.set_value();
    });
  }
}

TEST(OrderedGroup, AfterAnAbortAllCallsOfAllRanksEnd) {
  for (const Hosts& hosts : kTwo) {
    RunRanks(hosts, [](Group& group, int rank) {
      TrialPtr trial = Sum(rank, 2, 140'000, 1);
      if (rank == 1) {
        group->Abort("stopped by hand");
        EXPECT_NO_THROW(group->Make(trial->call, false));
      } else {
        group->Make(trial->call, true);
      }
      group->Await(trial->call, 0ms);
      EXPECT_EQ(ErrorOf(trial->call), "stopped by hand");
    });
  }
}

// Who leaves has ended its calls; others may still be at the last one.
TEST(OrderedGroup, WhoLeavesAfterItsLastCallHarmsNobody) {
  for (const Hosts& hosts : kThree)
    for (int time = 0; time < 4; ++time) {
      RunRanks(hosts, [&](Group& group, int rank) {
        TrialPtr trial = Sum(rank, 3, time % 2 == 0 ? 8 : 140'000, 1);
        group->Make(trial->call, rank == 2);
        if (rank == 2) std::this_thread::sleep_for(1ms * time);
        group->Await(trial->call, 0ms);
        EXPECT_EQ(ErrorOf(trial->call), "");
        EXPECT_EQ(trial->out, trial->expected);
        group.reset();
      });
    }
}

TEST(OrderedGroup, WhoLeavesBeforeACallIsNotWaitedFor) {
  for (const Hosts& hosts : kTwo) {
    RunRanks(hosts, [&](Group& group, int rank) {
      if (rank == 1) return group.reset();
      TrialPtr trial = Sum(rank, 2, 8, 1);
      group->Make(trial->call, false);
      group->Await(trial->call, 0ms);
      const std::string error = ErrorOf(trial->call);
      EXPECT_EQ(error.find("allreduce 1 of group test, int32 [8]: rank 10 "), 0u) << error;
      EXPECT_NE(error.find("; remedy: see its last lines"), std::string::npos) << error;
    });
  }
}

}  // namespace ordered_group_test
}  // namespace horovod_opt
