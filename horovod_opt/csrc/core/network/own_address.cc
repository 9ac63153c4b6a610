#include "horovod_opt/csrc/core/network/tcp_rendezvous.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>

#include <cerrno>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <system_error>
#include <utility>
#include <vector>

namespace horovod_opt {
namespace {

// What container and virtual machine software calls the interfaces that it makes.
constexpr const char* kWithin[] = {"docker", "br-", "virbr", "veth", "cni", "podman", "lxc"};

struct Address {
  std::string interface, address;
  bool leads_away;  // to other machines
};

bool LeadsAway(const ifaddrs& one) {
  const std::string name = one.ifa_name;
  for (const std::string prefix : kWithin) {
    if (name.compare(0, prefix.size(), prefix) == 0) return false;
  }
  return (one.ifa_flags & IFF_LOOPBACK) == 0;
}

std::vector<Address> Addresses() {
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0)
    throw std::system_error(errno, std::generic_category(), "getifaddrs");
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> all(first, freeifaddrs);
  std::vector<Address> found;
  for (const ifaddrs* one = first; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET) continue;
    if ((one->ifa_flags & IFF_UP) == 0) continue;
    char text[INET_ADDRSTRLEN];
    const auto& address = reinterpret_cast<const sockaddr_in&>(*one->ifa_addr).sin_addr;
    inet_ntop(AF_INET, &address, text, sizeof(text));
    found.push_back({one->ifa_name, text, LeadsAway(*one)});
  }
  return found;
}

}  // namespace

std::string OwnAddress(const std::string& interfaces) {
  const std::vector<Address> all = Addresses();
  std::istringstream names(interfaces);
  for (std::string name; std::getline(names, name, ',');) {
    for (const Address& one : all) {
      if (one.interface == name) return one.address;
    }
  }
  if (!interfaces.empty()) {
    throw std::runtime_error("there is no address of interface '" + interfaces + "'");
  }
  std::string named;
  const Address* found = nullptr;
  int number = 0;
  for (const Address& one : all) {
    if (!one.leads_away) continue;
    named += (named.empty() ? "" : ", ") + one.interface;
    found = &one;
    ++number;
  }
  if (number == 0) throw std::runtime_error("no network interface leads to other machines");
  if (number > 1) {
    throw std::runtime_error("several network interfaces lead to other machines (" + named + ")");
  }
  return found->address;
}

}  // namespace horovod_opt
