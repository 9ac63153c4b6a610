// How members that will exchange messages over TCP find and connect to each other.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "horovod_opt/csrc/core/base/file_descriptor.h"

namespace horovod_opt {

class TcpRendezvous {
 public:
  // Listens on this numeric address of the machine, IPv4 or IPv6. Throws std::system_error.
  explicit TcpRendezvous(const std::string& host);

  // What others connect to: "10.0.0.1 40123".
  std::string address() const;
  // Connects with its neighbours, in two steps: no member begins the second one before all have
  // ended the first. `addresses` by member. `secret`: of the job, without which nobody is let in.
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

}  // namespace horovod_opt
