"""The rules, and the edit of the product that removes each."""

from __future__ import annotations

from dataclasses import dataclass

PLAN = "horovod_opt/csrc/core/plan"
MEMORY = "horovod_opt/csrc/core/shared_memory"


@dataclass(frozen=True)
class Mutation:
    """One edit: `old` stands exactly once in `file`."""

    name: str
    job: str  # of those that are explored: it shows what goes wrong
    rule: str
    file: str
    old: str
    new: str
    tests: str = "exploration"  # below tests/native


RULES = (
    Mutation("defer", "Activation", "arrivals wait from a rank's vote until the decision",
             f"{PLAN}/plan_run_votes.cc", "  deferring_ = true;\n  Vote vote;\n", "  Vote vote;\n"),
    Mutation("begun", "Activation",
             "a switch comes after the last iteration that any rank has begun",
             f"{PLAN}/consensus.cc", "vote.last_iteration + 1)", "vote.last_iteration)"),
    Mutation("ready", "Activation", "a plan becomes active when its warm-up is over on every rank",
             f"{PLAN}/consensus.cc", "if (!all_vote || !All(votes, [](const Vote& vote) { "
             "return vote.state >= PlanState::kReady; })) {",
             "if (All(votes, [](const Vote& vote) { return vote.state < PlanState::kReady; })) {"),
    Mutation("joined", "JoinEarly", "a rank that has joined makes no plan active",
             f"{PLAN}/plan_run_votes.cc", "    vote.state = PlanState::kCaptured;\n", ""),
    Mutation("devices", "Devices", "planned tensors are on GPUs on every rank or on none",
             f"{PLAN}/consensus.cc",
             "if (OnGpus(vote.devices, left_out) == OnGpus(first.devices, left_out)) continue;",
             "if (!voters->empty()) continue;"),
    Mutation("complete", "TwoPlans", "a bucket in the ready queue is complete on all ranks",
             f"{MEMORY}/ready_queue.cc",
             "calls % static_cast<std::uint64_t>(ranks) == 0",
             "calls % static_cast<std::uint64_t>(ranks) == 1"),
    Mutation("take-back", "End", "an ending plan takes back what is not complete everywhere",
             f"{PLAN}/bucket_filling.cc",
             "bucket.missing == 0 && (bucket.completions == least || ends_in_group)",
             "bucket.missing == 0"),
    Mutation("debt", "End", "what one rank has announced, the others announce as well",
             f"{PLAN}/bucket_filling.cc", "      withdrawal.debts.push_back(bucket.id());\n", ""),
    Mutation("debt-later", "End", "they do so in the next vote, when all have taken theirs back",
             f"{PLAN}/plan_table_votes.cc",
             "    CarryOut(entry, decision, outcome);\n"
             "    if (decision.kind == Decision::kAbandon",
             "    CarryOut(entry, decision, outcome);\n    PayDebts();\n"
             "    if (decision.kind == Decision::kAbandon"),
    Mutation("left-out", "LeftOutEarly", "what any rank leaves out is in no bucket",
             f"{PLAN}/plan_run_votes.cc", "  left_out_ = decision.left_out;\n", ""),
    Mutation("two-steps", "StepLeft", "no bucket has tensors of two steps", f"{PLAN}/plan_run.cc",
             "  return !filling_.AnyBusy() && (!StepIsPlanned() || IsWhole());\n",
             "  return true;\n"),
    Mutation("held", "StepLeftBeforeActive",
             "a step holds the next one only where it takes the planned path",
             f"{PLAN}/plan_run.cc", "(!StepIsPlanned() || IsWhole());", "IsWhole();"),
    Mutation("tries", "StepLeftBeforeActive",
             "an arrival that is refused and its repetition are one", f"{PLAN}/plan_run.cc",
             "  if (arrivals_[slot] > 0) refused_.insert(slot);", "  (void)slot;"),
    Mutation("hand-back", "StepLeftBeforeActive",
             "what is handed back is not overtaken by the next of its name",
             f"{PLAN}/plan_table_votes.cc",
             "    ForEach(come_from, [](Entry& entry) { entry.run.DeferStill(); });\n", ""),
    Mutation("abandon", "StepLeft", "a step that cannot be complete is abandoned on all ranks",
             f"{PLAN}/consensus.cc", " || AbandonsStep(votes, decision)) {", ") {"),
    Mutation("abandon-early", "StepLeft", "not before every rank has all of it or has gone on",
             f"{PLAN}/consensus.cc", "  if (!All(votes, is_known)) return false;\n", ""),
    Mutation("free", "Heirs", "bucket IDs are given up when nothing is under way on any rank",
             f"{PLAN}/consensus.cc", "    if (All(votes, IsQuiet)) decision.kind",
             "    decision.kind"),
    Mutation("forget", "Forgotten", "a plan is forgotten when nothing is under way on any rank",
             f"{PLAN}/consensus.cc", "return !vote.bound && IsQuiet(vote);",
             "return !vote.bound;"),
    Mutation("rebuild", "Rebuild", "new buckets apply from an iteration that no rank has begun",
             f"{PLAN}/plan_run_votes.cc",
             "AddBuckets(decision.from_iteration, bucket_ids, std::move(buckets));",
             "AddBuckets(0, bucket_ids, std::move(buckets));"),
    Mutation("zeros", "Join",
             "a rank that has joined completes the iterations that others have begun",
             f"{PLAN}/plan_table_votes.cc", "  if (!joined_) return outcome;\n",
             "  if (plans_.size() > 0) return outcome;\n"),
    Mutation("finished", "Shutdown", "nothing is planned once the path is closed",
             f"{PLAN}/plan_table.cc", "  if (finishing_) return Route::kNegotiated;\n", ""),
    Mutation("closed", "Shutdown", "what is left at the end fails", f"{PLAN}/plan_table.cc",
             "    for (ArrivalPtr& arrival : entry->run.Close()) "
             "arrivals.push_back(std::move(arrival));\n", ""),
    Mutation("presence", "Death", "a rank that waits for another of its group notices its death",
             f"{MEMORY}/presence.h", "      if (result == EBUSY) continue;\n",
             "      if (result == EBUSY || rank >= 0) continue;\n"),
    # Steps of threads in the group's memory.
    Mutation("places", "SentAgain", "a row is written when all have read the turn but one before",
             f"{MEMORY}/bucket_places.cc", "  if (!AllHaveRead(turn)) return false;\n", "",
             "interleaving"),
    Mutation("positions", "TwoBuckets", "each entry of the queue has a position of its own",
             f"{MEMORY}/ready_queue.cc",
             "  const std::uint64_t position = size_.fetch_add(1);\n",
             "  const std::uint64_t position = size_.load();\n  size_.store(position + 1);\n",
             "interleaving"),
    Mutation("vain-spin", "OneBucket", "a vain spin wakes the thread that reduces the bucket",
             f"{MEMORY}/ready_queue.cc",
             "  if (!performed && size_.load() > position) appended_.Kick(Bit(reader));\n", "",
             "interleaving"),
    Mutation("append", "OneBucket", "the entry is stored before the look at who spins",
             f"{MEMORY}/ready_queue.cc",
             "  entries_[position % kEntries].store(Entry(position, bucket_id));\n"
             "  const futex::Sleepers performer = HasBit(all_but) ? Bit(all_but) : 0;\n"
             "  const futex::Sleepers asleep = futex::kAll & ~performer & ~Spinning(bucket_id);\n",
             "  const futex::Sleepers performer = HasBit(all_but) ? Bit(all_but) : 0;\n"
             "  const futex::Sleepers asleep = futex::kAll & ~performer & ~Spinning(bucket_id);\n"
             "  entries_[position % kEntries].store(Entry(position, bucket_id));\n",
             "interleaving"),
    Mutation("overtaken", "TwoBuckets", "who stores an entry after a later one wakes everybody",
             f"{MEMORY}/ready_queue.cc",
             "size_.load() == position + 1 ? asleep : futex::kAll", "asleep", "interleaving"),
    Mutation("sleepers", "OneBucket", "who is about to sleep says so before the last look",
             "horovod_opt/csrc/core/waiting/event_count.h",
             "    sleepers_.fetch_add(1);\n    bool slept = false;\n    bool is_done;\n"
             "    for (;;) {\n      const std::uint32_t generation = generation_.load();\n"
             "      is_done = done();\n",
             "    bool slept = false;\n    bool is_done;\n"
             "    for (;;) {\n      const std::uint32_t generation = generation_.load();\n"
             "      is_done = done();\n      if (!slept) sleepers_.fetch_add(1);\n",
             "interleaving"),
    Mutation("closing", "GroupShutdown", "the path is closed when no framework's thread performs",
             "horovod_opt/csrc/core/reduction/small_buckets.cc",
             "  while (performing_ > 0) SleepFor(kShortly);\n", "",
             "interleaving"),
    Mutation("data", "CopiedData", "no tensor is read before its data is there",
             "horovod_opt/csrc/core/reduction/small_buckets.cc",
             "work.reduction != nullptr && std::all_of(arrivals.begin(), arrivals.end(), is_ready)",
             "work.reduction != nullptr && (true || is_ready(arrivals[0]))",
             "interleaving"),
    Mutation("taken", "OneBucket", "one thread takes a bucket, as the plan's mutex has it",
             f"{PLAN}/plan_table.cc",
             "  if (!entry->run.filling().IsComplete(turn.bucket_id, turn.count)) return work;\n",
             "",
             "interleaving"),
)
