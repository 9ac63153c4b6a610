#include "horovod_opt/csrc/core/network/groups.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace horovod_opt {

Groups MakeGroups(const std::vector<int>& node_of, int most, int rank) {
  std::map<int, std::vector<int>> nodes;
  for (std::size_t one = 0; one < node_of.size(); ++one) {
    nodes[node_of[one]].push_back(static_cast<int>(one));
  }
  int size = 0;
  for (const auto& [node, ranks] : nodes) size = std::gcd(size, static_cast<int>(ranks.size()));
  if (most > 0) {
    const int common = size;
    for (size = std::min(common, most); common % size != 0;) --size;
  }

  Groups groups;
  for (const auto& [node, ranks] : nodes) {
    const auto own = std::find(ranks.begin(), ranks.end(), rank);
    if (own != ranks.end()) groups.index = static_cast<int>(own - ranks.begin()) % size;
  }
  for (const auto& [node, ranks] : nodes) {
    for (auto first = ranks.begin(); first != ranks.end(); first += size) {
      const int counterpart = first[groups.index];
      if (counterpart == rank) {
        groups.group = static_cast<int>(groups.cross.size());
        groups.ranks.assign(first, first + size);
      }
      groups.cross.push_back(counterpart);
      groups.all.insert(groups.all.end(), first, first + size);
    }
  }
  return groups;
}

}  // namespace horovod_opt
