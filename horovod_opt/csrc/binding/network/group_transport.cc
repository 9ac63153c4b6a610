#include "horovod_opt/csrc/binding/network/group_transport.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>

#include "horovod/common/controller.h"
#include "horovod/common/global_state.h"
#include "horovod/common/utils/env_parser.h"
#include "horovod_opt/csrc/binding/base/rank_rows.h"
#include "horovod_opt/csrc/core/network/tcp_rendezvous.h"
#include "horovod_opt/csrc/core/network/word_allreduce.h"
#include "horovod_opt_abi.h"

#if HAVE_GLOO
#include <gloo/context.h>
#include <gloo/transport/pair.h>
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

// Gloo's own connections have the same patience.
constexpr char kGlooTimeout[] = "HOROVOD_GLOO_TIMEOUT_SECONDS";

constexpr const char* kMpi = "MPI";
constexpr const char* kTcp = "TCP";

// Of one way.
struct Trial {
  std::unique_ptr<Transport> transport;  // nullptr: it does not work
  std::chrono::nanoseconds longest{0};   // on any rank
  std::string error;
};

Trial Run(Controller& controller, const Groups& groups, Trial trial,
          std::chrono::milliseconds patience) {
  if (trial.transport == nullptr) return trial;
  std::chrono::nanoseconds own{0};
  const auto attempt = [&] {
    own = TryAllreduce(*trial.transport, static_cast<int>(groups.cross.size()), groups.group,
                       patience);
  };
  if (!TakeStep(controller, attempt, trial.error)) {
    if (trial.transport->MustStay()) trial.transport.release();
    trial.transport.reset();
    return trial;
  }
  for (const auto& duration : GatherRows(controller, std::to_string(own.count()))) {
    trial.longest = std::max(trial.longest, std::chrono::nanoseconds(std::stoll(duration)));
  }
  return trial;
}

#if HAVE_GLOO
// The address by which Gloo's other ranks reach this one, numeric: Gloo's text of it is
// "[10.0.0.1]:40123$7". Throws std::runtime_error if Gloo does not tell.
std::string GlooAddress(const gloo::Context& gloo) {
  for (int rank = 0; rank < gloo.size; ++rank) {
    if (rank == gloo.rank) continue;
    const auto& pair = const_cast<gloo::Context&>(gloo).getPair(rank);
    if (pair == nullptr) continue;
    const std::string text = pair->address().str();
    const std::size_t end = text.find(']');
    if (text.front() == '[' && end != std::string::npos) return text.substr(1, end - 1);
  }
  throw std::runtime_error("Gloo does not tell the address of this rank");
}
#endif

#if HAVE_MPI
Trial TryMpi(HorovodGlobalState& horovod, const Groups& groups) {
  Trial trial;
  Controller& controller = *horovod.global_controller;
  const auto connect = [&] { trial.transport = ConnectWithMpi(horovod, groups); };
  if (!TakeStep(controller, connect, trial.error)) trial.transport.reset();
  return Run(controller, groups, std::move(trial), kPatience);
}
#endif

Trial TryTcp(Controller& controller, const Groups& groups,
             const std::function<std::string()>& address, std::chrono::milliseconds patience) {
  Trial trial;
  ControllerMeeting meeting(controller);
  TcpTransport::Options options;
  options.silence =
      std::chrono::seconds(std::max(0, horovod::common::GetIntEnvOrDefault(kGlooTimeout, 30)));
  options.setting = kGlooTimeout;
  trial.transport =
      ConnectWithTcp(meeting, groups, address, std::move(options), patience, trial.error);
  return Run(controller, groups, std::move(trial), patience);
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

std::string Describe(const char* way, const Trial& trial) {
  return std::string(way) + ": " +
         (trial.transport == nullptr ? trial.error : "a trial took " + Microseconds(trial.longest));
}

GroupTransport Choose(Trial mpi, Trial tcp) {
  const std::string why = Describe(kMpi, mpi) + "; " + Describe(kTcp, tcp);
  const bool is_tcp =
      tcp.transport != nullptr &&
      (mpi.transport == nullptr || static_cast<double>(tcp.longest.count()) <
                                       kFaster * static_cast<double>(mpi.longest.count()));
  if (is_tcp) return {std::move(tcp.transport), HOROVOD_OPT_MESSAGES_TCP, why};
  const int way = mpi.transport == nullptr ? HOROVOD_OPT_MESSAGES_NONE : HOROVOD_OPT_MESSAGES_MPI;
  return {std::move(mpi.transport), way, why};
}

}  // namespace

GroupTransport ConnectGroups(HorovodGlobalState& horovod, const Groups& groups, bool tcp) {
  Controller& controller = *horovod.global_controller;
#if HAVE_GLOO
  if (horovod.control_operation == LibType::GLOO) {
    const auto address = [&] {
      return GlooAddress(*horovod.process_set_table.Get(0).gloo_context.ctx);
    };
    Trial trial = TryTcp(controller, groups, address, kPatience);
    const std::string why = Describe(kTcp, trial);
    const int way =
        trial.transport == nullptr ? HOROVOD_OPT_MESSAGES_NONE : HOROVOD_OPT_MESSAGES_TCP;
    return {std::move(trial.transport), way, why};
  }
#endif
#if HAVE_MPI
  Trial over_mpi = TryMpi(horovod, groups), over_tcp;
  over_tcp.error = "switched off by HOROVOD_OPT_TCP_MESSAGES=0";
  if (tcp) {
    const bool on_one_node = controller.GetLocalSize() == controller.GetSize();
    const auto address = [&] { return on_one_node ? "127.0.0.1" : OwnAddress(Interfaces()); };
    over_tcp = TryTcp(controller, groups, address, kPatienceWithChoice);
  }
  return Choose(std::move(over_mpi), std::move(over_tcp));
#endif
}

}  // namespace horovod_opt
