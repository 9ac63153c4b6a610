#include "council.h"

#include <algorithm>
#include <map>
#include <sstream>

#include "ranges.h"

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

Decision DecideOne(const std::string& hash, const ByRank& statements, int ranks) {
  Decision decision;
  decision.hash = hash;
  for (const auto& [rank, statement] : statements) {
    decision.from_pass = std::max(decision.from_pass, statement.begun + 1);
  }
  const struct {
    Stand stand;
    Decision::Kind kind;
  } vetoes[] = {{Stand::kFailed, Decision::kReject},
                {Stand::kEnding, Decision::kEnd},
                {Stand::kPausing, Decision::kPause}};
  for (const auto& veto : vetoes) {
    for (const auto& [rank, statement] : statements) {
      if (statement.stand != veto.stand) continue;
      decision.kind = veto.kind;
      decision.reason = On(rank, statement.reason);
      return decision;
    }
  }
  const auto not_ready = RanksWithout(statements, ranks, Stand::kReady);
  if (!not_ready.empty()) {
    decision.reason = "waits for its first passes on " + Ranges("rank", not_ready);
    return decision;
  }
  const Statement& first = statements.begin()->second;
  for (const auto& [rank, statement] : statements) {
    if (statement.gpu_slots == first.gpu_slots) continue;
    decision.kind = first.stand == Stand::kReady ? Decision::kReject : Decision::kEnd;
    decision.reason = On(rank, "other tensors are on GPUs than on rank 0");
    return decision;
  }
  if (first.stand == Stand::kReady) {
    decision.kind = Decision::kCommit;
  } else if (!first.times.empty()) {
    decision.kind = Decision::kRecut;
    decision.times = first.times;
  }
  return decision;
}

}  // namespace

std::string ToRow(const std::vector<Statement>& statements) {
  std::ostringstream row;
  for (const Statement& one : statements) {
    std::string reason = one.reason;
    std::replace(reason.begin(), reason.end(), '\n', ' ');
    row << one.hash << ' ' << static_cast<int>(one.stand) << ' ' << one.begun << ' '
        << one.times.size();
    for (std::int64_t time : one.times) row << ' ' << time;
    row << ' ' << one.gpu_slots.size();
    for (int slot : one.gpu_slots) row << ' ' << slot;
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
    std::size_t times = 0;
    fields >> one.hash >> stand >> one.begun >> times;
    one.stand = static_cast<Stand>(stand);
    one.times.resize(times);
    for (std::int64_t& time : one.times) fields >> time;
    std::size_t gpu_slots = 0;
    fields >> gpu_slots;
    one.gpu_slots.resize(gpu_slots);
    for (int& slot : one.gpu_slots) fields >> slot;
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
