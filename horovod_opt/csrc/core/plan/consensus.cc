#include "horovod_opt/csrc/core/plan/consensus.h"

#include <algorithm>
#include <map>
#include <sstream>

#include "horovod_opt/csrc/core/base/rank_texts.h"

namespace horovod_opt {
namespace {

using VoteByRank = std::map<int, Vote>;

std::string On(int rank, const std::string& reason) {
  return "rank " + std::to_string(rank) + ": " + reason;
}

std::vector<int> RanksWithout(const VoteByRank& votes, const TextByRank& rows, PlanState at_least) {
  std::vector<int> missing;
  for (const auto& [rank, row] : rows) {
    const auto vote = votes.find(rank);
    if (vote == votes.end() || vote->second.state < at_least) missing.push_back(rank);
  }
  return missing;
}

template <class Is>
bool All(const VoteByRank& votes, const Is& is) {
  return std::all_of(votes.begin(), votes.end(), [&](const auto& vote) { return is(vote.second); });
}

bool IsQuiet(const Vote& vote) { return !vote.under_way; }

void Combine(std::vector<std::uint64_t>& all, const std::vector<std::uint64_t>& own,
             const std::uint64_t& (*combine)(const std::uint64_t&, const std::uint64_t&)) {
  if (all.empty()) all = own;
  for (std::size_t bucket = 0; bucket < own.size(); ++bucket) {
    all.at(bucket) = combine(all[bucket], own[bucket]);
  }
}

void Combine(const VoteByRank& votes, const std::set<int>& group, Decision& decision) {
  for (const auto& [rank, vote] : votes) {
    if (vote.completions.empty()) continue;  // this rank got the plan after it had ended
    Combine(decision.everywhere, vote.completions, std::min<std::uint64_t>);
    Combine(decision.anywhere, vote.completions, std::max<std::uint64_t>);
    if (group.empty() || group.count(rank) > 0)
      Combine(decision.in_group, vote.completions, std::min<std::uint64_t>);
  }
}

// All of it has arrived equally often on every rank, and nothing is under way.
bool MayRest(const VoteByRank& votes) {
  const Vote& first = votes.begin()->second;
  return All(votes, [&](const Vote& vote) {
    return vote.state == PlanState::kActive && vote.whole && IsQuiet(vote) &&
           vote.last_iteration == first.last_iteration;
  });
}

std::set<int> LeftOut(const VoteByRank& votes) {
  std::set<int> slots;
  for (const auto& [rank, vote] : votes) slots.insert(vote.left_out.begin(), vote.left_out.end());
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
std::vector<std::shared_ptr<const Devices>> DevicesBySlot(const VoteByRank& votes) {
  std::vector<std::shared_ptr<const Devices>> by_slot(votes.begin()->second.devices.size());
  std::map<Devices, std::shared_ptr<const Devices>> known;
  for (std::size_t slot = 0; slot < by_slot.size(); ++slot) {
    Devices devices;
    for (const auto& [rank, vote] : votes) devices.push_back(vote.devices[slot]);
    auto& shared = known[devices];
    if (shared == nullptr) shared = std::make_shared<const Devices>(devices);
    by_slot[slot] = shared;
  }
  return by_slot;
}

// Invariant 6.
bool AbandonsStep(const VoteByRank& votes, Decision& decision) {
  std::uint64_t iteration = 0;
  bool is_over = false;
  for (const auto& [rank, vote] : votes) {
    if (!vote.left) continue;
    decision.any_has_left = true;
    iteration = vote.last_iteration;
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
  const auto waits = [&](const auto& vote) { return goes_on(vote.second) || has_all(vote.second); };
  if (!All(votes, is_known)) return false;
  if (!is_over && std::none_of(votes.begin(), votes.end(), waits)) return false;
  decision.kind = Decision::kAbandon;
  decision.fails_step = !All(votes, goes_on);
  for (const auto& [rank, vote] : votes) {
    if (vote.left) decision.missing[rank] = vote.missing;
  }
  return true;
}

Decision DecidePlan(const std::string& hash, const VoteByRank& votes, const TextByRank& rows,
                    const std::set<int>& group) {
  Decision decision;
  decision.hash = hash;
  for (const auto& [rank, vote] : votes) {
    decision.from_iteration = std::max(decision.from_iteration, vote.last_iteration + 1);
  }
  if (All(votes, [](const Vote& vote) { return !vote.bound && IsQuiet(vote); })) {
    decision.kind = Decision::kForget;
    return decision;
  }
  const auto any_vetoes = [&](PlanState state, Decision::Kind kind) {
    for (const auto& [rank, vote] : votes) {
      if (vote.state != state) continue;
      decision.kind = kind;
      decision.reason = On(rank, vote.reason);
      return true;
    }
    return false;
  };
  if (any_vetoes(PlanState::kFailed, Decision::kEnd) ||
      any_vetoes(PlanState::kEnding, Decision::kEnd) || AbandonsStep(votes, decision)) {
    Combine(votes, group, decision);
    return decision;
  }
  if (any_vetoes(PlanState::kPausing, Decision::kPause)) return decision;
  if (!All(votes, [](const Vote& vote) { return vote.state < PlanState::kEnded; })) {
    if (All(votes, IsQuiet)) decision.kind = Decision::kFree;
    return decision;
  }
  const auto not_ready = RanksWithout(votes, rows, PlanState::kReady);
  if (!not_ready.empty()) {
    if (All(votes, [](const Vote& vote) { return vote.state != PlanState::kResting; })) {
      decision.reason = "its warm-up is not over on " + Ranges("rank", not_ready);
    }
    return decision;
  }
  const Vote& first = votes.begin()->second;
  const std::set<int> left_out = LeftOut(votes);
  for (const auto& [rank, vote] : votes) {
    if (OnGpus(vote.devices, left_out) == OnGpus(first.devices, left_out)) continue;
    decision.kind = Decision::kEnd;
    decision.reason = On(rank, "it has other tensors on GPUs than rank 0");
    Combine(votes, group, decision);
    return decision;
  }
  if (first.state == PlanState::kReady) {
    decision.kind = Decision::kCommit;
    decision.left_out = left_out;
    decision.devices = DevicesBySlot(votes);
  } else if (!first.times.empty()) {
    decision.kind = Decision::kRebuild;
    decision.times = first.times;
  } else if (MayRest(votes)) {
    decision.may_rest = true;
    decision.idle_ms = first.idle_ms;
  }
  return decision;
}

std::map<std::string, VoteByRank> VotesByPlan(const TextByRank& rows) {
  std::map<std::string, VoteByRank> plans;
  for (const auto& [row, ranks] : Distinct(rows)) {
    for (const Vote& vote : FromRow(row)) {
      for (int rank : ranks) plans[vote.hash].emplace(rank, vote);
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
        << vote.left << ' ' << vote.step_over << ' ' << vote.idle_ms;
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
        vote.whole >> vote.goes_on >> vote.left >> vote.step_over >> vote.idle_ms;
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
  for (const auto& [hash, votes] : VotesByPlan(rows)) {
    if (votes.size() < rows.size()) continue;
    auto& completed = everywhere[hash];
    for (const auto& [rank, vote] : votes) {
      Combine(completed, vote.completions, std::min<std::uint64_t>);
    }
  }
  return everywhere;
}

std::vector<Decision> Decide(const TextByRank& rows, const std::set<int>& group) {
  std::vector<Decision> decisions;
  for (const auto& [hash, votes] : VotesByPlan(rows)) {
    decisions.push_back(DecidePlan(hash, votes, rows, group));
  }
  return decisions;
}

}  // namespace horovod_opt
