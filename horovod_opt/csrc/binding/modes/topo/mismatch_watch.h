// Detection of mismatched collectives: finds out, together with the other ranks, which tensors are
// planned on some ranks and negotiated on others, or called with another shape or type on each.
// Upstream pairs tensors by name, whatever graph they come from and whatever they are; without
// this, two ranks that have traced different graphs, or that send different tensors under one name,
// would wait for each other forever.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "horovod_opt/csrc/core/agreement/unnamed_calls.h"
#include "horovod_opt/csrc/core/base/rank_texts.h"
#include "horovod_opt/csrc/core/plan/plan_table.h"

namespace horovod_opt {

class MismatchWatch {
 public:
  MismatchWatch();

  // What this rank has been waiting for: bits, to be combined over ranks. `negotiated` gives the
  // names of the tensors in upstream's queue that have been there since a time.
  enum Waits { kNegotiated = 1, kPlanned = 2, kCall = 4 };
  using NamesSince = std::function<std::set<std::string>(PlanTable::Clock::time_point since)>;
  int Look(const PlanTable& plans, const NamesSince& negotiated, const UnnamedCalls& unnamed);

  // Some ranks have waited for planned tensors, and some for negotiated ones, or some for calls
  // that recur: which, for Mismatches(). All ranks ask in the same round.
  std::string Row(const UnnamedCalls& unnamed);
  // By the hash of a plan that holds such a tensor: which one, and the rank that has it elsewhere.
  // `rows` by rank.
  static std::map<std::string, std::string> Mismatches(const TextByRank& rows);
  // See UnnamedCalls.
  static std::string Disorder(const TextByRank& rows);

 private:
  std::chrono::steady_clock::time_point next_;  // when to look again
  std::chrono::milliseconds pause_;             // after the last Row()
  int waits_ = 0;
  std::set<std::string> negotiated_;
  std::set<std::pair<std::string, std::string>> planned_;  // hash, name
};

}  // namespace horovod_opt
