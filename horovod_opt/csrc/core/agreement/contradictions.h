// Deadlock detection: which tensors the ranks wait for in vain because they contradict each other:
// one name in two process sets, or a gradient that is dense on some ranks and sparse on others.
// Upstream pairs tensors by process set and name, so it never compares these, and the ranks wait
// forever.
//
// Rules (each with a test that fails without it):
// 1. A rank contradicts a tensor of its process set by waiting for another one, which has waited
//    for long: one that it has just called may be met by calls that are on their way.
// 2. A tensor is waited for in vain if each rank of its set waits for it or contradicts it with
//    another one that is waited for in vain. As long as one rank does neither, it may still call
//    the tensor, after which others go on.
// 3. What is decided follows from the rows alone, so it is the same on every rank.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "horovod_opt/csrc/core/base/rank_texts.h"

namespace horovod_opt {

// Something that a rank has called and not got yet.
struct WaitingTensor {
  enum Kind { kAllreduce, kAllgather, kOther };

  int process_set = 0;
  std::string name;
  Kind kind = kOther;
  int dtype = 0;
  bool integer = false;
  bool has_rows = false;          // at least one dimension
  std::vector<std::int64_t> row;  // the other dimensions
  bool long_ago = false;
  std::string text;  // for users, one line
};

std::string ToRow(const std::vector<WaitingTensor>& waiting);

// A tensor that is waited for in vain.
struct Contradiction {
  int process_set = 0;
  std::string name;
  std::vector<int> contradicting;  // ranks of its set that do not wait for it
  std::string error;               // the same for all that contradict each other
};

// Ordered by process set and name. `rows`: of ToRow(), by rank. `members`: the ranks of a process
// set; none: it is not known.
std::vector<Contradiction> Contradictions(
    const TextByRank& rows, const std::function<std::vector<int>(int process_set)>& members);

}  // namespace horovod_opt
