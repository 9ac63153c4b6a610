"""The rules, and the edit of the product that removes each."""

from __future__ import annotations

from dataclasses import dataclass

PLAN = "horovod_opt/csrc/core/plan"
MEMORY = "horovod_opt/csrc/core/shared_memory"


@dataclass(frozen=True)
class Mutation:
    """One edit: `old` stands exactly once in `file`."""

    name: str
    rule: str
    file: str
    old: str
    new: str


RULES = (
    Mutation("defer", "arrivals wait from a rank's vote until the decision", f"{PLAN}/plan_run.cc",
             "  deferring_ = true;\n  Vote vote;\n", "  Vote vote;\n"),
    Mutation("begun", "a switch comes after the last iteration that any rank has begun",
             f"{PLAN}/consensus.cc", "vote.last_iteration + 1)", "vote.last_iteration)"),
    Mutation("ready", "a plan becomes active when its warm-up is over on every rank",
             f"{PLAN}/consensus.cc", "  if (!not_ready.empty()) {",
             "  if (not_ready.size() == rows.size()) {"),
    Mutation("joined", "a rank that has joined makes no plan active", f"{PLAN}/plan_run.cc",
             "    vote.state = PlanState::kCaptured;\n", ""),
    Mutation("devices", "planned tensors are on GPUs on every rank or on none",
             f"{PLAN}/consensus.cc",
             "if (OnGpus(vote.devices, left_out) == OnGpus(first.devices, left_out)) continue;",
             "if (rank >= 0) continue;"),
    Mutation("complete", "a bucket in the ready queue is complete on all ranks",
             f"{MEMORY}/ready_queue.cc",
             "calls % static_cast<std::uint64_t>(ranks) == 0",
             "calls % static_cast<std::uint64_t>(ranks) == 1"),
    Mutation("take-back", "an ending plan takes back what is not complete everywhere",
             f"{PLAN}/bucket_filling.cc",
             "bucket.missing == 0 && (bucket.completions == least || ends_in_group)",
             "bucket.missing == 0"),
    Mutation("debt", "what one rank has announced, the others announce as well",
             f"{PLAN}/bucket_filling.cc", "      withdrawal.debts.push_back(bucket.id);\n", ""),
    Mutation("debt-later", "they do so in the next vote, when all have taken theirs back",
             f"{PLAN}/plan_table_votes.cc", "  PayDebts();\n  std::vector<Decision> decisions",
             "  std::vector<Decision> decisions"),
    Mutation("left-out", "what any rank leaves out is in no bucket",
             f"{PLAN}/plan_run.cc", "  left_out_ = decision.left_out;\n", ""),
    Mutation("two-steps", "no bucket has tensors of two steps", f"{PLAN}/plan_run.cc",
             "  if (filling_.AnyBusy()) return false;\n"
             "  return last_iteration_ >= planned_until_ || IsWhole();", "  return true;"),
    Mutation("abandon", "a step that cannot be complete is abandoned on all ranks",
             f"{PLAN}/consensus.cc", " ||\n      AbandonsStep(votes, decision)) {", ") {"),
    Mutation("abandon-early", "not before every rank has all of it or has gone on",
             f"{PLAN}/consensus.cc", "  if (!All(votes, is_known)) return false;\n", ""),
    Mutation("free", "bucket IDs are given up when nothing is under way on any rank",
             f"{PLAN}/consensus.cc", "    if (All(votes, IsQuiet)) decision.kind",
             "    decision.kind"),
    Mutation("forget", "a plan is forgotten when nothing is under way on any rank",
             f"{PLAN}/consensus.cc", "return !vote.bound && IsQuiet(vote);",
             "return !vote.bound;"),
    Mutation("rebuild", "new buckets apply from an iteration that no rank has begun",
             f"{PLAN}/plan_run.cc",
             "filling_.Add(decision.from_iteration, bucket_ids, std::move(buckets));",
             "filling_.Add(0, bucket_ids, std::move(buckets));"),
    Mutation("zeros", "a rank that has joined completes the iterations that others have begun",
             f"{PLAN}/plan_table_votes.cc", "  if (!joined_) return outcome;\n",
             "  if (plans_.size() > 0) return outcome;\n"),
    Mutation("finished", "nothing is planned once the path is closed", f"{PLAN}/plan_table.cc",
             "  if (finishing_) return Route::kNegotiated;\n", ""),
    Mutation("closed", "what is left at the end fails", f"{PLAN}/plan_table.cc",
             "    for (ArrivalPtr& arrival : entry->run.Close()) "
             "arrivals.push_back(std::move(arrival));\n", ""),
    Mutation("presence", "a rank that waits for another of its group notices its death",
             f"{MEMORY}/presence.h", "      if (result == EBUSY) continue;\n",
             "      if (result == EBUSY || rank >= 0) continue;\n"),
)
