#include "horovod_opt/csrc/binding/modes/topo/mismatch_watch.h"

#include <algorithm>
#include <sstream>
#include <vector>

namespace horovod_opt {
namespace {

using Clock = PlanTable::Clock;

// A tensor rarely arrives on one rank so much later than on another, and asking costs little.
constexpr std::chrono::milliseconds kWhile(200);
// Ranks may wait that long without such a tensor; then they are asked less and less often.
constexpr std::chrono::milliseconds kLongest(10000);

// After what UnnamedCalls says.
constexpr char kUnnamed = '#';

bool IsCall(const std::string& hash) { return hash.rfind(kCallHash, 0) == 0; }

}  // namespace

MismatchWatch::MismatchWatch() : pause_(kWhile) {}

int MismatchWatch::Look(const PlanTable& plans, const NamesSince& negotiated,
                        const UnnamedCalls& unnamed) {
  const auto now = Clock::now();
  if (now < next_) return waits_;
  next_ = now + kWhile;
  negotiated_ = negotiated(now - kWhile);
  planned_.clear();
  for (const PlanTable::PendingTensor& tensor : plans.PendingTensors()) {
    if (tensor.since <= now - kWhile) planned_.emplace(tensor.plan, tensor.name);
  }
  waits_ = (negotiated_.empty() ? 0 : kNegotiated) | (planned_.empty() ? 0 : kPlanned);
  if (std::any_of(planned_.begin(), planned_.end(),
                  [](const auto& tensor) { return IsCall(tensor.first); })) {
    waits_ |= kCall;
  }
  if (!unnamed.Waiting(now - kWhile).empty()) waits_ |= kCall;
  if (waits_ == 0) pause_ = kWhile;
  return waits_;
}

std::string MismatchWatch::Row(const UnnamedCalls& unnamed) {
  std::ostringstream row;
  // As of this round: since an earlier one they may count from another call.
  row << unnamed.Waiting(Clock::now() - kWhile) << kUnnamed;
  for (const auto& name : negotiated_) row << "-\t" << name << '\n';
  for (const auto& [hash, name] : planned_) row << hash << '\t' << name << '\n';
  waits_ = 0;
  next_ = Clock::now() + pause_;
  pause_ = std::min(2 * pause_, kLongest);
  return row.str();
}

std::map<std::string, std::string> MismatchWatch::Mismatches(const TextByRank& rows) {
  std::map<std::string, int> negotiated;                     // name -> first rank
  std::vector<std::pair<std::string, std::string>> planned;  // hash, name
  std::map<std::string, std::map<std::string, int>> calls;   // name -> hash -> first rank
  for (const auto& [row, ranks] : Distinct(rows)) {
    const int rank = ranks[0];
    std::istringstream lines(row.str().substr(row.str().find(kUnnamed) + 1));
    for (std::string line; std::getline(lines, line);) {
      const std::size_t tab = line.find('\t');
      const std::string hash = line.substr(0, tab), name = line.substr(tab + 1);
      if (hash == "-") {
        negotiated.emplace(name, rank);
      } else {
        planned.emplace_back(hash, name);
        if (IsCall(hash)) calls[name].emplace(hash, rank);
      }
    }
  }
  std::map<std::string, std::string> mismatches;
  for (const auto& [hash, name] : planned) {
    const auto negotiation = negotiated.find(name);
    if (negotiation == negotiated.end()) continue;
    const std::string what = IsCall(hash) ? "is another tensor" : "comes from another graph";
    mismatches.emplace(
        hash, "'" + name + "' " + what + " on rank " + std::to_string(negotiation->second));
  }
  // A rank has no two calls of one name under way, so these are not about to meet.
  for (const auto& [name, hashes] : calls) {
    for (const auto& [hash, rank] : hashes) {
      const auto& counterpart = hashes.begin()->first == hash ? *hashes.rbegin() : *hashes.begin();
      if (counterpart.first == hash) continue;
      mismatches.emplace(
          hash, "'" + name + "' is another tensor on rank " + std::to_string(counterpart.second));
    }
  }
  return mismatches;
}

std::string MismatchWatch::Disorder(const TextByRank& rows) {
  TextByRank waiting;
  for (const auto& [rank, row] : rows) {
    waiting[rank] = row.str().substr(0, row.str().find(kUnnamed));
  }
  return UnnamedCalls::Disorder(waiting);
}

}  // namespace horovod_opt
