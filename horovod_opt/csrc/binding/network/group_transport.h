// Point-to-point transport between the groups of ranks that share memory: messages between one rank
// of each, by MPI or TCP.
#pragma once

#include <memory>
#include <string>

#include "horovod_opt/csrc/core/network/groups.h"
#include "horovod_opt/csrc/core/network/transport.h"

namespace horovod {
namespace common {
struct HorovodGlobalState;
}  // namespace common
}  // namespace horovod

namespace horovod_opt {

struct GroupTransport {
  std::unique_ptr<Transport> transport;  // nullptr: no messages can be sent
  int way;                               // HOROVOD_OPT_MESSAGES_*
  std::string why;                       // this way, or none; for users
};

// Between the ranks with the same number in their group; members are numbered as the groups are.
// Over TCP where Horovod uses Gloo. Where it uses MPI, by MPI or, if `tcp` is true and a trial is
// faster so, over TCP. The same way on every rank, which has been tried. Collective over all ranks.
GroupTransport ConnectGroups(horovod::common::HorovodGlobalState& horovod, const Groups& groups,
                             bool tcp);

// --- the ways, of which ConnectGroups() chooses one ---

#if HAVE_MPI
// Over a communicator of its own. Throws std::runtime_error. Collective.
std::unique_ptr<Transport> ConnectWithMpi(horovod::common::HorovodGlobalState& horovod,
                                          const Groups& groups);
#endif

}  // namespace horovod_opt
