#include "horovod_opt/csrc/core/agreement/stall_report.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <sstream>

namespace horovod_opt {
namespace {

// First in a line: what the rank says of a tensor or, with its first tensor's name, of a bucket.
enum Word : char { kMissing = '0', kHere = '1', kComplete = '2' };

// What all ranks call alike: "iteration TAB plan TAB name".
std::string KeyOf(const PlanTable::LateBucket& bucket, const std::string& name) {
  return std::to_string(bucket.iteration) + '\t' + bucket.plan + '\t' + name;
}

std::string Readable(const std::string& key) {
  const std::size_t plan = key.find('\t') + 1, name = key.rfind('\t') + 1;
  return key.substr(name) + " (plan " + key.substr(plan, name - plan - 1) + ", iteration " +
         key.substr(0, plan - 1) + ")";
}

std::string NameOf(const PlanTable::LateBucket& bucket) {
  const std::size_t more = bucket.here.size() - 1;
  return bucket.here.front() + (more == 0 ? "" : " and " + std::to_string(more) + " more");
}

struct Bucket {
  std::set<int> ranks;                                              // on which it is complete
  std::int64_t seconds = std::numeric_limits<std::int64_t>::max();  // since the last one had it
};

}  // namespace

std::string StallRow(const std::vector<PlanTable::LateBucket>& late,
                     PlanTable::Clock::time_point now) {
  std::ostringstream row;
  for (const auto& bucket : late) {
    for (const auto& name : bucket.missing) row << char{kMissing} << KeyOf(bucket, name) << '\n';
    for (const auto& name : bucket.here) row << char{kHere} << KeyOf(bucket, name) << '\n';
    if (!bucket.missing.empty()) continue;
    const auto age = std::chrono::duration_cast<std::chrono::seconds>(now - bucket.last_arrival);
    row << char{kComplete} << age.count() << '\t' << KeyOf(bucket, NameOf(bucket)) << '\n';
  }
  return row.str();
}

std::string DescribeStall(const TextByRank& rows, std::chrono::seconds limit) {
  std::map<std::string, std::set<int>> present;  // by key: ranks that have the tensor
  std::map<std::string, Bucket> complete;        // by key
  for (const auto& [row, have] : Distinct(rows)) {
    std::istringstream lines(row.str());
    for (std::string line; std::getline(lines, line);) {
      if (line[0] == kComplete) {
        const std::size_t end = line.find('\t');
        Bucket& bucket = complete[line.substr(end + 1)];
        bucket.ranks.insert(have.begin(), have.end());
        bucket.seconds = std::min<std::int64_t>(bucket.seconds, std::stoll(line.substr(1, end)));
        continue;
      }
      auto& ranks = present[line.substr(1)];
      if (line[0] == kHere) ranks.insert(have.begin(), have.end());
    }
  }
  std::ostringstream text;
  for (const auto& [tensor, ranks] : present) {
    std::vector<int> missing;
    for (const auto& [rank, row] : rows) {
      if (ranks.count(rank) == 0) missing.push_back(rank);
    }
    if (!missing.empty()) {
      text << "\n" << Readable(tensor) << ": missing on " << Ranges("rank", missing);
    }
  }
  for (const auto& [key, bucket] : complete) {
    if (bucket.ranks.size() < rows.size() || bucket.seconds < limit.count()) continue;
    text << "\n"
         << Readable(key) << ": complete on all ranks, not reduced for " << bucket.seconds << " s";
  }
  return text.str();
}

}  // namespace horovod_opt
