// Invariants of ready_queue.h, bucket_places.h and small_buckets.h, in every order of the accesses to
// what threads share: sequentially consistent, as those of the product are.
#include <gtest/gtest.h>

// Fibers are one thread: ThreadSanitizer has nothing to find in them, and AddressSanitizer does not
// know their stacks.
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)

#include "tests/native/interleaving/group.h"

namespace horovod_opt {
namespace group_interleaving {
namespace {

using exploration::Violation;

constexpr std::size_t kLine = 64;

// At the same place in each world, so that equal states look alike.
alignas(kLine) char queue_memory[sizeof(ReadyQueue)];
std::unique_ptr<char[]> places_memory;

void* PlacesMemory() {
  if (places_memory == nullptr)
    places_memory = std::make_unique<char[]>(BucketPlaces::Bytes(kRanks) + kLine);
  const auto address = reinterpret_cast<std::uintptr_t>(places_memory.get());
  return places_memory.get() + (kLine - address % kLine) % kLine;
}

std::string On(int rank) { return " of rank " + std::to_string(rank); }

}  // namespace

Group::Group(const Program& program)
    : Fibers(within_callback),
      program_(program),
      queue_(reinterpret_cast<ReadyQueue*>(queue_memory)) {
  futex::sleeps.clear();
  std::memset(queue_memory, 0, sizeof(queue_memory));
  std::memset(PlacesMemory(), 0, BucketPlaces::Bytes(kRanks) - BucketPlaces::kMemory + 4096);
  Buckets buckets;
  for (int bucket = 0; bucket < program.buckets; ++bucket) buckets.push_back({bucket});
  for (int number = 0; number < kRanks; ++number) {
    ranks_.push_back(std::make_unique<Rank>());
    Rank& rank = *ranks_.back();
    rank.places = std::make_unique<BucketPlaces>(PlacesMemory(), number, kRanks);
    rank.plans = std::make_unique<PlanTable>(4, [](const Work&) {}, [] {});
    const SmallBuckets::Binding binding{
        [](const Work&) {},
        [](const Work&, const auto& problem) -> std::string { throw Violation(problem.what()); },
        [](const Work&) {},
        [this, number](const Work& work, const std::string&) {
          CallBack(number, work.arrivals, true);
        }};
    // Spins for one look: it has taken too long unless the others have come before.
    rank.small_buckets =
        std::make_unique<SmallBuckets>(*rank.plans, rank.counters, *queue_, *rank.places, number,
                                       kRanks, binding, std::chrono::nanoseconds(-1));
    rank.plans->UseSmallBucketPath(*rank.small_buckets, 4096);
    Plan plan = MakePlan("p", program.buckets, buckets);
    for (Slot& slot : plan.slots) slot.reduction = kReduction;
    rank.plans->Add(plan);
    for (int iteration = 1; iteration <= kWarmUp; ++iteration) {
      for (int bucket = 0; bucket < program.buckets; ++bucket) {
        ArrivalPtr arrival = std::make_unique<Gradient>(*this, number, bucket, iteration);
        rank.plans->Arrive(1 + bucket, arrival);
      }
    }
  }
  std::vector<std::string> rows;
  for (int number = 0; number < kRanks; ++number)
    rows.push_back(ranks_[number]->plans->VoteRow(number == 0, false));
  for (const auto& rank : ranks_) rank->plans->Apply(ByRank(rows));
  for (int number = 0; number < kRanks; ++number) {
    for (int bucket = 0; bucket < program.buckets; ++bucket)
      Start("the framework" + On(number), [this, number, bucket] { Framework(number, bucket); });
    Start("the planned path" + On(number), [this, number] { PlannedPath(number); });
    Start("the background thread" + On(number), [this, number] { End(number); });
    if (program.copied) Start("a GPU" + On(number), [this, number] { Copy(number); });
  }
  Settle();
}

void Group::CheckAccess(int number, const void* object) const {
  const auto is_in = [object](const void* memory, std::size_t bytes) {
    const auto* const begin = static_cast<const char*>(memory);
    return begin <= object && object < begin + bytes;
  };
  const int fibers = program_.buckets + 2 + (program_.copied ? 1 : 0);
  const Rank& rank = *ranks_[number / fibers];
  if (!rank.closed) return;
  if (is_in(queue_memory, sizeof(queue_memory)) ||
      is_in(PlacesMemory(), BucketPlaces::Bytes(kRanks)) ||
      is_in(rank.small_buckets.get(), sizeof(SmallBuckets)))
    throw Violation("in the group's memory after its path was closed");
}

void Group::Framework(int number, int bucket) {
  Rank& rank = *ranks_[number];
  for (int iteration = kWarmUp + 1; iteration <= kWarmUp + program_.iterations; ++iteration) {
    if (!program_.copied) rank.data[iteration] = Value(number, iteration);
    ArrivalPtr arrival = std::make_unique<Gradient>(*this, number, bucket, iteration);
    Route route = rank.plans->Arrive(1 + bucket, arrival);
    const auto& done = rank.done[bucket];
    const auto has_sum = [&done](int of) {
      return [&done, of] { return (done.Peek() & 1 << of) != 0; };
    };
    if (route == Route::kOverlaps && program_.eager) {
      Step(&done, has_sum(iteration - 1));
      route = rank.plans->Arrive(1 + bucket, arrival);
    }
    if (route == Route::kNegotiated && program_.ends) return;
    if (route != Route::kPlanned) throw Violation("a tensor is not planned");
    if (!program_.eager) Step(&done, has_sum(iteration));
  }
}

void Group::Copy(int number) {
  Rank& rank = *ranks_[number];
  for (int iteration = kWarmUp + 1; iteration <= kWarmUp + program_.iterations; ++iteration) {
    Step(&rank.data[iteration]);
    rank.data[iteration] = Value(number, iteration);
    rank.copied[iteration] = true;
  }
}

// As PlannedPath::Run().
void Group::PlannedPath(int number) {
  Rank& rank = *ranks_[number];
  int bucket_id = 0;
  WaitCounts waits;
  std::uint64_t position = 0;
  while (queue_->Next(position, bucket_id, rank.end, waits, number)) {
    rank.small_buckets->CameTo(++position);
    const Work work = rank.plans->Take(bucket_id);
    if (work.IsEmpty()) continue;
    if (!AwaitData(work.arrivals, rank.stop)) break;
    Reduce(number, work);
    CallBack(number, work.arrivals, true);
  }
  rank.path_over = true;
}

void Group::End(int number) {
  Rank& rank = *ranks_[number];
  for (int bucket = 0; !program_.ends && bucket < program_.buckets; ++bucket) {
    const auto& done = rank.done[bucket];
    const int all = ((1 << program_.iterations) - 1) << (kWarmUp + 1);
    Step(&done, [&done, all] { return done.Peek() == all; });
  }
  rank.plans->Finish();
  rank.finished = true;
  for (const auto& peer : ranks_) Step(&peer->finished, [&] { return peer->finished.Peek(); });
  rank.end = true;
  queue_->Kick();
  Step(&rank.path_over, [&] { return rank.path_over.Peek(); });
  rank.small_buckets->Close();
  rank.closed = true;
  CallBack(number, rank.plans->Close(), false);
}

void Group::Reduce(int number, const Work& work) {
  Rank& rank = *ranks_[number];
  WaitCounts waits;
  rank.small_buckets->Reduce(work, rank.stop, waits);
  rank.plans->MarkReduced(work);
}

void Group::CallBack(int number, const std::vector<ArrivalPtr>& arrivals, bool reduced) {
  for (const ArrivalPtr& arrival : arrivals) {
    const auto& gradient = static_cast<const Gradient&>(*arrival);
    std::int32_t sum = 0;
    for (int rank = 0; rank < kRanks; ++rank) sum += Value(rank, gradient.iteration);
    if (reduced && gradient.sum != sum)
      throw Violation("a sum is " + std::to_string(gradient.sum) + ", not " + std::to_string(sum));
    auto& done = ranks_[number]->done[gradient.bucket];
    if (done.Peek() & 1 << gradient.iteration) throw Violation("a tensor ends twice");
    done += 1 << gradient.iteration;
  }
}

int Number(const char* variable, int usual) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? usual : std::atoi(text);
}

// All orders are too many: searches from random ones, each of so many states, and walks. By hand more
// of them.
constexpr std::size_t kStates = 600;
constexpr int kChanges = 3;  // of priorities, in a walk
const int kSearches = Number("HOROVOD_OPT_EXPLORED_SEARCHES", 5);
const int kWalks = Number("HOROVOD_OPT_EXPLORED_WALKS", 0);

struct Case {
  const char* name;
  Program program;
  int walks;  // enough for the rules that the searches miss
};

void PrintTo(const Case& what, std::ostream* stream) { *stream << what.name; }

std::vector<Case> Cases() {
  Program one, two, eager, copied, ends;
  two.buckets = 2;
  eager.iterations = 3;
  eager.eager = true;
  copied.copied = true;
  ends.ends = true;
  return {{"OneBucket", one, 1500},
          {"TwoBuckets", two, 1200},
          {"SentAgain", eager, 450},
          {"CopiedData", copied, 100},
          {"GroupShutdown", ends, 100}};
}

class GroupInterleaving : public testing::TestWithParam<Case> {};

TEST_P(GroupInterleaving, NoRuleIsBroken) {
  const Case& what = GetParam();
  exploration::Findings all;
  for (int search = 1; search <= kSearches && all.violation.empty(); ++search) {
    exploration::Limits limits;
    limits.states = kStates;
    limits.seed = static_cast<std::uint32_t>(search);
    all.Add(exploration::Explore([&] { return std::make_unique<Group>(what.program); }, limits));
  }
  EXPECT_EQ(all.violation, "");
  EXPECT_EQ(all.states, kSearches * kStates);
  EXPECT_GE(all.ends, static_cast<std::size_t>(kSearches));
  if (all.violation.empty()) {
    const auto walks = exploration::Walk([&] { return std::make_unique<Group>(what.program); }, 1,
                                         kWalks > 0 ? kWalks : what.walks, kChanges);
    EXPECT_EQ(walks.violation, "");
    all.Add(walks);
  }
  std::cout << what.name << ": " << all.Text() << std::endl;
}

INSTANTIATE_TEST_SUITE_P(Groups, GroupInterleaving, testing::ValuesIn(Cases()),
                         [](const auto& of) { return std::string(of.param.name); });

}  // namespace group_interleaving
}  // namespace horovod_opt

#endif
