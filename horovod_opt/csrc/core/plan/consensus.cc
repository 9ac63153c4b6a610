#include "horovod_opt/csrc/core/plan/consensus.h"

#include <algorithm>
#include <map>
#include <sstream>

#include "horovod_opt/csrc/core/base/ranges.h"

namespace horovod_opt {
namespace {

using ByRank = std::map<int, Statement>;

std::string On(int rank, const std::string& reason) {
  return "rank " + std::to_string(rank) + ": " + reason;
}

std::vector<int> RanksWithout(const ByRank& statements, int ranks, Stand at_least) {
  std::vector<int> missing;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto found = statements.find(rank);
    if (found == statements.end() || found->second.stand < at_least) missing.push_back(rank);
  }
  return missing;
}

template <class Is>
bool All(const ByRank& statements, const Is& is) {
  return std::all_of(statements.begin(), statements.end(),
                     [&](const auto& one) { return is(one.second); });
}

bool IsQuiet(const Statement& statement) { return !statement.under_way; }

void Combine(const ByRank& statements, Decision& decision) {
  for (const auto& [rank, statement] : statements) {
    const auto& own = statement.completed;
    if (own.empty()) continue;  // heard of the plan after it had ended
    if (decision.everywhere.empty()) decision.everywhere = decision.anywhere = own;
    for (std::size_t bucket = 0; bucket < own.size(); ++bucket) {
      decision.everywhere.at(bucket) = std::min(decision.everywhere[bucket], own[bucket]);
      decision.anywhere.at(bucket) = std::max(decision.anywhere[bucket], own[bucket]);
    }
  }
}

// All of it has arrived equally often on every rank, and nothing is under way.
bool MayRest(const ByRank& statements) {
  const Statement& first = statements.begin()->second;
  return All(statements, [&](const Statement& one) {
    return one.stand == Stand::kActive && one.whole && IsQuiet(one) && one.begun == first.begun;
  });
}

std::vector<bool> OnGpus(const Devices& by_slot) {
  std::vector<bool> on_gpus;
  for (int device : by_slot) on_gpus.push_back(device != kMainMemory);
  return on_gpus;
}

// Of a plan about which every rank has said the same number of devices.
std::vector<std::shared_ptr<const Devices>> DevicesBySlot(const ByRank& statements) {
  std::vector<std::shared_ptr<const Devices>> by_slot(statements.begin()->second.devices.size());
  std::map<Devices, std::shared_ptr<const Devices>> known;
  for (std::size_t slot = 0; slot < by_slot.size(); ++slot) {
    Devices devices;
    for (const auto& [rank, statement] : statements) devices.push_back(statement.devices[slot]);
    auto& shared = known[devices];
    if (shared == nullptr) shared = std::make_shared<const Devices>(devices);
    by_slot[slot] = shared;
  }
  return by_slot;
}

Decision DecideOne(const std::string& hash, const ByRank& statements, int ranks) {
  Decision decision;
  decision.hash = hash;
  for (const auto& [rank, statement] : statements) {
    decision.from_pass = std::max(decision.from_pass, statement.begun + 1);
  }
  if (All(statements, [](const Statement& one) { return !one.bound && IsQuiet(one); })) {
    decision.kind = Decision::kForget;
    return decision;
  }
  const struct {
    Stand stand;
    Decision::Kind kind;
  } vetoes[] = {{Stand::kFailed, Decision::kEnd},
                {Stand::kEnding, Decision::kEnd},
                {Stand::kPausing, Decision::kPause}};
  for (const auto& veto : vetoes) {
    for (const auto& [rank, statement] : statements) {
      if (statement.stand != veto.stand) continue;
      decision.kind = veto.kind;
      decision.reason = On(rank, statement.reason);
      if (veto.kind == Decision::kEnd) Combine(statements, decision);
      return decision;
    }
  }
  if (!All(statements, [](const Statement& one) { return one.stand < Stand::kEnded; })) {
    if (All(statements, IsQuiet)) decision.kind = Decision::kFree;
    return decision;
  }
  const auto not_ready = RanksWithout(statements, ranks, Stand::kReady);
  if (!not_ready.empty()) {
    if (All(statements, [](const Statement& one) { return one.stand != Stand::kResting; })) {
      decision.reason = "waits for its first passes on " + Ranges("rank", not_ready);
    }
    return decision;
  }
  const Statement& first = statements.begin()->second;
  for (const auto& [rank, statement] : statements) {
    if (OnGpus(statement.devices) == OnGpus(first.devices)) continue;
    decision.kind = Decision::kEnd;
    decision.reason = On(rank, "other tensors are on GPUs than on rank 0");
    Combine(statements, decision);
    return decision;
  }
  if (first.stand == Stand::kReady) {
    decision.kind = Decision::kCommit;
    decision.devices = DevicesBySlot(statements);
  } else if (!first.times.empty()) {
    decision.kind = Decision::kRecut;
    decision.times = first.times;
  } else if (MayRest(statements)) {
    decision.may_rest = true;
    decision.idle_ms = first.idle_ms;
  }
  return decision;
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

std::string ToRow(const std::vector<Statement>& statements) {
  std::ostringstream row;
  for (const Statement& one : statements) {
    std::string reason = one.reason;
    std::replace(reason.begin(), reason.end(), '\n', ' ');
    row << one.hash << ' ' << static_cast<int>(one.stand) << ' ' << one.begun << ' ' << one.bound
        << ' ' << one.under_way << ' ' << one.whole << ' ' << one.idle_ms;
    Write(row, one.times);
    Write(row, one.devices);
    Write(row, one.completed);
    row << ' ' << reason << '\n';
  }
  return row.str();
}

std::vector<Statement> FromRow(const std::string& row) {
  std::vector<Statement> statements;
  std::istringstream lines(row);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    Statement one;
    int stand = 0;
    fields >> one.hash >> stand >> one.begun >> one.bound >> one.under_way >> one.whole >>
        one.idle_ms;
    one.stand = static_cast<Stand>(stand);
    Read(fields, one.times);
    Read(fields, one.devices);
    Read(fields, one.completed);
    fields.get();
    std::getline(fields, one.reason);
    statements.push_back(one);
  }
  return statements;
}

std::vector<Decision> Decide(const std::vector<std::string>& rows) {
  std::map<std::string, ByRank> plans;
  for (std::size_t rank = 0; rank < rows.size(); ++rank) {
    for (Statement& one : FromRow(rows[rank])) {
      std::string hash = one.hash;
      plans[hash].emplace(static_cast<int>(rank), std::move(one));
    }
  }
  std::vector<Decision> decisions;
  for (const auto& [hash, statements] : plans) {
    decisions.push_back(DecideOne(hash, statements, static_cast<int>(rows.size())));
  }
  return decisions;
}

}  // namespace horovod_opt
