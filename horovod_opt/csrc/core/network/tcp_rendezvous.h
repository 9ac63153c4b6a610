// TCP rendezvous: how members that will exchange messages over TCP find and connect to each other.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "horovod_opt/csrc/core/agreement/meeting.h"
#include "horovod_opt/csrc/core/base/file_descriptor.h"
#include "horovod_opt/csrc/core/network/groups.h"
#include "horovod_opt/csrc/core/network/tcp_transport.h"

namespace horovod_opt {

// The address by which other nodes reach this one, where nobody else has found it out
// (own_address.cc). A numeric IPv4 address. `interfaces`: names of which the first that has one
// counts, separated by commas, as in MPI's and NCCL's settings; without one, the only interface
// that is up and leads to other machines (not the loopback, and none that containers or virtual
// machines of this one are behind). Throws std::runtime_error if there is none or several.
std::string OwnAddress(const std::string& interfaces);

// Of the other end of a connection: "10.0.0.1 port 40123".
std::string PeerAddress(const Descriptor& socket);

class TcpRendezvous {
 public:
  // Listens on this numeric address of the machine, IPv4 or IPv6. Throws std::system_error.
  explicit TcpRendezvous(const std::string& host);

  // What others connect to: "10.0.0.1 40123".
  std::string address() const;
  // Connects with its neighbours, in two steps: no member begins the second one before all have
  // ended the first. `addresses` by member. `secret`: of the job, without which nobody is let in.
  // Strangers, as port scanners, hold up nobody, and take no more than a few descriptors.
  // They throw std::system_error or std::runtime_error, after `patience` at the latest.
  void Call(int self, const std::vector<int>& neighbours, const std::vector<std::string>& addresses,
            const std::string& secret, std::chrono::milliseconds patience);
  void Answer(int self, const std::vector<int>& neighbours, const std::string& secret,
              std::chrono::milliseconds patience);

  // By member: nonblocking sockets.
  std::map<int, Descriptor> TakeSockets() { return std::move(sockets_); }

 private:
  Descriptor listener_;
  std::map<int, Descriptor> sockets_;
};

// Connections between the ranks of one number in all groups, and the messages on them. Collective over
// the meeting; members are numbered as the groups are. Null on every rank, with the
// same `error`, if any of them cannot connect. `address`: of this rank for the others; what it
// throws is an error. They wait for each other for `patience` at most. `options`: but for the
// names, which are those of the meeting.
std::unique_ptr<Transport> ConnectWithTcp(RankMeeting& meeting, const Groups& groups,
                                          const std::function<std::string()>& address,
                                          TcpTransport::Options options,
                                          std::chrono::milliseconds patience, std::string& error);

}  // namespace horovod_opt
