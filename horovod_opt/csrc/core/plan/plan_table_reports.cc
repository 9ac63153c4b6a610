// What PlanTable tells of its plans: to users, and to those who look for what is late.
#include "horovod_opt/csrc/core/plan/plan_table.h"

namespace horovod_opt {
namespace {

const char* StateName(PlanState state) {
  switch (state) {
    case PlanState::kCaptured:
      return "warming up";
    case PlanState::kResting:
    case PlanState::kReady:
      return "ready";
    case PlanState::kFailed:
    case PlanState::kEnded:
      return "negotiated";
    default:
      return "active";
  }
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
    report.state = run.starts_anew() ? "warming up" : StateName(run.state());
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

}  // namespace horovod_opt
