#include "horovod_opt/csrc/core/plan/consensus.h"

#include <algorithm>
#include <map>
#include <sstream>

#include "horovod_opt/csrc/core/base/rank_texts.h"

namespace horovod_opt {
namespace {

// Votes on one plan, each with the ranks that cast it alike, in the order of the first of them.
struct RankedVote {
  Vote vote;
  const std::vector<int>* ranks;
};
using Votes = std::vector<RankedVote>;
using DistinctRows = std::vector<std::pair<SharedText, std::vector<int>>>;

std::string On(int rank, const std::string& reason) {
  return "rank " + std::to_string(rank) + ": " + reason;
}

template <class Is>
bool All(const Votes& votes, const Is& is) {
  return std::all_of(votes.begin(), votes.end(), [&](const auto& cast) { return is(cast.vote); });
}

// Of `ranks`, those whose vote is not at least that.
std::vector<int> RanksWithout(const Votes& votes, const std::vector<int>& ranks,
                              PlanState at_least) {
  std::set<int> have;
  for (const auto& [vote, voters] : votes) {
    if (vote.state >= at_least) have.insert(voters->begin(), voters->end());
  }
  std::vector<int> missing;
  for (int rank : ranks) {
    if (have.count(rank) == 0) missing.push_back(rank);
  }
  return missing;
}

std::size_t Voters(const Votes& votes) {
  std::size_t voters = 0;
  for (const RankedVote& cast : votes) voters += cast.ranks->size();
  return voters;
}

bool IsQuiet(const Vote& vote) { return !vote.under_way; }

void Combine(std::vector<std::uint64_t>& all, const std::vector<std::uint64_t>& own,
             const std::uint64_t& (*combine)(const std::uint64_t&, const std::uint64_t&)) {
  if (all.empty()) all = own;
  for (std::size_t bucket = 0; bucket < own.size(); ++bucket) {
    all.at(bucket) = combine(all[bucket], own[bucket]);
  }
}

// A rank that lacks the plan has completed nothing of it.
void Combine(const Votes& votes, std::size_t ranks, const std::set<int>& group,
             Decision& decision) {
  std::size_t of_all = 0, of_group = 0;
  for (const auto& [vote, voters] : votes) {
    std::size_t in_group = 0;
    for (int rank : group) in_group += std::binary_search(voters->begin(), voters->end(), rank);
    of_all += voters->size();
    of_group += in_group;
    if (vote.completions.empty()) continue;  // it got the plan after the others had ended it
    Combine(decision.everywhere, vote.completions, std::min<std::uint64_t>);
    Combine(decision.anywhere, vote.completions, std::max<std::uint64_t>);
    if (group.empty() || in_group > 0)
      Combine(decision.in_group, vote.completions, std::min<std::uint64_t>);
  }
  const auto nothing = [](std::vector<std::uint64_t>& completions) {
    std::fill(completions.begin(), completions.end(), 0);
  };
  if (of_all < ranks) nothing(decision.everywhere);
  if (group.empty() ? of_all < ranks : of_group < group.size()) {
    decision.in_group.resize(decision.everywhere.size());
    nothing(decision.in_group);
  }
}

// All of it has arrived equally often on every rank, and nothing is under way.
bool MayRest(const Votes& votes) {
  const Vote& first = votes[0].vote;
  return All(votes, [&](const Vote& vote) {
    return vote.state == PlanState::kActive && vote.whole && IsQuiet(vote) &&
           vote.last_iteration == first.last_iteration;
  });
}

std::set<int> LeftOut(const Votes& votes) {
  std::set<int> slots;
  for (const auto& [vote, voters] : votes) slots.insert(vote.left_out.begin(), vote.left_out.end());
  return slots;
}

std::vector<bool> OnGpus(const Devices& by_slot, const std::set<int>& left_out) {
  std::vector<bool> on_gpus;
  for (int device : by_slot) on_gpus.push_back(device != kMainMemory);
  for (int slot : left_out) {
    if (!on_gpus.empty()) on_gpus[slot] = false;
  }
  return on_gpus;
}

// Of a plan about which every rank has said the same number of devices.
SharedDevices DevicesBySlot(const Votes& votes) {
  std::map<int, const Devices*> by_rank;
  for (const auto& [vote, voters] : votes) {
    for (int rank : *voters) by_rank[rank] = &vote.devices;
  }
  SharedDevices by_slot(votes[0].vote.devices.size());
  std::map<Devices, std::shared_ptr<const Devices>> known;
  for (std::size_t slot = 0; slot < by_slot.size(); ++slot) {
    Devices devices;
    for (const auto& [rank, of_rank] : by_rank) devices.push_back((*of_rank)[slot]);
    auto& shared = known[devices];
    if (shared == nullptr) shared = std::make_shared<const Devices>(devices);
    by_slot[slot] = shared;
  }
  return by_slot;
}

// Invariant 6.
bool AbandonsStep(const Votes& votes, Decision& decision) {
  std::uint64_t iteration = 0;
  bool is_over = false;
  for (const auto& [vote, voters] : votes) {
    if (!vote.left) continue;
    decision.any_has_left = true;
    iteration = std::max(iteration, vote.last_iteration);
    is_over = is_over || vote.step_over;
  }
  if (!decision.any_has_left) return false;
  const auto has_all = [&](const Vote& vote) {
    return vote.whole && vote.last_iteration >= iteration;
  };
  const auto goes_on = [](const Vote& vote) { return vote.goes_on; };
  const auto is_known = [&](const Vote& vote) {
    return vote.left || goes_on(vote) || has_all(vote) ||
           (is_over && vote.last_iteration >= iteration);
  };
  const auto waits = [&](const auto& cast) { return goes_on(cast.vote) || has_all(cast.vote); };
  if (!All(votes, is_known)) return false;
  if (!is_over && std::none_of(votes.begin(), votes.end(), waits)) return false;
  decision.kind = Decision::kAbandon;
  decision.fails_step = !All(votes, goes_on);
  for (const auto& [vote, voters] : votes) {
    if (!vote.left) continue;
    for (int rank : *voters) decision.missing[rank] = vote.missing;
  }
  return true;
}

Decision DecidePlan(const std::string& hash, const Votes& votes, const std::vector<int>& ranks,
                    const std::set<int>& group) {
  Decision decision;
  decision.hash = hash;
  for (const auto& [vote, voters] : votes) {
    decision.from_iteration = std::max(decision.from_iteration, vote.last_iteration + 1);
  }
  const bool all_vote = Voters(votes) == ranks.size();
  const bool is_other_call = !all_vote && IsCallHash(hash);  // than on some rank
  if (is_other_call || All(votes, [](const Vote& vote) { return !vote.bound && IsQuiet(vote); })) {
    decision.kind = Decision::kForget;
    if (is_other_call) decision.reason = "it is another call on some rank";
    return decision;
  }
  const auto any_vetoes = [&](PlanState state, Decision::Kind kind) {
    for (const auto& [vote, voters] : votes) {
      if (vote.state != state) continue;
      decision.kind = kind;
      decision.reason = On(voters->front(), vote.reason);
      return true;
    }
    return false;
  };
  if (any_vetoes(PlanState::kFailed, Decision::kEnd) ||
      any_vetoes(PlanState::kEnding, Decision::kEnd) || AbandonsStep(votes, decision)) {
    Combine(votes, ranks.size(), group, decision);
    return decision;
  }
  if (any_vetoes(PlanState::kPausing, Decision::kPause)) return decision;
  if (!All(votes, [](const Vote& vote) { return vote.state < PlanState::kEnded; })) {
    if (All(votes, IsQuiet)) decision.kind = Decision::kFree;
    return decision;
  }
  if (!all_vote || !All(votes, [](const Vote& vote) { return vote.state >= PlanState::kReady; })) {
    if (All(votes, [](const Vote& vote) { return vote.state != PlanState::kResting; })) {
      decision.reason = "its warm-up is not over on " +
                        Ranges("rank", RanksWithout(votes, ranks, PlanState::kReady));
    }
    return decision;
  }
  const Vote& first = votes[0].vote;
  const std::set<int> left_out = LeftOut(votes);
  for (const auto& [vote, voters] : votes) {
    if (OnGpus(vote.devices, left_out) == OnGpus(first.devices, left_out)) continue;
    decision.kind = Decision::kEnd;
    decision.reason = On(voters->front(), "it has other tensors on GPUs than rank 0");
    Combine(votes, ranks.size(), group, decision);
    return decision;
  }
  if (first.state == PlanState::kReady) {
    decision.kind = Decision::kCommit;
    decision.left_out = left_out;
    decision.devices = DevicesBySlot(votes);
  } else if (!first.times.empty()) {
    decision.kind = Decision::kRebuild;
    decision.times = first.times;
    decision.limits = first.limits;
  } else if (MayRest(votes)) {
    decision.may_rest = true;
    decision.idle_ms = first.idle_ms;
  }
  return decision;
}

// `rows` outlives it.
std::map<std::string, Votes> VotesByPlan(const DistinctRows& rows) {
  std::map<std::string, Votes> plans;
  for (const auto& [row, ranks] : rows) {
    for (Vote& vote : FromRow(row)) {
      Votes& votes = plans[vote.hash];
      votes.push_back({std::move(vote), &ranks});
    }
  }
  return plans;
}

template <class Number>
void Write(std::ostream& row, const std::vector<Number>& numbers) {
  row << ' ' << numbers.size();
  for (const Number number : numbers) row << ' ' << number;
}

template <class Number>
void Read(std::istream& row, std::vector<Number>& numbers) {
  std::size_t size = 0;
  row >> size;
  numbers.resize(size);
  for (Number& number : numbers) row >> number;
}

}  // namespace

std::string ToRow(const std::vector<Vote>& votes) {
  std::ostringstream row;
  for (const Vote& vote : votes) {
    std::string reason = vote.reason;
    std::replace(reason.begin(), reason.end(), '\n', ' ');
    row << vote.hash << ' ' << static_cast<int>(vote.state) << ' ' << vote.last_iteration << ' '
        << vote.bound << ' ' << vote.under_way << ' ' << vote.whole << ' ' << vote.goes_on << ' '
        << vote.left << ' ' << vote.step_over << ' ' << vote.idle_ms << ' '
        << vote.limits.main_memory << ' ' << vote.limits.gpu << ' ' << vote.limits.first_on_gpu;
    Write(row, vote.times);
    Write(row, vote.devices);
    Write(row, vote.completions);
    Write(row, vote.left_out);
    Write(row, vote.missing);
    row << ' ' << reason << '\n';
  }
  return row.str();
}

std::vector<Vote> FromRow(const std::string& row) {
  std::vector<Vote> votes;
  std::istringstream lines(row);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    Vote vote;
    int state = 0;
    fields >> vote.hash >> state >> vote.last_iteration >> vote.bound >> vote.under_way >>
        vote.whole >> vote.goes_on >> vote.left >> vote.step_over >> vote.idle_ms >>
        vote.limits.main_memory >> vote.limits.gpu >> vote.limits.first_on_gpu;
    vote.state = static_cast<PlanState>(state);
    Read(fields, vote.times);
    Read(fields, vote.devices);
    Read(fields, vote.completions);
    Read(fields, vote.left_out);
    Read(fields, vote.missing);
    fields.get();
    std::getline(fields, vote.reason);
    votes.push_back(vote);
  }
  return votes;
}

std::map<std::string, std::vector<std::uint64_t>> CompletionsEverywhere(const TextByRank& rows) {
  std::map<std::string, std::vector<std::uint64_t>> everywhere;
  const DistinctRows distinct = Distinct(rows);
  for (const auto& [hash, votes] : VotesByPlan(distinct)) {
    if (Voters(votes) < rows.size()) continue;
    auto& completed = everywhere[hash];
    for (const auto& [vote, voters] : votes) {
      Combine(completed, vote.completions, std::min<std::uint64_t>);
    }
  }
  return everywhere;
}

std::vector<Decision> Decide(const TextByRank& rows, const std::set<int>& group) {
  std::vector<int> ranks;
  for (const auto& [rank, row] : rows) ranks.push_back(rank);
  const DistinctRows distinct = Distinct(rows);
  std::vector<Decision> decisions;
  for (const auto& [hash, votes] : VotesByPlan(distinct)) {
    decisions.push_back(DecidePlan(hash, votes, ranks, group));
  }
  return decisions;
}

}  // namespace horovod_opt
