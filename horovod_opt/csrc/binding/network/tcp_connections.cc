#include "horovod_opt/csrc/binding/network/tcp_transport.h"

#include <iomanip>
#include <random>
#include <sstream>
#include <utility>
#include <vector>

#include "horovod/common/controller.h"
#include "horovod_opt/csrc/binding/base/rank_rows.h"
#include "horovod_opt/csrc/core/network/allreduce_schedules.h"
#include "horovod_opt/csrc/core/network/tcp_rendezvous.h"
#include "horovod_opt/csrc/core/network/tcp_transport.h"

namespace horovod_opt {
namespace {

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
  std::unique_ptr<TcpRendezvous> meeting;
  const auto together = [&](const auto& step) { return Together(controller, step, error); };
  const bool listens = together([&] { meeting = std::make_unique<TcpRendezvous>(address()); });
  if (!listens) return nullptr;
  const auto all = GatherRows(controller, meeting->address());
  std::vector<std::string> addresses;
  for (int rank : groups.cross) addresses.push_back(all[rank]);
  const std::string secret =
      GatherRows(controller, controller.GetRank() == 0 ? NewSecret() : "")[0];
  const bool connects =
      together([&] { meeting->Call(self, neighbours, addresses, secret, patience); }) &&
      together([&] { meeting->Answer(self, neighbours, secret, patience); });
  if (!connects) return nullptr;
  return std::make_unique<TcpTransport>(meeting->TakeSockets());
}

}  // namespace horovod_opt
