#include "horovod_opt/csrc/core/network/tcp_rendezvous.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <cstdlib>
#include <stdexcept>

#include "tests/native/shared_memory/child.h"

namespace horovod_opt {
namespace own_address_test {

std::string AddressOrError(const std::string& interfaces) {
  try {
    return OwnAddress(interfaces);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
}

TEST(OwnAddress, IsOfTheFirstInterfaceThatHasOne) {
  EXPECT_EQ(OwnAddress("lo"), "127.0.0.1");
  EXPECT_EQ(OwnAddress("none0,lo"), "127.0.0.1");
  EXPECT_EQ(AddressOrError("none0,none1"), "there is no address of interface 'none0,none1'");
}

// In a network of its own, with these addresses of interfaces; what OwnAddress("") says.
int Says(const char* expected, const char* interfaces) {
  if (unshare(CLONE_NEWNET) != 0) return 77;
  const std::string make = std::string("set -e; ip link set lo up; for one in ") + interfaces +
                           "; do ip link add ${one%=*} type bridge; ip link set ${one%=*} up; "
                           "ip address add ${one#*=}/24 dev ${one%=*}; done";
  if (std::system(make.c_str()) != 0) return 77;
  return AddressOrError("") == expected ? 0 : 1;
}

void ExpectThat(const char* expected, const char* interfaces) {
  const int status = Child([&] { return Says(expected, interfaces); }).Status();
  if (status == 77) GTEST_SKIP() << "no network of its own: needs the rights of root, and ip";
  EXPECT_EQ(status, 0) << interfaces;
}

TEST(OwnAddressWithoutName, IsOfTheOnlyInterfaceThatLeadsAway) {
  ExpectThat("10.1.2.3", "docker0=172.17.0.1 net0=10.1.2.3 br-12=172.18.0.1");
}

TEST(OwnAddressWithoutName, OfSeveralNoneIsChosen) {
  ExpectThat("several network interfaces lead to other machines (net0, net1)",
             "net0=10.1.2.3 net1=10.2.2.3");
}

TEST(OwnAddressWithoutName, TheLoopbackIsNone) {
  ExpectThat("no network interface leads to other machines", "docker0=172.17.0.1");
}

}  // namespace own_address_test
}  // namespace horovod_opt
