// Connections of which one end hears nothing any more, and what a damaged peer may send.
#include "horovod_opt/csrc/core/network/tcp_transport.h"

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "horovod_opt/csrc/core/network/tcp_rendezvous.h"
#include "tests/native/waiting/await.h"

namespace horovod_opt {
namespace tcp_transport_test {

using namespace std::chrono_literals;
using Operation = Transport::Operation;

constexpr std::chrono::seconds kSilence(1);

// Members 0 and 1, connected.
struct TcpPair {
  TcpPair() {
    TcpRendezvous first("127.0.0.1"), second("127.0.0.1");
    second.Call(1, {0}, {first.address()}, "secret", kHang);
    first.Answer(0, {1}, "secret", kHang);
    sockets[0] = first.TakeSockets();
    sockets[1] = second.TakeSockets();
  }

  // Its socket stays known.
  std::unique_ptr<TcpTransport> Open(int self) {
    numbers[self] = sockets[self].begin()->second.number();
    TcpTransport::Options options;
    options.silence = kSilence;
    options.setting = "HOW_LONG";
    return std::make_unique<TcpTransport>(std::move(sockets[self]), std::move(options));
  }

  // Drops all that comes to this end, acknowledgements as well; nobody is told.
  void Deafen(int self) const {
    sock_filter drop{BPF_RET | BPF_K, 0, 0, 0};
    const sock_fprog program{1, &drop};
    ASSERT_EQ(setsockopt(numbers[self], SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)),
              0);
  }

