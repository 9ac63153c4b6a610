// Allreduce schedules (recursive doubling, ring, Rabenseifner's algorithm): in which steps the
// members, one rank of each group, exchange their data; what is left of the algorithms when the
// data is taken away.
//
// The data is cut into pieces of one size. In a step a member may send some consecutive pieces to
// one other and receive some from one other; a piece that is received is added to its own or takes
// its place. The n-th message from one member to another is what that one receives from it n-th.
#pragma once

#include <cstdint>
#include <vector>

namespace horovod_opt {

struct Step {
  static constexpr int kNobody = -1;
  struct Pieces {
    int begin = 0, end = 0;
  };

  int to = kNobody;
  Pieces outgoing;
  int from = kNobody;
  Pieces incoming;
  bool adds = false;
};

struct Schedule {
  int pieces = 1;
  std::vector<Step> steps;  // of one member
};

// All pieces in each step: log2(members) steps, and two more for members that are no power of two.
// For little data (Thakur, Rabenseifner and Gropp, IJHPCA 19(1), 2005, section 4.5).
Schedule RecursiveDoubling(int members, int self);

// 2 (members - 1) steps of a piece each; every byte is sent less than twice. For much data
// (Patarasuk and Yuan, DOI 10.1016/j.jpdc.2008.09.002).
Schedule Ring(int members, int self);

// Half of the pieces, then a quarter, ..., and back: every byte is sent less than twice in
// 2 log2(members) steps. For much data of many members (Rabenseifner's algorithm, section 4.5 of
// the paper above); those that are no power of two send all of it twice more.
Schedule HalvingAndDoubling(int members, int self);

// What is likely to be the fastest for `bytes` bytes; the same algorithm for every member.
Schedule ScheduleFor(int members, int self, std::int64_t bytes);

// All others that take part in any of them with `self`, and those beside it in a ring
// (block_ring.h), ascending: whom a member has to reach.
std::vector<int> Neighbours(int members, int self);

}  // namespace horovod_opt
