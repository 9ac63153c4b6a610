// Which ranks reduce through shared memory, and which through the network.
#pragma once

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
Groups MakeGroups(const std::vector<int>& node_of, int most, int rank);

}  // namespace horovod_opt
