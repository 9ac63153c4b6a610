// Hierarchical reduction: which ranks reduce through shared memory, and which through the network.
#pragma once

#include <algorithm>
#include <map>
#include <numeric>
#include <vector>

namespace horovod_opt {

// All groups have equally many ranks, so that the n-th ranks of all groups can reduce the n-th part
// of a bucket among each other.
struct Groups {
  std::vector<int> ranks;  // of this rank's group, ascending
  int index = 0;           // of this rank among them
  std::vector<int> cross;  // of each group the rank with this index, by group
  int group = 0;           // of this rank, among `cross`
  std::vector<int> all;    // the ranks of all groups, one group after the other

  bool Alone() const { return cross.size() == 1; }
};

// For `rank`. `node_of`: by rank, a number that the ranks of one node have in common. A group has
// the greatest number of ranks, but at most `most` (0: any number), that divides the ranks of every
// node; consecutive ranks of a node are grouped.
inline Groups MakeGroups(const std::vector<int>& node_of, int most, int rank) {
  std::map<int, std::vector<int>> nodes;
  for (std::size_t member = 0; member < node_of.size(); ++member) {
    nodes[node_of[member]].push_back(static_cast<int>(member));
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
