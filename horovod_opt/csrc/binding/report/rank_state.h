// State dump of one rank: who it is, and all that it waits for.
#pragma once

#include <string>

#include "horovod_opt/csrc/binding/report/performed_response.h"

namespace horovod {
namespace common {
struct HorovodGlobalState;
}
}  // namespace horovod

namespace horovod_opt {

struct RankIdentity {
  std::string job;  // equal for all ranks of a job; empty: its launcher tells none
  int rank = -1, size = 0, local_rank = -1, local_size = 0;  // -1: not known yet
};

// What launchers give all ranks of a job alike.
std::string JobFromEnvironment();

// `horovod`: nullptr, as long as the ranks do not talk yet or do not any more; `phase` says which.
// Takes a tenth of a second, to see whether the background thread goes on, and some seconds at most.
std::string DumpRankState(const RankIdentity& identity,
                          horovod::common::HorovodGlobalState* horovod, const std::string& phase,
                          PerformedResponse& performed);

}  // namespace horovod_opt
