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

#include "horovod_opt/csrc/core/network/tcp_rendezvous.h"

namespace horovod_opt {
namespace {

// What container and virtual machine software calls the interfaces that it makes.
constexpr const char* kWithin[] = {"docker", "br-", "virbr", "veth", "cni", "podman", "lxc"};

struct Address {
  std::string interface, address;
  bool leads_away;  // to other machines
};

bool LeadsAway(const ifaddrs& interface) {
  const std::string name = interface.ifa_name;
  for (const std::string prefix : kWithin) {
    if (name.compare(0, prefix.size(), prefix) == 0) return false;
  }
  return (interface.ifa_flags & IFF_LOOPBACK) == 0;
}

std::vector<Address> Addresses() {
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0)
    throw std::system_error(errno, std::generic_category(), "getifaddrs");
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> all(first, freeifaddrs);
  std::vector<Address> addresses;
  for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != AF_INET) continue;
    if ((entry->ifa_flags & IFF_UP) == 0) continue;
    char text[INET_ADDRSTRLEN];
    const auto& address = reinterpret_cast<const sockaddr_in&>(*entry->ifa_addr).sin_addr;
    inet_ntop(AF_INET, &address, text, sizeof(text));
    addresses.push_back({entry->ifa_name, text, LeadsAway(*entry)});
  }
  return addresses;
}

}  // namespace

std::string OwnAddress(const std::string& interfaces) {
  const std::vector<Address> all = Addresses();
  std::istringstream names(interfaces);
  for (std::string name; std::getline(names, name, ',');) {
    for (const Address& address : all) {
      if (address.interface == name) return address.address;
    }
  }
  if (!interfaces.empty()) {
    throw std::runtime_error("there is no address of interface '" + interfaces + "'");
  }
  std::string named;
  const Address* candidate = nullptr;
  int number = 0;
  for (const Address& address : all) {
    if (!address.leads_away) continue;
    named += (named.empty() ? "" : ", ") + address.interface;
    candidate = &address;
    ++number;
  }
  if (number == 0) throw std::runtime_error("no network interface leads to other machines");
  if (number > 1) {
    throw std::runtime_error("several network interfaces lead to other machines (" + named + ")");
  }
  return candidate->address;
}

}  // namespace horovod_opt
