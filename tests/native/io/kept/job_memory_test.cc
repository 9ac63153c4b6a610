// Nodes that keep chunks for each other, in one process: what they serve, whom they let in, and
// what happens when one of them is wrong, slow or gone.
#include "horovod_opt/csrc/io/kept/job_memory.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "horovod_opt/csrc/io/files/crc32c.h"
#include "tests/native/io/test_files.h"
#include "tests/native/waiting/await.h"

namespace horovod_opt {
namespace io {
namespace job_memory_test {

using namespace std::chrono_literals;
using Place = ChunkSource::Place;

constexpr std::int64_t kChunk = 100000, kRecord = 1000, kChunks = 12;  // bytes, bytes
constexpr Fingerprint kIndex = {1, 2, 3};
const std::string kHost = "127.0.0.1", kSecret = "a secret of the job";
const std::atomic<bool> kGoOn{false};

// Nobody is lost because this machine is slow.
JobMemory::Options Patient() {
  JobMemory::Options options;
  options.client.patience = kHang;
  options.server.still_reading = 20ms;
  options.server.unproven_time = kHang;
  return options;
}

// Chunk c is bytes from c * kChunk on of the file; records `first` to `end` - 1 of it.
Load LoadOfChunk(const TestFiles& files, std::int64_t chunk, std::int64_t first = 0,
                 std::int64_t end = kChunk / kRecord) {
  Load load{0,
            0,
            kChunk,
            {{0, chunk * kChunk + first * kRecord, (end - first) * kRecord, first * kRecord}}};
  load.chunk = chunk;
  load.is_whole = first == 0 && end == kChunk / kRecord;
  for (std::int64_t record = first; record < end; ++record) {
    const char* const data = files.contents[0].data() + chunk * kChunk + record * kRecord;
    load.records.push_back({record * kRecord, kRecord, Crc32c(0, data, kRecord)});
  }
  return load;
}

// With the thread that reads what is wanted, which `before_fill` may hold up.
class TestNode {
 public:
  explicit TestNode(const TestFiles& files, const Fingerprint& fingerprint = kIndex,
                    JobMemory::Options options = Patient())
      : memory(std::make_unique<JobMemory>(std::vector<std::int64_t>(kChunks, kChunk), "",
                                           fingerprint, files.Table(), options)),
        files_(files) {
    thread_ = std::thread([this] { Run(); });
  }
  ~TestNode() { Stop(); }

  PeerNode Serve(const std::string& secret = kSecret) {
    return {kHost, memory->Serve(kHost, secret), secret};
  }
  void Stop() {
    memory->Stop();
    if (thread_.joinable()) thread_.join();
  }
  std::vector<JobMemory::Event> lost() {
    std::lock_guard<std::mutex> lock(mutex_);
    return lost_;
  }

  // What the reader of the node does; returns where the bytes came from, and compares them.
  Place Bring(std::int64_t chunk, std::int64_t first = 0, std::int64_t end = kChunk / kRecord) {
    const Load load = LoadOfChunk(files_, chunk, first, end);
    std::string buffer(kChunk, '\0');
    const std::string expected =
        files_.contents[0].substr(static_cast<std::size_t>(chunk * kChunk + first * kRecord),
                                  static_cast<std::size_t>((end - first) * kRecord));
    Place place = memory->Find(load, kGoOn);
    if (place == Place::kToKeep) {
      buffer = files_.contents[0].substr(static_cast<std::size_t>(chunk * kChunk), kChunk);
      memory->Keep(load, buffer.data(), false);
    } else if (place != Place::kStorage && !memory->Take(load, place, &buffer[0], kGoOn)) {
      place = Place::kStorage;
    }
    if (place != Place::kStorage) {
      EXPECT_EQ(buffer.substr(static_cast<std::size_t>(first * kRecord), expected.size()),
                expected);
    }
    return place;
  }

  std::unique_ptr<JobMemory> memory;
  std::function<void()> before_fill = [] {};
  std::function<void(std::int64_t)> on_fill = [](std::int64_t) {};

 private:
  void Run() {
    for (;;) {
      const JobMemory::Event event = memory->Wait();
      if (event.kind == JobMemory::EventKind::kStop) return;
      if (event.kind == JobMemory::EventKind::kWanted) {
        before_fill();
        on_fill(event.number);
        memory->Fill(LoadOfChunk(files_, event.number));
      } else {
        std::lock_guard<std::mutex> lock(mutex_);
        lost_.push_back(event);
      }
    }
  }

