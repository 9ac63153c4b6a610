#include <algorithm>
#include <iomanip>
#include <random>
#include <sstream>
#include <stdexcept>
#include <utility>
#include <vector>

#include "horovod/common/controller.h"
#include "horovod/common/utils/env_parser.h"
#include "horovod_opt/csrc/binding/base/rank_rows.h"
#include "horovod_opt/csrc/binding/network/group_transport.h"
#include "horovod_opt/csrc/core/network/allreduce_schedules.h"
#include "horovod_opt/csrc/core/network/tcp_rendezvous.h"
#include "horovod_opt/csrc/core/network/tcp_transport.h"

#if HAVE_GLOO
#include <gloo/context.h>
#include <gloo/transport/pair.h>
#endif

namespace horovod_opt {
namespace {

// Gloo's own connections have the same patience.
constexpr char kGlooTimeout[] = "HOROVOD_GLOO_TIMEOUT_SECONDS";

std::string NewSecret() {
  std::random_device random;
  std::ostringstream secret;
  for (int word = 0; word < 8; ++word) {
    secret << std::hex << std::setw(8) << std::setfill('0') << random();
  }
  return secret.str();
}

}  // namespace

std::unique_ptr<Transport> ConnectWithTcp(horovod::common::Controller& controller,
                                          const Groups& groups,
                                          const std::function<std::string()>& address,
                                          std::chrono::milliseconds patience, std::string& error) {
  const int members = static_cast<int>(groups.cross.size());
  const int self = groups.group;
  const std::vector<int> neighbours = Neighbours(members, self);
  std::unique_ptr<TcpRendezvous> rendezvous;
  const auto take_step = [&](const auto& step) { return TakeStep(controller, step, error); };
  const bool listens = take_step([&] { rendezvous = std::make_unique<TcpRendezvous>(address()); });
  if (!listens) return nullptr;
  const auto all = GatherRows(controller, rendezvous->address());
  std::vector<std::string> addresses;
  for (int rank : groups.cross) addresses.push_back(all[rank]);
  const std::string secret =
      GatherRows(controller, controller.GetRank() == 0 ? NewSecret() : "")[0];
  const bool connects =
      take_step([&] { rendezvous->Call(self, neighbours, addresses, secret, patience); }) &&
      take_step([&] { rendezvous->Answer(self, neighbours, secret, patience); });
  if (!connects) return nullptr;
  TcpTransport::Options options;
  options.silence =
      std::chrono::seconds(std::max(0, horovod::common::GetIntEnvOrDefault(kGlooTimeout, 30)));
  options.setting = kGlooTimeout;
  options.name = [ranks = groups.cross](int member) {
    return "rank " + std::to_string(ranks[member]);
  };
  return std::make_unique<TcpTransport>(rendezvous->TakeSockets(), std::move(options));
}

#if HAVE_GLOO
// Gloo's text of an address of this rank: "[10.0.0.1]:40123$7".
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

}  // namespace horovod_opt
