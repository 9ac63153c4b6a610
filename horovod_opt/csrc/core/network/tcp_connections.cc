#include <utility>
#include <vector>

#include "horovod_opt/csrc/core/base/unix_socket.h"
#include "horovod_opt/csrc/core/network/allreduce_schedules.h"
#include "horovod_opt/csrc/core/network/tcp_rendezvous.h"

namespace horovod_opt {

std::unique_ptr<Transport> ConnectWithTcp(RankMeeting& meeting, const Groups& groups,
                                          const std::function<std::string()>& address,
                                          TcpTransport::Options options,
                                          std::chrono::milliseconds patience, std::string& error) {
  const int members = static_cast<int>(groups.cross.size());
  const int self = groups.group;
  const std::vector<int> neighbours = Neighbours(members, self);
  std::unique_ptr<TcpRendezvous> rendezvous;
  const auto take_step = [&](const auto& step) { return meeting.TakeStep(step, error); };
  const bool listens = take_step([&] { rendezvous = std::make_unique<TcpRendezvous>(address()); });
  if (!listens) return nullptr;
  const auto all = meeting.Gather(rendezvous->address());
  std::vector<std::string> addresses;
  for (int rank : groups.cross) addresses.push_back(all[static_cast<std::size_t>(rank)]);
  const auto draw = [] { return unix_socket::NewSecret() + unix_socket::NewSecret(); };
  const std::string secret = meeting.Gather(meeting.rank() == 0 ? draw() : "")[0];
  const bool connects =
      take_step([&] { rendezvous->Call(self, neighbours, addresses, secret, patience); }) &&
      take_step([&] { rendezvous->Answer(self, neighbours, secret, patience); });
  if (!connects) return nullptr;
  std::vector<int> names;
  for (int rank : groups.cross) names.push_back(meeting.NameOf(rank));
  options.name = [names](int member) {
    return "rank " + std::to_string(names[static_cast<std::size_t>(member)]);
  };
  return std::make_unique<TcpTransport>(rendezvous->TakeSockets(), std::move(options));
}

}  // namespace horovod_opt
