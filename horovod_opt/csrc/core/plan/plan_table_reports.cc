// What PlanTable tells of its plans: to users, and to those who look for what is late.
#include <algorithm>
#include <utility>

#include "horovod_opt/csrc/core/plan/plan_table.h"

namespace horovod_opt {
namespace {

// By PlanState: for users, and in a state dump.
constexpr struct {
  const char *name, *description;
} kStates[] = {
    {"ready", "resting: other plans have its bucket IDs"},
    {"warming up", "warming up"},
    {"ready", "ready: the other ranks have to be"},
    {"active", "active"},
    {"active", "active, and this rank has joined"},
    {"active", "active, and this rank wants it to end"},
    {"negotiated", "cannot be planned"},
    {"negotiated", "negotiated"},
};

const auto& Names(PlanState state) { return kStates[static_cast<int>(state)]; }

std::vector<std::string> NamesOf(const Plan& plan, const std::vector<int>& slots) {
  std::vector<std::string> names;
  for (int slot : slots) names.push_back(plan.slots[slot].name);
  return names;
}

}  // namespace

std::vector<PlanTable::Report> PlanTable::Reports() const {
  std::shared_lock<std::shared_mutex> lock(mutex_);
  std::vector<Report> reports;
  for (const auto& [hash, entry] : plans_) {
    std::lock_guard<std::mutex> guard(entry->mutex);
    const PlanRun& run = entry->run;
    Report report;
    report.hash = hash;
    report.name = run.plan().name;
    report.state = Names(run.begins_later() ? PlanState::kReady : run.state()).name;
    if (run.starts_anew()) report.state = "warming up";
    report.reason = run.reason();
    report.iterations = run.iterations_done();
    report.buckets = run.buckets();
    for (const Slot& slot : run.plan().slots) report.slots.push_back(slot.name);
    report.times_last = run.filling().times_last();
    reports.push_back(std::move(report));
  }
  return reports;
}

std::vector<PlanTable::PendingTensor> PlanTable::PendingTensors() const {
  std::shared_lock<std::shared_mutex> lock(mutex_);
  std::vector<PendingTensor> tensors;
  for (const auto& [hash, entry] : plans_) {
    std::lock_guard<std::mutex> guard(entry->mutex);
    for (const auto& [slot, arrival] : entry->run.filling().AllArrivals()) {
      const Slot& planned = entry->run.plan().slots[slot];
      tensors.push_back({hash, arrival.Name(), planned.collective, planned.reduction, arrival.shape,
                         arrival.since});
    }
  }
  return tensors;
}

std::vector<PlanTable::LateBucket> PlanTable::LateBuckets(Clock::time_point since) const {
  std::shared_lock<std::shared_mutex> lock(mutex_);
  std::vector<LateBucket> late;
  for (const auto& [hash, entry] : plans_) {
    std::lock_guard<std::mutex> guard(entry->mutex);
    const auto name = [&](int slot) { return entry->run.plan().slots[slot].name; };
    for (const auto& bucket : entry->run.filling().LateBuckets(since)) {
      LateBucket late_bucket{entry->run.plan().name, bucket.iteration, {}, {}, bucket.last_arrival};
      for (int slot : bucket.here) late_bucket.here.push_back(name(slot));
      for (int slot : bucket.missing) late_bucket.missing.push_back(name(slot));
      late.push_back(std::move(late_bucket));
    }
  }
  return late;
}

bool PlanRun::DumpState(StatePage& page, const std::string& set,
                        const std::function<std::string(int bucket_id)>& more) const {
  std::uint64_t most = 0;
  for (std::size_t slot = 0; slot < arrivals_.size(); ++slot) {
    if (!IsLeftOut(static_cast<int>(slot))) most = std::max(most, arrivals_[slot]);
  }
  std::vector<std::string> behind;
  if (IsCommitted()) {
    page.Fact({"plan", set, plan_.hash, plan_.name, std::to_string(most)});
    for (std::size_t slot = 0; slot < arrivals_.size(); ++slot) {
      if (arrivals_[slot] >= most || IsLeftOut(static_cast<int>(slot))) continue;
      behind.push_back(plan_.slots[slot].name);
      page.Fact({"behind", set, plan_.hash, behind.back(), std::to_string(arrivals_[slot])});
    }
  }
  const bool under_way = filling_.IsUnderWay() || deferring_ || !deferrals_.empty() ||
                         !held_.empty() || starts_anew_ || state_ == PlanState::kEnding ||
                         !behind.empty();
  if (!under_way) return false;
  const std::string why = reason();
  page.Line(0, "plan " + plan_.name + " (" + plan_.hash + ")" +
                   (set == "0" ? "" : ", process set " + set) + ": " +
                   (starts_anew_ ? "starts anew" : Names(state_).description) +
                   (why.empty() ? "" : " (" + why + ")") + "; iteration " +
                   std::to_string(last_iteration_) + " has begun, " +
                   std::to_string(iterations_done_) + " planned ones are reduced");
  DumpBuckets(page, set, more);
  if (!behind.empty()) {
    page.Line(1, "not yet called as often as the others: " + StatePage::Names(behind));
  }
  const int complete = filling_.outstanding();
  if (complete > 0) {
    page.Line(1, "announced and not reduced: " + std::to_string(complete) +
                     (complete == 1 ? " bucket" : " buckets"));
  }
  if (deferring_) page.Line(1, "what arrives is deferred until the ranks have voted");
  DumpWaiting(page, set, "deferred", deferrals_);
  DumpWaiting(page, set, "held", held_);
  return true;
}

void PlanRun::DumpBuckets(StatePage& page, const std::string& set,
                          const std::function<std::string(int bucket_id)>& more) const {
  for (const auto& bucket : filling_.BucketStates()) {
    const std::string iteration = std::to_string(bucket.iteration);
    const std::string text = "bucket " + std::to_string(bucket.id) + ", iteration " + iteration;
    const bool complete = bucket.missing.empty();
    const auto since = complete ? bucket.last_arrival : bucket.first_arrival;
    for (const std::string& name : NamesOf(plan_, bucket.here)) {
      page.Fact({"waits", set, complete ? "complete" : "begun", plan_.hash, iteration,
                 page.Milliseconds(since), name});
    }
    if (bucket.here.empty()) {
      page.Line(1, text + (bucket.owed ? ": taken back, to be announced without tensors"
                                       : ": taken back, announced without tensors"));
    } else if (complete) {
      page.Line(1, text + ": complete for " + page.Age(since) +
                       ", waits for its sum: " + StatePage::Names(NamesOf(plan_, bucket.here)) +
                       (more ? more(bucket.id) : ""));
    } else {
      for (const std::string& name : NamesOf(plan_, bucket.missing)) {
        page.Fact({"misses", set, plan_.hash, iteration, name});
      }
      page.Line(1, text + ": begun " + page.Age(since) +
                       " ago; here: " + StatePage::Names(NamesOf(plan_, bucket.here)) +
                       "; missing: " + StatePage::Names(NamesOf(plan_, bucket.missing)));
    }
  }
}

void PlanRun::DumpWaiting(StatePage& page, const std::string& set, const std::string& kind,
                          const std::vector<DeferredArrival>& arrivals) const {
  if (arrivals.empty()) return;
  std::vector<int> slots;
  for (const DeferredArrival& deferral : arrivals) slots.push_back(deferral.slot);
  const std::vector<std::string> names = NamesOf(plan_, slots);
  for (std::size_t i = 0; i < names.size(); ++i) {
    page.Fact(
        {"waits", set, kind, plan_.hash, std::to_string(arrivals[i].iteration), "", names[i]});
  }
  page.Line(1, (kind == "held" ? "held until the step before is over: "
                               : "deferred until the ranks have voted: ") +
                   StatePage::Names(names));
}

void PlanTable::DumpState(StatePage& page, int process_set, const BucketNote& more) const {
  const std::string set = std::to_string(process_set);
  const std::string of_set = process_set == 0 ? "" : " of process set " + set;
  std::shared_lock<std::shared_mutex> lock(mutex_, std::defer_lock);
  page.Under(lock, "the table of plans" + of_set, [&] {
    std::size_t idle = 0;
    for (const auto& [hash, entry] : plans_) {
      page.Under(std::unique_lock<std::mutex>(entry->mutex, std::defer_lock),
                 "plan " + entry->run.plan().name + " (" + hash + ")" + of_set,
                 [&, &run = entry->run] { idle += run.DumpState(page, set, more) ? 0 : 1; });
    }
    if (idle > 0) {
      page.Line(0, "plans" + of_set + " with nothing under way: " + std::to_string(idle));
    }
    if (WantsVote()) page.Line(0, "a vote on plans" + of_set + " is wanted");
    if (joined_) page.Line(0, "this rank has joined" + of_set);
    if (finishing_) page.Line(0, "no tensor is planned any more" + of_set + ": shutdown");
  });
}

std::string PlanTable::DumpBucket(StatePage& page, int bucket_id) const {
  std::string text = "bucket " + std::to_string(bucket_id);
  std::shared_lock<std::shared_mutex> lock(mutex_, std::defer_lock);
  page.Under(lock, "the table of plans", [&] {
    const bool is_known = 0 <= bucket_id && bucket_id < static_cast<int>(owners_.size());
    const Entry* const owner = is_known ? owners_[bucket_id] : nullptr;
    if (owner == nullptr) return;
    page.Under(std::unique_lock<std::mutex>(owner->mutex, std::defer_lock),
               "plan " + owner->run.plan().name, [&] {
                 const Plan& plan = owner->run.plan();
                 text += " (plan " + plan.name + ": " +
                         StatePage::Names(NamesOf(plan, owner->run.filling().SlotsOf(bucket_id))) +
                         ")";
               });
  });
  return text;
}

}  // namespace horovod_opt
