#include "horovod_opt/csrc/binding/network/group_transport.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <utility>

#include "horovod/common/controller.h"
#include "horovod/common/global_state.h"
#include "horovod_opt/csrc/binding/base/rank_rows.h"
#include "horovod_opt/csrc/binding/network/tcp_transport.h"
#include "horovod_opt/csrc/core/network/tcp_rendezvous.h"
#include "horovod_opt/csrc/core/network/word_allreduce.h"
#include "horovod_opt_abi.h"

#if HAVE_MPI
#include "horovod_opt/csrc/binding/network/mpi_transport.h"
#endif
#if HAVE_GLOO
#include "horovod_opt/csrc/binding/network/gloo_address.h"
#endif

namespace horovod_opt {
namespace {

using horovod::common::Controller;
using horovod::common::HorovodGlobalState;
using horovod::common::LibType;

// Of a connection and a trial, which take milliseconds where messages arrive: how long all ranks
// wait for it, and how long where there is another way.
constexpr std::chrono::seconds kPatience(60), kPatienceWithChoice(5);
// What is faster by so little is not: MPI stays what it is.
constexpr double kFaster = 0.9;

constexpr const char* kMpi = "MPI";
constexpr const char* kTcp = "TCP";

// A way that has been tried.
struct Tried {
  std::unique_ptr<Transport> transport;  // nullptr: it does not work
  std::chrono::nanoseconds longest{0};   // of the trial on any rank
  std::string error;
};

Tried Try(Controller& controller, const Groups& groups, Tried way,
          std::chrono::milliseconds patience) {
  if (way.transport == nullptr) return way;
  std::chrono::nanoseconds own{0};
  const auto attempt = [&] {
    own =
        TryAllreduce(*way.transport, static_cast<int>(groups.cross.size()), groups.group, patience);
  };
  if (!Together(controller, attempt, way.error)) {
    if (way.transport->MustStay()) way.transport.release();
    way.transport.reset();
    return way;
  }
  for (const auto& of_rank : GatherRows(controller, std::to_string(own.count()))) {
    way.longest = std::max(way.longest, std::chrono::nanoseconds(std::stoll(of_rank)));
  }
  return way;
}

#if HAVE_MPI
Tried ByMpi(HorovodGlobalState& horovod, const Groups& groups) {
  Tried way;
  Controller& controller = *horovod.global_controller;
  const auto connect = [&] { way.transport = ConnectWithMpi(horovod, groups); };
  if (!Together(controller, connect, way.error)) way.transport.reset();
  return Try(controller, groups, std::move(way), kPatience);
}
#endif

Tried ByTcp(Controller& controller, const Groups& groups,
            const std::function<std::string()>& address, std::chrono::milliseconds patience) {
  Tried way;
  way.transport = ConnectWithTcp(controller, groups, address, patience, way.error);
  return Try(controller, groups, std::move(way), patience);
}

// What launchers and users say of interfaces; horovodrun finds those that all hosts have.
std::string Interfaces() {
  for (const char* name :
       {"HOROVOD_GLOO_IFACE", "NCCL_SOCKET_IFNAME", "OMPI_MCA_btl_tcp_if_include"}) {
    const char* const value = std::getenv(name);
    // NCCL also takes ^eth0 (all but) and =eth0 (exactly); Open MPI also networks.
    if (value == nullptr || *value == 0 || *value == '^') continue;
    const std::string text = *value == '=' ? value + 1 : value;
    if (text.find('/') == std::string::npos) return text;
  }
  return "";
}

std::string Microseconds(std::chrono::nanoseconds time) {
  return std::to_string(std::chrono::duration_cast<std::chrono::microseconds>(time).count()) +
         " us";
}

std::string Says(const char* name, const Tried& way) {
  return std::string(name) + ": " +
         (way.transport == nullptr ? way.error : "a trial took " + Microseconds(way.longest));
}

Messages Choose(Tried mpi, Tried tcp) {
  const std::string why = Says(kMpi, mpi) + "; " + Says(kTcp, tcp);
  const bool is_tcp =
      tcp.transport != nullptr &&
      (mpi.transport == nullptr || static_cast<double>(tcp.longest.count()) <
                                       kFaster * static_cast<double>(mpi.longest.count()));
  if (is_tcp) return {std::move(tcp.transport), HOROVOD_OPT_MESSAGES_TCP, why};
  const int way = mpi.transport == nullptr ? HOROVOD_OPT_MESSAGES_NONE : HOROVOD_OPT_MESSAGES_MPI;
  return {std::move(mpi.transport), way, why};
}

}  // namespace

Messages ConnectGroups(HorovodGlobalState& horovod, const Groups& groups, bool tcp) {
  Controller& controller = *horovod.global_controller;
#if HAVE_GLOO
  if (horovod.control_operation == LibType::GLOO) {
    const auto address = [&] {
      return GlooAddress(*horovod.process_set_table.Get(0).gloo_context.ctx);
    };
    Tried way = ByTcp(controller, groups, address, kPatience);
    const std::string why = Says(kTcp, way);
    const int number =
        way.transport == nullptr ? HOROVOD_OPT_MESSAGES_NONE : HOROVOD_OPT_MESSAGES_TCP;
    return {std::move(way.transport), number, why};
  }
#endif
#if HAVE_MPI
  Tried mpi = ByMpi(horovod, groups), other;
  other.error = "switched off by HOROVOD_OPT_TCP_MESSAGES=0";
  if (tcp) {
    const bool on_one_node = controller.GetLocalSize() == controller.GetSize();
    const auto address = [&] { return on_one_node ? "127.0.0.1" : OwnAddress(Interfaces()); };
    other = ByTcp(controller, groups, address, kPatienceWithChoice);
  }
  return Choose(std::move(mpi), std::move(other));
#endif
}

}  // namespace horovod_opt
