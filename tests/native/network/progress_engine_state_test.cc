// What a rank tells of messages between nodes that do not come.
#include <gtest/gtest.h>

#include <cstdint>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "horovod_opt/csrc/core/elements/elementwise.h"
#include "horovod_opt/csrc/core/network/block_ring.h"
#include "horovod_opt/csrc/core/network/nonblocking_allreduce.h"
#include "horovod_opt/csrc/core/network/progress_engine.h"
#include "horovod_opt/csrc/core/network/tcp_rendezvous.h"
#include "horovod_opt/csrc/core/network/tcp_transport.h"
#include "horovod_opt/csrc/core/network/word_allreduce.h"
#include "tests/native/waiting/await.h"

namespace horovod_opt {
namespace progress_engine_state_test {

constexpr int kBucket = 3;
constexpr int kChannels = kBucket * NonblockingAllreduce::kChannels;

// Groups 0 and 1, connected by TCP; each has an engine, or only a transport.
struct Groups {
  Groups() {
    TcpRendezvous first("127.0.0.1"), second("127.0.0.1");
    second.Call(1, {0}, {first.address()}, "secret", kHang);
    first.Answer(0, {1}, "secret", kHang);
    transports[0] = std::make_unique<TcpTransport>(first.TakeSockets());
    transports[1] = std::make_unique<TcpTransport>(second.TakeSockets());
  }

  std::unique_ptr<ProgressEngine> Engine(int group) {
    return std::make_unique<ProgressEngine>(std::move(transports[group]), 1 << 20, [] {}, [] {});
  }

  std::unique_ptr<TcpTransport> transports[2];
};

// Of so many words.
std::unique_ptr<NonblockingAllreduce> AllreduceOf(std::size_t words, int self,
                                                  NonblockingAllreduce::OnEnd on_end) {
  return std::make_unique<NonblockingAllreduce>(
      2, self, kChannels, 1,
      AllreduceDataOf(std::make_shared<Words>(words),
                      &elementwise::Reduce<std::uint64_t, elementwise::Sum>),
      std::move(on_end), NonblockingAllreduce::Sizes());
}

std::string TextOf(ProgressEngine& engine) {
  StatePage page;
  engine.DumpState(page);
  return page.Text();
}

// Until the engine says so.
bool AwaitText(ProgressEngine& engine, const std::string& part) {
  return Await([&] { return TextOf(engine).find(part) != std::string::npos; });
}

TEST(ProgressEngineState, NothingIsUnderWay) {
  Groups groups;
  const auto engine = groups.Engine(0);
  const std::string text = TextOf(*engine);
  EXPECT_EQ(text.find("between nodes, under way: 0\n  group 1 at 127.0.0.1 port "), 0u) << text;
  EXPECT_NE(text.find(": nothing to send, 0 awaited\n"), std::string::npos) << text;
}

TEST(ProgressEngineState, AGroupThatHasNotBegunTheBucket) {
  Groups groups;
  const auto engine = groups.Engine(0);
  engine->Begin(AllreduceOf(2, 0, [](auto) {}));
  // A message: a header of 64 bytes, and 16 bytes in whole lines.
  ASSERT_TRUE(AwaitText(*engine,
                        "between nodes, under way: 1\n"
                        "  bucket 3: allreduce of 16 bytes over 2 groups, 0 of 1 chunk done\n"
                        "    chunk 1, step 1 of 1: has sent 128 bytes to group 1, WAITS for 128 "
                        "bytes from group 1\n"))
      << TextOf(*engine);
  EXPECT_TRUE(AwaitText(*engine, ": nothing to send, 1 awaited\n")) << TextOf(*engine);
}

TEST(ProgressEngineState, AGroupThatDoesNotReadWhatItIsSent) {
  Groups groups;
  const auto engine = groups.Engine(0);
  // More than the kernel keeps: the peer has to read.
  std::vector<char> data(64 << 20);
  engine->Begin(AllreduceOf(2, 0, [](auto) {}));
  BlockRing::Block own{0, static_cast<std::int64_t>(data.size()) - 8}, other{own.bytes, 8};
  engine->Begin(std::make_unique<BlockRing>(
      BlockRing::Kind::kAllgather, 2, 0, 0, BlockRing::Memory{nullptr, data.data()},
      std::vector<BlockRing::Block>{own, other},
      Arithmetic{8, &elementwise::Reduce<std::uint64_t, elementwise::Sum>, nullptr}, [] {},
      16 << 20));
  ASSERT_TRUE(AwaitText(*engine,
                        "bucket 0: ring allgather, has sent 0 of 67108856 bytes to group "
                        "1, has received 0 of 8 bytes from group 1\n"))
      << TextOf(*engine);
  EXPECT_TRUE(AwaitText(*engine, " to send, of the first ")) << TextOf(*engine);
}

TEST(ProgressEngineState, WhatHasComeAndNobodyAwaits) {
  Groups groups;
  const auto engine = groups.Engine(0);
  const char data[10] = {};
  Transport::Operation operation;
  groups.transports[1]->Send(0, 77, data, sizeof(data), operation);
  EXPECT_TRUE(AwaitText(*engine, "0 awaited, 1 here that nobody awaits yet")) << TextOf(*engine);
}

TEST(ProgressEngineState, AConnectionThatIsLost) {
  Groups groups;
  const auto engine = groups.Engine(0);
  groups.transports[1].reset();
  ASSERT_TRUE(AwaitText(*engine, ": lost, it has closed its connection\n")) << TextOf(*engine);
  engine->Begin(AllreduceOf(2, 0, [](auto) {}));
  EXPECT_TRUE(AwaitText(*engine, "between nodes nothing goes on: group 1 at 127.0.0.1 port "))
      << TextOf(*engine);
}

TEST(ProgressEngineState, AThreadThatIsBlockedIsTold) {
  Groups groups;
  const auto first = groups.Engine(0), second = groups.Engine(1);
  std::promise<void> blocked, goes_on;
  first->Begin(AllreduceOf(2, 0, [&](auto) {
    blocked.set_value();
    goes_on.get_future().wait();
  }));
  second->Begin(AllreduceOf(2, 1, [](auto) {}));
  blocked.get_future().wait();
  const std::string text = TextOf(*first);
  EXPECT_EQ(text.find("between nodes: the thread hvd-nodes has not answered within 200 ms"), 0u)
      << text;
  goes_on.set_value();
  EXPECT_TRUE(AwaitText(*first, "between nodes, under way: 0\n"));
}

TEST(ProgressEngineState, AnEngineThatIsClosed) {
  Groups groups;
  const auto engine = groups.Engine(0);
  engine->Close();
  EXPECT_EQ(TextOf(*engine), "between nodes: shut down\n");
}

}  // namespace progress_engine_state_test
}  // namespace horovod_opt
