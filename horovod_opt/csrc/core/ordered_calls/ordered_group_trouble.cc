// What keeps a call from going on, and how it is told to people: from the board and, of groups on several
// hosts, from notes.
#include <algorithm>
#include <cstring>
#include <thread>

#include "horovod_opt/csrc/core/base/rank_texts.h"
#include "horovod_opt/csrc/core/ordered_calls/ordered_group.h"

namespace horovod_opt {
namespace {

// A rank that has just ended its last call may be gone before others have.
constexpr int kGoneLooks = 3;
// A call that takes longer is noted for other hosts.
constexpr std::chrono::milliseconds kSlow(300);
// So long hosts that differ wait for each other's notes.
constexpr std::chrono::milliseconds kNotes(1000), kNextNotes(10);

// What a rank tells other hosts of the call that it is at.
struct CallNote {
  std::uint64_t number, tag;
  CallFacts facts;
};

std::optional<CallNote> NoteIn(const std::string& text) {
  if (text.size() != sizeof(CallNote)) return std::nullopt;
  CallNote note;
  std::memcpy(&note, text.data(), sizeof(note));
  return note;
}

}  // namespace

std::string OrderedGroup::FindTrouble() {
  const OrderedCallPtr call = current_ != nullptr ? current_
                              : list_.empty()     ? nullptr
                                                  : list_.front();
  if (call == nullptr) return "";
  const std::string what = Describe(*call);
  if (call->is_written) {
    const int other = board_.Differing(call->number);
    if (other >= 0) {
      return Difference(*call, RankOf(other), board_.FactsOf(other, call->number));
    }
  }
  const int gone = presence_.Missing();
  if (gone >= 0 && !board_.HasEnded(gone, call->number)) {
    gone_looks_ = gone == gone_ ? gone_looks_ + 1 : 1;
    gone_ = gone;
    if (gone_looks_ >= kGoneLooks) {
      return what + ": " + NamesOf({RankOf(gone)}) + " is gone; remedy: see its last lines";
    }
  } else {
    gone_ = -1;
  }
  NoteIfSlow(*call);
  if (call->timeout.count() > 0 && Clock::now() - call->since > call->timeout) {
    return what + ": " + WhoHasNotCome(NamesIn(Missing(*call)), call->timeout);
  }
  return "";
}

std::string OrderedGroup::TextOf(std::exception_ptr error, OrderedCall& call) {
  try {
    std::rethrow_exception(error);
  } catch (const HostsDiffer& problem) {
    const std::string text = HowHostsDiffer(call);
    return text.empty() ? Describe(call) + ": " + problem.what() : text;
  } catch (const PieceDiffers& problem) {
    return Describe(call) + ": " +
           PieceDiffers::Text(NamesOf({RankOf(problem.from)}), problem.given,
                              NamesOf({RankOf(problem.to)}), problem.wanted) +
           "; remedy: splits that fit each other";
  } catch (const std::runtime_error& problem) {  // of a connection
    return Describe(call) + ": " + problem.what() + "; remedy: see its last lines";
  } catch (const std::exception& problem) {
    return Describe(call) + ": " + problem.what();
  }
}

// Others that time out see by it that this rank has come.
void OrderedGroup::NoteIfSlow(OrderedCall& call) {
  const bool has_come = call.is_written && !call.is_noted;
  if (links_ == nullptr || !has_come) return;
  const auto soon = call.timeout.count() > 0 ? std::min(kSlow, call.timeout / 2) : kSlow;
  if (Clock::now() - call.since > soon) Note(call);
}

void OrderedGroup::Note(OrderedCall& call) {
  call.is_noted = true;
  std::string note(sizeof(CallNote), '\0');
  const CallNote facts{call.number, call.tag, call.facts};
  std::memcpy(note.data(), &facts, sizeof(facts));
  notes_->Write(note);
}

std::vector<int> OrderedGroup::Missing(const OrderedCall& call) {
  std::vector<int> missing;
  for (int number : board_.Missing(call.number)) missing.push_back(RankOf(number));
  if (links_ == nullptr) return missing;
  const std::vector<std::string> notes = notes_->Read();
  for (int rank = 0; rank < static_cast<int>(notes.size()); ++rank) {
    const auto& own = groups_.ranks;
    if (std::find(own.begin(), own.end(), rank) != own.end()) continue;
    const std::optional<CallNote> note = NoteIn(notes[static_cast<std::size_t>(rank)]);
    if (!note || note->number < call.number) missing.push_back(rank);
  }
  return missing;
}

// All hosts know that they do, and write what they have called.
std::string OrderedGroup::HowHostsDiffer(OrderedCall& call) {
  Note(call);
  for (const auto until = Clock::now() + kNotes; Clock::now() < until;) {
    const std::vector<std::string> notes = notes_->Read();
    for (int rank = 0; rank < static_cast<int>(notes.size()); ++rank) {
      const std::optional<CallNote> note = NoteIn(notes[static_cast<std::size_t>(rank)]);
      if (note && note->number == call.number && note->tag != call.tag) {
        return Difference(call, rank, note->facts);
      }
    }
    std::this_thread::sleep_for(kNextNotes);
  }
  return "";
}

std::string OrderedGroup::Describe(const OrderedCall& call) const {
  return std::string(call.facts.Name()) + " " + std::to_string(call.number) + " of group " + name_ +
         call.facts.Text();
}

std::string OrderedGroup::Difference(const OrderedCall& call, int other,
                                     const CallFacts& facts) const {
  return Describe(call) + ": ranks differ: " + NamesOf({RankOf(rank_)}) + " has " +
         call.facts.Name() + call.facts.Text() + ", " + NamesOf({other}) + " has " + facts.Name() +
         facts.Text() +
         "; remedy: all ranks make the same calls in the same order, with the same sizes";
}

std::vector<int> OrderedGroup::NamesIn(const std::vector<int>& ranks) const {
  std::vector<int> names;
  for (int rank : ranks) names.push_back(names_[static_cast<std::size_t>(rank)]);
  std::sort(names.begin(), names.end());
  return names;
}

std::string OrderedGroup::NamesOf(const std::vector<int>& ranks) const {
  return Ranges("rank", NamesIn(ranks));
}

}  // namespace horovod_opt
