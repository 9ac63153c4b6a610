// Plans for tests.
#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "horovod_opt/csrc/core/base/rank_texts.h"
#include "horovod_opt/csrc/core/plan/plan.h"
#include "horovod_opt/csrc/core/plan/plan_table.h"

namespace horovod_opt {

using Random = std::minstd_rand;

// Of ranks 0, 1, ...
inline TextByRank ByRank(const std::vector<std::string>& rows) {
  TextByRank by_rank;
  for (const std::string& row : rows) by_rank[static_cast<int>(by_rank.size())] = row;
  return by_rank;
}

// `slots` tensors of 4 bytes, named a, b, ...; keys count up from `first_key`.
inline Plan MakePlan(const std::string& hash, int slots, Buckets buckets,
                     std::int64_t first_key = 1) {
  Plan plan;
  plan.hash = plan.name = hash;
  plan.limits = 8;
  for (int slot = 0; slot < slots; ++slot) {
    const std::string name(1, static_cast<char>('a' + slot));
    plan.slots.push_back({first_key + slot, 4, {}, {}, name, nullptr});
  }
  plan.buckets = std::move(buckets);
  return plan;
}

// A tensor of so many bytes arrives at `plans`.
inline Route ArriveAt(PlanTable& plans, std::int64_t key, ArrivalPtr& arrival,
                      std::int64_t bytes = 4, const Reduction& reduction = {}) {
  arrival->bytes = bytes;
  arrival->reduction = reduction;
  return plans.Arrive(key, arrival);
}
inline Route ArriveAt(PlanTable& plans, std::int64_t key, std::int64_t bytes = 4,
                      const Reduction& reduction = {}) {
  ArrivalPtr arrival = std::make_unique<Arrival>();
  return ArriveAt(plans, key, arrival, bytes, reduction);
}

// A call is learned, and the vote that follows makes it active: each rank for itself, as all come to
// the same decision.
inline bool Activate(PlanTable& plans, const Plan& call) {
  if (!plans.Learn(call)) return false;
  plans.Apply(ByRank({plans.VoteRow(true, false)}));
  return true;
}

// 1 to 6 slots, some of which depend on an earlier one, in buckets that respect that.
inline Plan RandomPlan(Random& random, const std::string& hash) {
  Plan plan = MakePlan(hash, 1 + static_cast<int>(random() % 6), {});
  for (int slot = 0; slot < static_cast<int>(plan.slots.size()); ++slot) {
    auto& after = plan.slots[slot].after;
    if (slot > 0 && random() % 3 == 0) after.push_back(static_cast<int>(random() % slot));
    auto& buckets = plan.buckets;
    const bool depends = !after.empty() && after[0] >= buckets.back().front();
    if (buckets.empty() || depends || random() % 3 == 0) buckets.emplace_back();
    buckets.back().push_back(slot);
  }
  return plan;
}

}  // namespace horovod_opt