  const TestFiles& files_;
  std::mutex mutex_;
  std::vector<JobMemory::Event> lost_;
  std::thread thread_;
};

// Even chunks have their home at node 0, odd ones at node 1; the last two nowhere.
std::vector<std::int32_t> TwoHomes() {
  std::vector<std::int32_t> homes;
  for (int chunk = 0; chunk < kChunks; ++chunk) {
    homes.push_back(chunk < kChunks - 2 ? chunk % 2 : JobMemory::kNowhere);
  }
  return homes;
}

class JobMemoryTest : public testing::Test {
 protected:
  void Meet(TestNode& first, TestNode& second) {
    const std::vector<PeerNode> nodes = {first.Serve(), second.Serve()};
    first.memory->SetHomes(TwoHomes(), 0, nodes);
    second.memory->SetHomes(TwoHomes(), 1, nodes);
  }

  TestFiles files_{1, kChunks * kChunk};
};

TEST_F(JobMemoryTest, AHomeReadsOnceWhoeverNeedsIt) {
  TestNode first(files_), second(files_);
  Meet(first, second);
  EXPECT_EQ(first.Bring(0), Place::kToKeep);  // by who needs it
  EXPECT_EQ(first.Bring(0), Place::kHere);
  EXPECT_EQ(second.Bring(0), Place::kPeer);
  EXPECT_EQ(second.Bring(2), Place::kPeer);  // read by its home because of this
  EXPECT_EQ(first.Bring(2), Place::kHere);
  EXPECT_EQ(first.Bring(4, 3, 7), Place::kHere);  // a part of it, and all is kept
  EXPECT_EQ(second.Bring(4), Place::kPeer);
  EXPECT_EQ(first.memory->storage_counters().bytes_read, 2 * kChunk);
  EXPECT_EQ(second.memory->storage_counters().bytes_read, 0);
  EXPECT_EQ(first.memory->chunks().kept_bytes(), 3 * kChunk);
  EXPECT_EQ(second.memory->chunks().kept_bytes(), 0);
  EXPECT_EQ(second.memory->counters().peer_bytes, 3 * kChunk);
  EXPECT_EQ(second.memory->counters().peer_requests, 3);
  EXPECT_EQ(first.memory->counters().served_bytes, 3 * kChunk);
  EXPECT_EQ(first.Bring(kChunks - 1), Place::kStorage);  // of nobody
  EXPECT_EQ(first.memory->counters().fallback_bytes + second.memory->counters().fallback_bytes, 0);
}

TEST_F(JobMemoryTest, APartIsAskedForInAsFewRequestsAsItIsWorth) {
  TestNode first(files_), second(files_);
  Meet(first, second);
  Load load = LoadOfChunk(files_, 2, 0, 2);
  const auto add = [&](std::int64_t record, std::int64_t end) {
    const Load more = LoadOfChunk(files_, 2, record, end);
    load.extents.push_back(more.extents[0]);
    load.records.insert(load.records.end(), more.records.begin(), more.records.end());
  };
  add(3, 4);  // 1,000 bytes on
  add(90, 100);
  std::string buffer(kChunk, '\0');
  ASSERT_EQ(second.memory->Find(load, kGoOn), Place::kPeer);
  ASSERT_TRUE(second.memory->Take(load, Place::kPeer, &buffer[0], kGoOn));
  EXPECT_EQ(second.memory->counters().peer_requests, 2);
  EXPECT_EQ(second.memory->counters().peer_bytes, 14 * kRecord);
}

TEST_F(JobMemoryTest, MoreRangesThanAreAskedForAtOnceAllCome) {
  std::vector<ChunkRange> ranges;
  std::string buffer(kChunk, '\0');
  TestNode first(files_);
  const PeerNode node = first.Serve();
  first.memory->SetHomes(TwoHomes(), 0, {node});
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(3 * kMostAsked + 5); ++i) {
    ranges.push_back({0, i * 500, i * 500 + 400, &buffer[static_cast<std::size_t>(i * 500)]});
  }
  ChunkClient client({node}, kIndex, [](int, const std::string&) {}, {});
  ASSERT_EQ(client.Fetch(0, ranges, kGoOn), ChunkClient::Result::kAnswered);
  for (const ChunkRange& range : ranges) {
    EXPECT_TRUE(range.is_there);
    EXPECT_EQ(std::memcmp(range.to, files_.contents[0].data() + range.begin, 400), 0);
  }
}

// A record of each of these chunks: number 3 of the first, 4 of the next one, and so on.
Load LoadOfParcel(const TestFiles& files, const std::vector<std::int64_t>& chunks) {
  Load load{0, 0, 0, {}};
  load.chunk = std::int64_t{1} << 40;  // a mark, which is no chunk of a table
  load.is_parcel = true;
  for (const std::int64_t chunk : chunks) {
    const auto record = 3 + static_cast<std::int64_t>(load.extents.size());
    const Load one = LoadOfChunk(files, chunk, record, record + 1);
    load.extents.push_back({0, one.extents[0].offset, kRecord, load.bytes});
    load.records.push_back({load.bytes, kRecord, one.records[0].checksum});
    load.origins.push_back({chunk, record * kRecord});
    load.bytes += kRecord;
  }
  return load;
}

std::string BytesOf(const TestFiles& files, const Load& load) {
  std::string bytes;
  for (const Extent& extent : load.extents) {
    bytes += files.contents[0].substr(static_cast<std::size_t>(extent.offset), kRecord);
  }
  return bytes;
}

TEST_F(JobMemoryTest, AParcelComesFromAllHomesAndWhatNobodyKeepsIsLeft) {
  TestNode first(files_), second(files_);
  Meet(first, second);
  const Load load = LoadOfParcel(files_, {5, kChunks - 1, 0, 2, 5, 4, kChunks - 2, 1});
  std::string buffer(static_cast<std::size_t>(load.bytes), '\0');
  ASSERT_EQ(second.memory->Find(load, kGoOn), Place::kParcel);
  EXPECT_EQ(second.memory->Collect(load, &buffer[0], kGoOn), (std::vector<std::size_t>{1, 6}));
  std::string expected = BytesOf(files_, load);
  for (const std::size_t left : {1, 6}) expected.replace(left * kRecord, kRecord, kRecord, '\0');
  EXPECT_EQ(buffer, expected);
  EXPECT_EQ(second.memory->counters().peer_requests, 3);
  EXPECT_EQ(second.memory->counters().peer_bytes, 3 * kRecord);
  EXPECT_EQ(second.memory->counters().fallback_bytes, 0);
  EXPECT_EQ(first.memory->storage_counters().bytes_read, 3 * kChunk);  // whole, and kept
  EXPECT_EQ(second.memory->storage_counters().bytes_read, 2 * kChunk);  // 5 once
}

TEST_F(JobMemoryTest, AParcelWithoutBytesNeedsNothing) {
  TestNode first(files_);
  first.memory->SetHomes(TwoHomes(), 0, {{}, {}});
  ASSERT_EQ(first.memory->Find(LoadOfParcel(files_, {}), kGoOn), Place::kParcel);
  EXPECT_TRUE(first.memory->Collect(LoadOfParcel(files_, {}), nullptr, kGoOn).empty());
}

TEST_F(JobMemoryTest, OfAParcelWhatIsDamagedOrLostComesFromStorage) {
  TestNode first(files_), second(files_);
  Meet(first, second);
  Load load = LoadOfParcel(files_, {0, 1, 2, 4});
  std::string buffer(static_cast<std::size_t>(load.bytes), '\0');
  load.records[2].checksum ^= 1;
  EXPECT_EQ(second.memory->Collect(load, &buffer[0], kGoOn), (std::vector<std::size_t>{2}));
  EXPECT_EQ(second.memory->counters().fallback_bytes, kRecord);
  EXPECT_EQ(second.memory->Collect(LoadOfParcel(files_, {0, 4}), &buffer[0], kGoOn),
            std::vector<std::size_t>{});
  ASSERT_EQ(first.memory->Find(LoadOfChunk(files_, 6), kGoOn), Place::kToKeep);
  first.memory->Keep(LoadOfChunk(files_, 6), buffer.data(), true);  // with damages
  EXPECT_EQ(second.memory->Collect(LoadOfParcel(files_, {6, 0}), &buffer[0], kGoOn),
            (std::vector<std::size_t>{0}));
  first.Stop();
  EXPECT_EQ(second.memory->Collect(LoadOfParcel(files_, {0, 1, 4}), &buffer[0], kGoOn),
            (std::vector<std::size_t>{0, 2}));
}

// Invariants 4 and 5: fills go on in the order of the data, whoever waits for which chunk.
TEST_F(JobMemoryTest, WhatIsFilledIsReadOnceAndInTheOrderOfTheData) {
  TestNode first(files_), second(files_);
  std::vector<std::int64_t> filled;
  std::atomic<bool> may_fill{false};
  first.before_fill = [&] {
    while (!may_fill) std::this_thread::sleep_for(1ms);
  };
  first.on_fill = [&](std::int64_t chunk) { filled.push_back(chunk); };
  Meet(first, second);
  first.memory->WantAll();
  first.memory->WantAll();
  std::vector<std::thread> threads;
  for (TestNode* const node : {&first, &second}) {
    threads.emplace_back([this, node] {
      const Load load = LoadOfParcel(files_, {8, 0, 8, 6});
      std::string buffer(static_cast<std::size_t>(load.bytes), '\0');
      EXPECT_EQ(node->memory->Collect(load, &buffer[0], kGoOn), std::vector<std::size_t>{});
      EXPECT_EQ(buffer, BytesOf(files_, load));
    });
  }
  may_fill = true;
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE(Await([&] { return first.memory->chunks().kept_bytes() == 5 * kChunk; }));
  first.Stop();
  EXPECT_EQ(filled, (std::vector<std::int64_t>{0, 2, 4, 6, 8}));
  EXPECT_EQ(first.memory->storage_counters().bytes_read, 5 * kChunk);
}

TEST_F(JobMemoryTest, WhatHasGotAnotherHomeIsNotReadAnyMore) {
  TestNode first(files_);
  std::vector<std::int64_t> filled;
  std::atomic<bool> may_fill{false};
  first.before_fill = [&] {
    while (!may_fill) std::this_thread::sleep_for(1ms);
  };
  first.on_fill = [&](std::int64_t chunk) { filled.push_back(chunk); };
  first.memory->SetHomes(TwoHomes(), 0, {{}, {}});
  first.memory->WantAll();
  std::vector<std::int32_t> others = TwoHomes();
  others[4] = 1;
  others[8] = JobMemory::kNowhere;
  first.memory->SetHomes(others, 0, {{}, {}});
  may_fill = true;
  ASSERT_TRUE(Await([&] { return first.memory->chunks().kept_bytes() == 3 * kChunk; }));
  first.Stop();
  EXPECT_EQ(filled, (std::vector<std::int64_t>{0, 2, 6}));
}

// Invariant 1: with all threads of all nodes waiting for each other's chunks, fills go on.
TEST_F(JobMemoryTest, NodesThatWaitForEachOtherStandStillNever) {
  for (int round = 0; round < 20; ++round) {
    TestNode first(files_), second(files_);
    Meet(first, second);
    std::vector<std::thread> threads;
    for (TestNode* node : {&first, &second}) {
      for (int thread = 0; thread < 4; ++thread) {
        threads.emplace_back([&, node, thread, round] {
          std::vector<std::int64_t> chunks;
          for (std::int64_t chunk = 0; chunk < kChunks - 2; ++chunk) chunks.push_back(chunk);
          std::shuffle(chunks.begin(), chunks.end(),
                       std::mt19937(static_cast<unsigned>(10 * round + thread)));
          for (const std::int64_t chunk : chunks) {
            EXPECT_NE(node->Bring(chunk, 0, thread % 2 == 0 ? 100 : 50), Place::kStorage);
          }
        });
      }
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(first.memory->chunks().kept_bytes(), 5 * kChunk);
    EXPECT_EQ(second.memory->chunks().kept_bytes(), 5 * kChunk);
    EXPECT_TRUE(first.lost().empty());
  }
}

// I3: whatever a peer, or this node's own file, has become.
TEST_F(JobMemoryTest, BytesThatAreOthersThanTheIndexsComeFromStorage) {
  TestNode first(files_), second(files_);
  Meet(first, second);
  ASSERT_EQ(first.Bring(0), Place::kToKeep);
  const KeptChunks& kept = first.memory->chunks();
  char byte;
  ASSERT_EQ(pread(kept.file().number(), &byte, 1, kept.place(0) + 5555), 1);
  byte = static_cast<char>(byte ^ 4);
  ASSERT_EQ(pwrite(kept.file().number(), &byte, 1, kept.place(0) + 5555), 1);
  EXPECT_EQ(second.Bring(0), Place::kStorage);
  EXPECT_EQ(second.memory->counters().fallback_bytes, kChunk);
  EXPECT_EQ(second.memory->counters().peer_bytes, 0);
  EXPECT_EQ(second.Bring(0, 6, 100), Place::kPeer);  // records that are good
  EXPECT_EQ(first.Bring(0), Place::kStorage);
}

TEST_F(JobMemoryTest, WhatIsDamagedIsNeverKept) {
  TestNode first(files_), second(files_);
  Meet(first, second);
  Load load = LoadOfChunk(files_, 0);
  load.records[7].checksum ^= 1;
  ASSERT_EQ(first.memory->Find(load, kGoOn), Place::kToKeep);
  first.memory->Keep(load, files_.contents[0].data(), false);
  EXPECT_EQ(first.Bring(0), Place::kStorage);
  EXPECT_EQ(second.Bring(0), Place::kStorage);
  ASSERT_EQ(first.memory->Find(LoadOfChunk(files_, 2), kGoOn), Place::kToKeep);
  first.memory->Keep(LoadOfChunk(files_, 2), files_.contents[0].data() + 2 * kChunk, true);
  EXPECT_EQ(second.Bring(2), Place::kStorage);
  EXPECT_EQ(first.memory->chunks().kept_bytes(), 0);
  EXPECT_TRUE(second.lost().empty());
  EXPECT_EQ(second.Bring(4), Place::kPeer);
}

TEST_F(JobMemoryTest, AReadingThatWasStoppedIsBegunAgain) {
  TestNode first(files_);
  first.memory->SetHomes(TwoHomes(), 0, {{}, {}});
  ASSERT_EQ(first.memory->Find(LoadOfChunk(files_, 0), kGoOn), Place::kToKeep);
  first.memory->Keep(LoadOfChunk(files_, 0), nullptr, false);
  EXPECT_EQ(first.Bring(0), Place::kToKeep);
}

TEST_F(JobMemoryTest, AStopEndsEveryWait) {
  TestNode first(files_), second(files_);
  std::atomic<bool> may_read{false}, stop{false};
  first.before_fill = [&] {
    while (!may_read) std::this_thread::sleep_for(1ms);
  };
  Meet(first, second);
  const Load load = LoadOfChunk(files_, 2), part = LoadOfChunk(files_, 2, 1, 2);
  std::string buffer(kChunk, '\0'), other(kChunk, '\0');
  std::thread peer([&] {
    EXPECT_EQ(second.memory->Find(load, stop), Place::kPeer);
    EXPECT_FALSE(second.memory->Take(load, Place::kPeer, &buffer[0], stop));
  });
  std::thread home([&] { EXPECT_EQ(first.memory->Find(part, stop), Place::kStorage); });
  std::this_thread::sleep_for(20ms);
  stop = true;
  peer.join();
  home.join();
  EXPECT_EQ(second.memory->counters().fallback_bytes, 0);
  may_read = true;
}

TEST_F(JobMemoryTest, ANodeThatEndsAsItShouldIsLostWithoutAWord) {
  TestNode first(files_), second(files_);
  Meet(first, second);
  ASSERT_EQ(second.Bring(0), Place::kPeer);
  first.Stop();
  EXPECT_EQ(first.memory->chunks().kept_bytes(), 0);
  EXPECT_EQ(second.Bring(0), Place::kStorage);
  EXPECT_EQ(second.memory->counters().fallback_bytes, kChunk);
  ASSERT_TRUE(Await([&] { return !second.lost().empty(); }));
  EXPECT_EQ(second.lost()[0].number, 0);
  EXPECT_EQ(second.lost()[0].why, "");
  EXPECT_EQ(first.Bring(0), Place::kStorage);
}

// What listens and behaves as `behave` does with each connection.
class FalseNode {
 public:
  explicit FalseNode(std::function<void(int)> behave) : behave_(std::move(behave)) {
    listener_ = Descriptor(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(bind(listener_.number(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(listen(listener_.number(), 16), 0);
    socklen_t length = sizeof(address);
    getsockname(listener_.number(), reinterpret_cast<sockaddr*>(&address), &length);
    port_ = std::to_string(ntohs(address.sin_port));
    thread_ = std::thread([this] {
      while (!stop_) {
        pollfd entry{listener_.number(), POLLIN, 0};
        if (poll(&entry, 1, 20) <= 0) continue;
        connections_.emplace_back(accept4(listener_.number(), nullptr, nullptr, SOCK_CLOEXEC));
        ++accepted;
        behave_(connections_.back().number());
      }
    });
  }
  ~FalseNode() {
    stop_ = true;
    thread_.join();
  }

  PeerNode node() const { return {kHost, port_, kSecret}; }

  // As a node that knows the secret; then the first request.
  static void Welcome(int connection) {
    const Greeting greeting{kPeerMagic, DrawNonce()};
    send(connection, &greeting, sizeof(greeting), MSG_NOSIGNAL);
    ClientProof proof;
    recv(connection, &proof, sizeof(proof), MSG_WAITALL);
    const ServerProof own{ServerTag(kSecret, greeting.nonce, proof.nonce)};
    send(connection, &own, sizeof(own), MSG_NOSIGNAL);
    ChunkRequest request;
    recv(connection, &request, sizeof(request), MSG_WAITALL);
  }

  std::atomic<int> accepted{0};

 private:
  std::function<void(int)> behave_;
  Descriptor listener_;
  std::string port_;
  std::vector<Descriptor> connections_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

void Answer(int connection, const ChunkAnswer& answer) {
  send(connection, &answer, sizeof(answer), MSG_NOSIGNAL);
}

struct Falsehood {
  const char* name;
  void (*behave)(int);
  const char* why;
};

class FalseNodeTest : public testing::TestWithParam<Falsehood> {};

// Storage instead, said once, and never asked again.
TEST_P(FalseNodeTest, IsLost) {
  const TestFiles files(1, kChunks * kChunk);
  JobMemory::Options options = Patient();
  options.client.patience = 300ms;
  TestNode own(files, kIndex, options);
  FalseNode other(GetParam().behave);
  own.memory->SetHomes(TwoHomes(), 1, {other.node(), {}});
  for (int time = 0; time < 3; ++time) EXPECT_EQ(own.Bring(0), Place::kStorage);
  EXPECT_EQ(own.Bring(2), Place::kStorage);
  EXPECT_EQ(own.memory->counters().fallback_bytes, 4 * kChunk);
  ASSERT_TRUE(Await([&] { return !own.lost().empty(); }));
  EXPECT_EQ(own.lost().size(), 1u);
  EXPECT_NE(own.lost()[0].why.find(GetParam().why), std::string::npos) << own.lost()[0].why;
  EXPECT_LE(other.accepted, 1);
  own.memory->SetHomes(TwoHomes(), 1, {other.node(), {}});  // the next loader asks again
  EXPECT_EQ(own.Bring(0), Place::kStorage);
  EXPECT_TRUE(Await([&] { return own.lost().size() == 2; }));
}

INSTANTIATE_TEST_SUITE_P(
    Ways, FalseNodeTest,
    testing::Values(Falsehood{"Silent", [](int) {}, "has said nothing for 300 ms"},
                    Falsehood{"Closing", [](int connection) { shutdown(connection, SHUT_RDWR); },
                              "closed"},
                    Falsehood{"AnotherService",
                              [](int connection) {
                                const std::string text(64, 'S');
                                send(connection, text.data(), text.size(), MSG_NOSIGNAL);
                              },
                              "no horovod-opt"},
                    Falsehood{"WithoutTheSecret",
                              [](int connection) {
                                const Greeting greeting{kPeerMagic, DrawNonce()};
                                const ServerProof proof{};
                                send(connection, &greeting, sizeof(greeting), MSG_NOSIGNAL);
                                send(connection, &proof, sizeof(proof), MSG_NOSIGNAL);
                              },
                              "does not know this job's secret"},
                    Falsehood{"Stopped", [](int connection) { FalseNode::Welcome(connection); },
                              "has said nothing for 300 ms"},
                    Falsehood{"StillReadingAndThenClosing",
                              [](int connection) {
                                FalseNode::Welcome(connection);
                                for (int i = 0; i < 50; ++i) {
                                  Answer(connection, {AnswerKind::kStillReading, 0, 0, kChunk});
                                }
                                shutdown(connection, SHUT_RDWR);
                              },
                              "closed"},
                    Falsehood{"OfAnotherSize",
                              [](int connection) {
                                FalseNode::Welcome(connection);
                                Answer(connection, {AnswerKind::kBytes, 0, 0, kChunk + 1});
                              },
                              "what nobody has asked for"},
                    Falsehood{"OfAnotherChunk",
                              [](int connection) {
                                FalseNode::Welcome(connection);
                                Answer(connection, {AnswerKind::kBytes, 1, 0, kChunk});
                              },
                              "what nobody has asked for"},
                    Falsehood{"Babbling",
                              [](int connection) {
                                FalseNode::Welcome(connection);
                                Answer(connection, {static_cast<AnswerKind>(77), 0, 0, kChunk});
                              },
                              "an answer that does not exist"},
                    Falsehood{"HalfAnAnswer",
                              [](int connection) {
                                FalseNode::Welcome(connection);
                                Answer(connection, {AnswerKind::kBytes, 0, 0, kChunk});
                                const std::string half(kChunk / 2, 'x');
                                send(connection, half.data(), half.size(), MSG_NOSIGNAL);
                                shutdown(connection, SHUT_RDWR);
                              },
                              "closed"}),
    [](const auto& way) { return std::string(way.param.name); });

// A client that is none of ours.
class Stranger {
 public:
  explicit Stranger(const PeerNode& node)
      : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(std::stoi(node.port)));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(socket_.number(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  }

  void Send(const void* data, std::size_t bytes) {
    send(socket_.number(), data, bytes, MSG_NOSIGNAL);
  }
  // Whole, or false: it was closed.
  bool Receive(void* data, std::size_t bytes) {
    return recv(socket_.number(), data, bytes, MSG_WAITALL) == static_cast<ssize_t>(bytes);
  }
  void Leave() { shutdown(socket_.number(), SHUT_RDWR); }
  Nonce SendProof(const std::string& secret, const Greeting& greeting) {
    ClientProof proof{DrawNonce(), {}};
    proof.tag = ClientTag(secret, greeting.nonce, proof.nonce);
    Send(&proof, sizeof(proof));
    return proof.nonce;
  }
  bool Prove(const std::string& secret) {
    Greeting greeting;
    if (!Receive(&greeting, sizeof(greeting))) return false;
    const Nonce own = SendProof(secret, greeting);
    ServerProof answer;
    return Receive(&answer, sizeof(answer)) &&
           AreEqual(answer.tag, ServerTag(secret, greeting.nonce, own));
  }
  // In time; what it has sent before is skipped.
  bool IsClosed() {
    char skipped[4096];
    for (;;) {
      pollfd entry{socket_.number(), POLLIN, 0};
      if (poll(&entry, 1, 60000) <= 0) return false;
      if (recv(socket_.number(), skipped, sizeof(skipped), 0) <= 0) return true;
    }
  }

 private:
  Descriptor socket_;
};

// Storage may take longer than the patience with a node that says nothing.
TEST_F(JobMemoryTest, WhoStillReadsSaysSo) {
  TestNode first(files_);
  std::atomic<bool> may_read{false};
  first.before_fill = [&] {
    while (!may_read) std::this_thread::sleep_for(1ms);
  };
  const PeerNode node = first.Serve();
  first.memory->SetHomes(TwoHomes(), 0, {node, {}});
  Stranger client(node);
  ASSERT_TRUE(client.Prove(kSecret));
  const ChunkRequest request{kIndex, 2, 0, kChunk};
  client.Send(&request, sizeof(request));
  ChunkAnswer answer;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(client.Receive(&answer, sizeof(answer)));
    EXPECT_EQ(answer.kind, AnswerKind::kStillReading);
  }
  may_read = true;
  while (client.Receive(&answer, sizeof(answer)) && answer.kind == AnswerKind::kStillReading) {
  }
  EXPECT_EQ(answer.kind, AnswerKind::kBytes);
  std::string bytes(kChunk, '\0');
  ASSERT_TRUE(client.Receive(&bytes[0], bytes.size()));
  EXPECT_EQ(bytes, files_.contents[0].substr(2 * kChunk, kChunk));
}

TEST_F(JobMemoryTest, NobodyIsServedWithoutTheSecret) {
  {
    TestNode good(files_);
    const PeerNode known = good.Serve();
    EXPECT_TRUE(Stranger(known).Prove(kSecret));
    EXPECT_FALSE(Stranger(known).Prove("another one"));
  }
  JobMemory::Options options = Patient();
  options.server.unproven_time = 300ms;
  TestNode first(files_, kIndex, options);
  const PeerNode node = first.Serve();
  first.memory->SetHomes(TwoHomes(), 0, {node, {}});
  Stranger garbage(node), half(node), asking(node);
  const std::string text(1 << 16, 'G');
  garbage.Send(text.data(), text.size());
  EXPECT_TRUE(garbage.IsClosed());
  const ChunkRequest request{kIndex, 0, 0, kChunk};
  half.Send(&request, sizeof(request) / 2);
  asking.Send(&request, sizeof(request));
  EXPECT_TRUE(half.IsClosed());  // after unproven_time
  EXPECT_TRUE(asking.IsClosed());
  EXPECT_EQ(first.memory->counters().served_bytes, 0);
  EXPECT_EQ(first.memory->chunks().kept_bytes(), 0);
}

// I4: sizes come from the index. Also what has another index.
TEST_F(JobMemoryTest, AFrameThatNoClientSendsClosesItsConnection) {
  TestNode first(files_);
  const PeerNode node = first.Serve();
  first.memory->SetHomes(TwoHomes(), 0, {node, {}});
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  Fingerprint other = kIndex;
  other[15] = 1;
  const std::vector<ChunkRequest> requests = {{kIndex, -1, 0, 1},         {kIndex, kChunks, 0, 1},
                                              {kIndex, most, 0, 1},       {kIndex, 0, -1, 1},
                                              {kIndex, 0, 0, 0},          {kIndex, 0, 5, 4},
                                              {kIndex, 0, 0, kChunk + 1}, {kIndex, 0, most, most},
                                              {kIndex, 0, -most, most},   {other, 0, 0, kChunk}};
  for (const ChunkRequest& request : requests) {
    Stranger client(node);
    ASSERT_TRUE(client.Prove(kSecret));
    client.Send(&request, sizeof(request));
    EXPECT_TRUE(client.IsClosed());
  }
  EXPECT_EQ(first.memory->counters().served_bytes, 0);
  std::mt19937_64 random(3);
  for (int round = 0; round < 200; ++round) {  // any bytes at all
    Stranger client(node);
    ASSERT_TRUE(client.Prove(kSecret));
    std::uint64_t words[20];
    for (std::uint64_t& word : words) word = random();
    if (round % 2 == 0) std::memcpy(words, kIndex.data(), kIndex.size());
    client.Send(words, 1 + random() % sizeof(words));
  }
  Stranger good(node);
  ASSERT_TRUE(good.Prove(kSecret));
  const ChunkRequest request{kIndex, 0, 10, 30};
  good.Send(&request, sizeof(request));
  ChunkAnswer answer;
  char bytes[20];
  do {
    ASSERT_TRUE(good.Receive(&answer, sizeof(answer)));
  } while (answer.kind == AnswerKind::kStillReading);
  EXPECT_EQ(answer.kind, AnswerKind::kBytes);
  ASSERT_TRUE(good.Receive(bytes, sizeof(bytes)));
  EXPECT_EQ(std::memcmp(bytes, files_.contents[0].data() + 10, 20), 0);
}

TEST_F(JobMemoryTest, SilentConnectionsHoldUpNobody) {
  TestNode first(files_), second(files_);
  Meet(first, second);
  const PeerNode node = first.Serve();
  second.memory->SetHomes(TwoHomes(), 1, {node, {}});
  std::vector<std::unique_ptr<Stranger>> silent;
  for (int i = 0; i < 200; ++i) silent.push_back(std::make_unique<Stranger>(node));
  EXPECT_EQ(second.Bring(0), Place::kPeer);
  for (int i = 0; i < 130; ++i) EXPECT_TRUE(silent[static_cast<std::size_t>(i)]->IsClosed());
  EXPECT_EQ(second.Bring(2), Place::kPeer);
}

// A client makes room, the next connection gets its descriptor, and then an event of the client
// comes: all at once, as while the server's thread did something else.
TEST_F(JobMemoryTest, AnEventOfAClientThatIsGoneIsNobodysElse) {
  KeptChunks chunks({kChunk}, "");
  chunks.SetHomes({true});
  std::atomic<bool> is_held_up{false}, may_go_on{false};
  const auto hold_up = [&](std::int64_t chunk) {
    chunks.Claim(chunk);
    is_held_up = true;
    Await([&] { return may_go_on.load(); });
  };
  std::atomic<std::int64_t> served{0};
  ChunkServer::Options options = Patient().server;
  options.most_proven = 2;
  ChunkServer server(chunks, kIndex, kHost, kSecret, hold_up, served, options);
  const PeerNode node{kHost, server.port(), kSecret};
  Stranger waiting(node), gone(node), coming(node);
  ASSERT_TRUE(waiting.Prove(kSecret));
  ASSERT_TRUE(gone.Prove(kSecret));
  Greeting greeting;
  ASSERT_TRUE(coming.Receive(&greeting, sizeof(greeting)));
  const ChunkRequest request{kIndex, 0, 0, kChunk};
  waiting.Send(&request, sizeof(request));
  ASSERT_TRUE(Await([&] { return is_held_up.load(); }));
  coming.SendProof(kSecret, greeting);  // `gone` makes room
  Stranger next(node);
  gone.Leave();
  may_go_on = true;
  EXPECT_TRUE(next.Prove(kSecret));
}

TEST_F(JobMemoryTest, ClientsBeyondTheMostTakeTurns) {
  JobMemory::Options options = Patient();
  options.server.most_proven = 3;
  TestNode first(files_, kIndex, options);
  const PeerNode node = first.Serve();
  first.memory->SetHomes(TwoHomes(), 0, {node, {}});
  std::vector<std::unique_ptr<TestNode>> others;
  for (int i = 0; i < 8; ++i) {
    others.push_back(std::make_unique<TestNode>(files_));
    others.back()->memory->SetHomes(TwoHomes(), 1, {node, {}});
  }
  for (int round = 0; round < 3; ++round) {
    for (const auto& other : others) EXPECT_EQ(other->Bring(2 * round), Place::kPeer);
  }
  for (const auto& other : others) EXPECT_TRUE(other->lost().empty());
}

TEST_F(JobMemoryTest, AClientHasNoMoreConnectionsThanItMay) {
  JobMemory::Options options = Patient();
  options.client.most_connections = 2;
  std::vector<std::unique_ptr<TestNode>> nodes;
  std::vector<PeerNode> peers;
  std::vector<std::int32_t> homes;
  for (int i = 0; i < 5; ++i) {
    nodes.push_back(std::make_unique<TestNode>(files_, kIndex, options));
    peers.push_back(nodes.back()->Serve());
  }
  for (int chunk = 0; chunk < kChunks; ++chunk) homes.push_back(chunk % 5);
  for (int i = 0; i < 5; ++i) nodes[static_cast<std::size_t>(i)]->memory->SetHomes(homes, i, peers);
  for (int round = 0; round < 3; ++round) {
    for (std::int64_t chunk = 0; chunk < kChunks; ++chunk) {
      EXPECT_EQ(nodes[0]->Bring(chunk), chunk % 5 != 0 ? Place::kPeer
                                        : round == 0   ? Place::kToKeep
                                                       : Place::kHere);
    }
  }
  EXPECT_TRUE(nodes[0]->lost().empty());
}

}  // namespace job_memory_test
}  // namespace io
}  // namespace horovod_opt
