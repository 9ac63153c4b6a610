#include "horovod_opt/csrc/binding/topo/split_watch.h"

#include <algorithm>
#include <iterator>
#include <sstream>

namespace horovod_opt {
namespace {

using Clock = PlanTable::Clock;

// A tensor rarely arrives on one rank so much later than on another, and asking costs little.
constexpr std::chrono::milliseconds kWhile(200);
// Ranks may wait that long without such a tensor; then they are asked less and less often.
constexpr std::chrono::milliseconds kLongest(10000);

}  // namespace

SplitWatch::SplitWatch() : pause_(kWhile) {}

int SplitWatch::Look(const PlanTable& plans,
                     const std::function<std::set<std::string>()>& negotiated) {
  const auto now = Clock::now();
  if (now < next_) return waits_;
  next_ = now + kWhile;
  const std::set<std::string> names = negotiated();
  negotiated_.clear();
  std::set_intersection(seen_.begin(), seen_.end(), names.begin(), names.end(),
                        std::inserter(negotiated_, negotiated_.end()));
  seen_ = names;
  planned_ = plans.WaitingSince(now - kWhile);
  waits_ = (negotiated_.empty() ? 0 : kNegotiated) | (planned_.empty() ? 0 : kPlanned);
  if (waits_ == 0) pause_ = kWhile;
  return waits_;
}

std::string SplitWatch::Row() {
  std::ostringstream row;
  for (const auto& name : negotiated_) row << "-\t" << name << '\n';
  for (const auto& [hash, name] : planned_) row << hash << '\t' << name << '\n';
  waits_ = 0;
  seen_.clear();
  next_ = Clock::now() + pause_;
  pause_ = std::min(2 * pause_, kLongest);
  return row.str();
}

std::map<std::string, std::string> SplitWatch::Split(const std::vector<std::string>& rows) {
  std::map<std::string, int> negotiated;                     // name -> first rank
  std::vector<std::pair<std::string, std::string>> planned;  // hash, name
  for (std::size_t rank = 0; rank < rows.size(); ++rank) {
    std::istringstream lines(rows[rank]);
    for (std::string line; std::getline(lines, line);) {
      const std::size_t tab = line.find('\t');
      const std::string hash = line.substr(0, tab), name = line.substr(tab + 1);
      if (hash == "-") {
        negotiated.emplace(name, static_cast<int>(rank));
      } else {
        planned.emplace_back(hash, name);
      }
    }
  }
  std::map<std::string, std::string> split;
  for (const auto& [hash, name] : planned) {
    const auto found = negotiated.find(name);
    if (found == negotiated.end()) continue;
    split.emplace(
        hash, "'" + name + "' comes from another graph on rank " + std::to_string(found->second));
  }
  return split;
}

}  // namespace horovod_opt