  std::map<int, Descriptor> sockets[2];
  int numbers[2] = {-1, -1};
};

// What it throws; empty: it has done what is to be done, or hangs.
std::string Finish(TcpTransport& transport, const Operation& operation) {
  const auto deadline = Transport::Clock::now() + kHang;
  try {
    while (!operation.done && Transport::Clock::now() < deadline) transport.Progress(deadline);
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

void ExpectSilence(const std::string& error) {
  EXPECT_EQ(error.find("group 1 at 127.0.0.1 port "), 0u) << error;
  EXPECT_NE(error.find(" has not answered for 1 s (HOW_LONG); look for"), std::string::npos)
      << error;
}

TEST(TcpTransport, SenderIsToldThatNobodyAnswers) {
  TcpPair pair;
  const auto first = pair.Open(0), second = pair.Open(1);
  pair.Deafen(0);
  pair.Deafen(1);
  char data = 1, answer = 0;
  Operation sent, received;
  first->Send(1, 0, &data, 1, sent);
  first->Receive(1, 0, &answer, 1, received);
  ExpectSilence(Finish(*first, received));
  Operation later;
  EXPECT_THROW(first->Send(1, 0, &data, 1, later), std::runtime_error);
}

TEST(TcpTransport, WhoOnlyWaitsIsToldThatNobodyAnswers) {
  TcpPair pair;
  const auto first = pair.Open(0), second = pair.Open(1);
  pair.Deafen(0);
  char answer = 0;
  Operation received;
  first->Receive(1, 0, &answer, 1, received);
  ExpectSilence(Finish(*first, received));
}

// Its kernel has answered that there is no room, and then nothing any more.
TEST(TcpTransport, SenderIsToldThatNobodyAnswersWhereThereWasNoRoom) {
  TcpPair pair;
  const auto first = pair.Open(0), second = pair.Open(1);
  const std::vector<char> data(64 << 20, 1);
  Operation sent;
  first->Send(1, 0, data.data(), static_cast<std::int64_t>(data.size()), sent);
  first->Progress(Transport::Clock::now() + 500ms);
  ASSERT_FALSE(sent.done);
  pair.Deafen(0);
  ExpectSilence(Finish(*first, sent));
}

// Neither end does anything for a while, as a process that is stopped, or that computes.
TEST(TcpTransport, AStoppedProcessIsWaitedFor) {
  TcpPair pair;
  const auto first = pair.Open(0), second = pair.Open(1);
  const std::vector<char> data(64 << 20, 1);
  std::vector<char> copy(data.size());
  Operation sent, received;
  first->Send(1, 0, data.data(), static_cast<std::int64_t>(data.size()), sent);
  const auto until = Transport::Clock::now() + 4 * kSilence;
  while (Transport::Clock::now() < until) first->Progress(until);
  ASSERT_FALSE(sent.done);
  std::string error;
  std::thread sending([&] { error = Finish(*first, sent); });
  second->Receive(0, 0, copy.data(), static_cast<std::int64_t>(copy.size()), received);
  EXPECT_EQ(Finish(*second, received), "");
  sending.join();
  EXPECT_EQ(error, "");
  EXPECT_TRUE(sent.done && received.done);
  EXPECT_EQ(copy, data);
}

TEST(TcpTransport, WhoIsGoneIsNamed) {
  TcpPair pair;
  const auto first = pair.Open(0);
  char answer = 0;
  Operation received;
  first->Receive(1, 0, &answer, 1, received);
  pair.sockets[1].clear();
  const std::string error = Finish(*first, received);
  EXPECT_EQ(error.find("group 1 at 127.0.0.1 port "), 0u) << error;
  EXPECT_NE(error.find(" has closed its connection"), std::string::npos) << error;
}

// A header is a channel and a number of bytes.
TEST(TcpTransport, AMessageOfAnImpossibleSizeIsRefused) {
  for (const std::int64_t bytes : {std::int64_t{-1}, std::int64_t{1} << 31, INT64_MIN, INT64_MAX}) {
    TcpPair pair;
    const auto first = pair.Open(0);
    const std::int64_t header[] = {3, bytes};
    const int peer = pair.sockets[1].begin()->second.number();
    ASSERT_EQ(send(peer, header, sizeof(header), 0), static_cast<ssize_t>(sizeof(header)));
    Operation received;
    char answer = 0;
    first->Receive(1, 0, &answer, 1, received);
    const std::string error = Finish(*first, received);
    EXPECT_NE(error.find(std::to_string(bytes) + " bytes: its data is damaged"), std::string::npos)
        << error;
  }
}

// What a peer sends that keeps to the protocol, cut anywhere: into memory that waits for it or does
// not yet, that is too small, or larger.
TEST(TcpTransport, MessagesDrawnAtRandomComeWhole) {
  constexpr int kChannels = 3, kMessages = 60;
  constexpr char kUntouched = 0x55;
  struct Message {
    std::vector<char> sent, received;
    Operation operation;
  };
  std::minstd_rand random(20261128);
  for (int round = 0; round < 20; ++round) {
    TcpPair pair;
    const auto first = pair.Open(0);
    const int peer = pair.sockets[1].begin()->second.number();
    std::vector<Message> messages(kMessages);
    std::string bytes;
    std::vector<int> channels;
    for (Message& message : messages) {
      channels.push_back(static_cast<int>(random() % kChannels));
      message.sent.resize(random() % 3 == 0 ? 0 : random() % 3000);
      for (char& byte : message.sent) byte = static_cast<char>(random());
      const std::int64_t header[] = {channels.back(),
                                     static_cast<std::int64_t>(message.sent.size())};
      bytes.append(reinterpret_cast<const char*>(header), sizeof(header));
      bytes.append(message.sent.begin(), message.sent.end());
      message.received.assign(message.sent.size() + 100, kUntouched);
    }
    std::size_t sent = 0;
    std::vector<std::int64_t> capacities;
    for (std::size_t i = 0; i < messages.size(); ++i) {
      Message& message = messages[i];
      const auto size = static_cast<std::int64_t>(message.sent.size());
      capacities.push_back(random() % 3 == 0 ? size / 2 : size + static_cast<int>(random() % 100));
      first->Receive(1, channels[i], message.received.data(), capacities[i], message.operation);
      const std::size_t next = std::min<std::size_t>(random() % 4000, bytes.size() - sent);
      ASSERT_EQ(send(peer, bytes.data() + sent, next, 0), static_cast<ssize_t>(next));
      sent += next;
      if (random() % 2 == 0) first->Progress(Transport::Clock::now());
    }
    ASSERT_EQ(send(peer, bytes.data() + sent, bytes.size() - sent, 0),
              static_cast<ssize_t>(bytes.size() - sent));
    for (std::size_t i = 0; i < messages.size(); ++i) {
      Message& message = messages[i];
      ASSERT_EQ(Finish(*first, message.operation), "");
      ASSERT_TRUE(message.operation.done);
      ASSERT_EQ(message.operation.bytes, static_cast<std::int64_t>(message.sent.size()));
      const auto whole =
          static_cast<std::ptrdiff_t>(std::min(message.operation.bytes, capacities[i]));
      EXPECT_TRUE(
          std::equal(message.sent.begin(), message.sent.begin() + whole, message.received.begin()));
      EXPECT_EQ(std::count(message.received.begin() + whole, message.received.end(), kUntouched),
                message.received.end() - message.received.begin() - whole);
    }
  }
}

}  // namespace tcp_transport_test
}  // namespace horovod_opt
