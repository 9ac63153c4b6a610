// Who is let in, and that nobody else holds up a rank: neither strangers nor a lack of descriptors.
#include "horovod_opt/csrc/core/network/tcp_rendezvous.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <random>
#include <sstream>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "tests/native/shared_memory/child.h"
#include "tests/native/waiting/await.h"

namespace horovod_opt {
namespace tcp_rendezvous_test {

using namespace std::chrono_literals;

const std::string kSecret = "0123456789abcdef";
constexpr std::size_t kHello = 68;  // bytes: a secret and a number

std::uint16_t PortOf(const TcpRendezvous& rendezvous) {
  std::istringstream text(rendezvous.address());
  std::string host;
  std::uint16_t port = 0;
  text >> host >> port;
  return port;
}

Descriptor ConnectTo(std::uint16_t port) {
  Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(socket.number(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    return Descriptor();
  }
  return socket;
}

std::vector<Descriptor> ConnectTo(std::uint16_t port, int times) {
  std::vector<Descriptor> sockets;
  for (int i = 0; i < times; ++i) sockets.push_back(ConnectTo(port));
  return sockets;
}

// This process cannot open more than `more` descriptors.
class DescriptorLimit {
 public:
  explicit DescriptorLimit(int more) {
    getrlimit(RLIMIT_NOFILE, &before_);
    std::vector<Descriptor> next;
    for (int i = 0; i <= more; ++i) next.emplace_back(open("/dev/null", O_RDONLY | O_CLOEXEC));
    rlimit limit = before_;
    limit.rlim_cur = static_cast<rlim_t>(next.back().number());
    setrlimit(RLIMIT_NOFILE, &limit);
  }
  DescriptorLimit(const DescriptorLimit&) = delete;
  ~DescriptorLimit() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

class Rendezvous : public testing::Test {
 protected:
  void Call() { caller_.Call(1, {0}, {answerer_.address()}, kSecret, kHang); }
  // What it throws; empty: nothing.
  std::string Answer(std::chrono::milliseconds patience = kHang) {
    try {
      answerer_.Answer(0, {1}, kSecret, patience);
    } catch (const std::exception& error) {
      return error.what();
    }
    return "";
  }
  // Member 1 and nobody else is connected, in both directions.
  void ExpectBoth() {
    const auto answered = answerer_.TakeSockets(), called = caller_.TakeSockets();
    ASSERT_EQ(answered.size(), 1u);
    ASSERT_EQ(answered.count(1), 1u);
    const char sent = 42;
    ASSERT_EQ(send(called.at(0).number(), &sent, 1, 0), 1);
    pollfd readable{answered.at(1).number(), POLLIN, 0};
    ASSERT_EQ(poll(&readable, 1, static_cast<int>(kHang.count()) * 1000), 1);
    char received = 0;
    EXPECT_EQ(recv(answered.at(1).number(), &received, 1, 0), 1);
    EXPECT_EQ(received, sent);
  }

  TcpRendezvous answerer_{"127.0.0.1"}, caller_{"127.0.0.1"};
};

TEST_F(Rendezvous, WithoutDescriptorsItSleepsUntilThereIsOne) {
  Call();
  auto limit = std::make_unique<DescriptorLimit>(0);
  std::atomic<bool> over{false};
  std::string error;
  std::thread answering([&] {
    error = Answer();
    over = true;
  });
  // Of all threads but this one, which only sleeps here: who spins gives up no core.
  const auto switches = [] {
    rusage all{}, own{};
    getrusage(RUSAGE_SELF, &all);
    getrusage(RUSAGE_THREAD, &own);
    return all.ru_nvcsw - own.ru_nvcsw;
  };
  const auto before = switches();
  EXPECT_TRUE(Await([&] { return over || switches() > before + 10; }));
  EXPECT_FALSE(over) << error;
  limit.reset();
  answering.join();
  EXPECT_EQ(error, "");
  ExpectBoth();
}

TEST_F(Rendezvous, WithoutDescriptorsItSaysSo) {
  Call();
  const DescriptorLimit limit(0);
  const std::string error = Answer(100ms);
  EXPECT_NE(error.find("cannot accept the connection of group 1; raise the limit of open files"),
            std::string::npos)
      << error;
  EXPECT_NE(error.find("Too many open files"), std::string::npos) << error;
}

TEST_F(Rendezvous, StrangersThatTakeAllDescriptorsLoseThem) {
  constexpr int kStrangers = 12, kRoom = 8;
  Signal connected;
  Child strangers([&] {
    const auto sockets = ConnectTo(PortOf(answerer_), kStrangers);
    connected.Send();
    for (;;) pause();
    return 0;
  });
  ASSERT_TRUE(connected.Wait());
  Call();
  const DescriptorLimit limit(kRoom);
  EXPECT_EQ(Answer(), "");
  ExpectBoth();
}

TEST_F(Rendezvous, ManyStrangersDoNotStay) {
  constexpr int kStrangers = 200, kGone = 100;
  Child strangers([&] {
    const auto sockets = ConnectTo(PortOf(answerer_), kStrangers);
    const auto gone = [&] {
      int count = 0;
      for (const Descriptor& socket : sockets) {
        char byte;
        if (recv(socket.number(), &byte, 1, MSG_DONTWAIT) == 0) ++count;
      }
      return count;
    };
    return Await([&] { return gone() >= kGone; }) ? 0 : 1;
  });
  std::string error;
  std::thread answering([&] { error = Answer(); });
  EXPECT_EQ(strangers.Status(), 0);
  Call();
  answering.join();
  EXPECT_EQ(error, "");
  ExpectBoth();
}

// What strangers say: the beginning of what member 1 says with something else in it, or anything.
TEST_F(Rendezvous, LetsNobodyInWithoutTheSecret) {
  std::minstd_rand random(20261128);
  std::string hello(kHello, '\0');
  kSecret.copy(hello.data(), hello.size());
  hello[kHello - 4] = 1;
  std::vector<Descriptor> sockets;
  for (int i = 0; i < 60; ++i) {
    std::string text = hello;
    if (i % 2 == 0) {
      text[random() % (kHello - 4)] ^= static_cast<char>(1 + random() % 255);
    } else {
      for (char& byte : text) byte = static_cast<char>(random());
    }
    text.resize(random() % 3 == 0 ? random() % kHello : kHello);
    sockets.push_back(ConnectTo(PortOf(answerer_)));
    ASSERT_EQ(send(sockets.back().number(), text.data(), text.size(), 0),
              static_cast<ssize_t>(text.size()));
    if (i % 5 == 0) sockets.pop_back();
  }
  Call();
  EXPECT_EQ(Answer(), "");
  ExpectBoth();
}

TEST_F(Rendezvous, NobodyIsLetInTwice) {
  TcpRendezvous again("127.0.0.1");
  Call();
  again.Call(1, {0}, {answerer_.address()}, kSecret, kHang);
  EXPECT_EQ(Answer(), "");
  ExpectBoth();
}

TEST_F(Rendezvous, WhoDoesNotComeIsNamed) {
  EXPECT_EQ(Answer(50ms), "group 1 has not connected to this one");
}

}  // namespace tcp_rendezvous_test
}  // namespace horovod_opt
