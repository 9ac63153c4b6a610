// The chunks that a node keeps: states, places, what frees them, and a lack of room.
#include "horovod_opt/csrc/io/kept/kept_chunks.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace horovod_opt {
namespace io {
namespace kept_chunks_test {

using State = KeptChunks::State;

const std::atomic<bool> kGoOn{false};

std::string ContentOf(std::int64_t chunk, std::int64_t bytes) {
  std::mt19937 random(static_cast<unsigned>(chunk));
  std::string content(static_cast<std::size_t>(bytes), '\0');
  for (char& byte : content) byte = static_cast<char>(random());
  return content;
}

std::int64_t PagesOf(const KeptChunks& chunks) {
  struct stat status;
  EXPECT_EQ(fstat(chunks.file().number(), &status), 0);
  return status.st_blocks * 512;
}

class KeptChunksTest : public testing::TestWithParam<std::string> {};

TEST_P(KeptChunksTest, WhatIsKeptIsReadBackInAnyOrder) {
  const std::vector<std::int64_t> sizes = {1, 4096, 0, 5000, 4097, 123456};
  KeptChunks chunks(sizes, GetParam());
  chunks.SetHomes(std::vector<bool>(sizes.size(), true));
  std::vector<std::int64_t> order = {3, 5, 0, 2, 4, 1};
  std::int64_t kept = 0;
  for (const std::int64_t chunk : order) {
    ASSERT_TRUE(chunks.Claim(chunk));
    EXPECT_FALSE(chunks.Claim(chunk));
    EXPECT_EQ(chunks.Keep(chunk, ContentOf(chunk, chunks.bytes(chunk)).data()), 0);
    kept += chunks.bytes(chunk);
    EXPECT_EQ(chunks.kept_bytes(), kept);
    EXPECT_EQ(chunks.state(chunk), State::kKept);
  }
  for (const std::int64_t chunk : order) {
    const std::string content = ContentOf(chunk, chunks.bytes(chunk));
    for (const std::int64_t begin : {std::int64_t{0}, chunks.bytes(chunk) / 3}) {
      std::string out(static_cast<std::size_t>(chunks.bytes(chunk) - begin), '\0');
      ASSERT_TRUE(chunks.Read(chunk, begin, chunks.bytes(chunk) - begin, &out[0]));
      EXPECT_EQ(out, content.substr(static_cast<std::size_t>(begin)));
    }
  }
}

// (1)
TEST_P(KeptChunksTest, OnlyAnotherHomeOrTheEndFreesAChunk) {
  const std::int64_t bytes = 1 << 16;
  KeptChunks chunks(std::vector<std::int64_t>(8, bytes), GetParam());
  chunks.SetHomes({true, true, true, true, false, false, false, false});
  for (std::int64_t chunk = 0; chunk < 4; ++chunk) {
    ASSERT_TRUE(chunks.Claim(chunk));
    chunks.Keep(chunk, ContentOf(chunk, bytes).data());
  }
  EXPECT_FALSE(chunks.Claim(4));
  EXPECT_GE(PagesOf(chunks), 4 * bytes);
  chunks.SetHomes({true, true, true, true, true, true, false, false});
  for (std::int64_t chunk = 0; chunk < 4; ++chunk) EXPECT_EQ(chunks.state(chunk), State::kKept);
  EXPECT_EQ(chunks.state(5), State::kMissing);
  chunks.SetHomes({false, true, true, true, true, true, false, false});
  EXPECT_EQ(chunks.state(0), State::kElsewhere);
  EXPECT_EQ(chunks.kept_bytes(), 3 * bytes);
  EXPECT_LT(PagesOf(chunks), 4 * bytes);
  std::string out(bytes, '\0');
  ASSERT_TRUE(chunks.Read(1, 0, bytes, &out[0]));
  EXPECT_EQ(out, ContentOf(1, bytes));
  chunks.Close();
  EXPECT_EQ(PagesOf(chunks), 0);
  EXPECT_FALSE(chunks.Read(1, 0, bytes, &out[0]));
  chunks.SetHomes(std::vector<bool>(8, true));
  EXPECT_FALSE(chunks.Claim(5));
}

TEST_P(KeptChunksTest, WhatLosesItsHomeWhileItIsReadIsNotKept) {
  KeptChunks chunks({5000, 5000}, GetParam());
  chunks.SetHomes({true, true});
  ASSERT_TRUE(chunks.Claim(0));
  chunks.SetHomes({false, true});
  chunks.Keep(0, ContentOf(0, 5000).data());
  EXPECT_EQ(chunks.state(0), State::kElsewhere);
  EXPECT_EQ(chunks.kept_bytes(), 0);
  EXPECT_EQ(PagesOf(chunks), 0);
}

TEST_P(KeptChunksTest, WhoWaitsHearsHowTheReadingEnded) {
  KeptChunks chunks(std::vector<std::int64_t>(3, 5000), GetParam());
  chunks.SetHomes({true, true, true});
  std::atomic<int> changes{0};
  chunks.OnChange([&] { ++changes; });
  std::vector<State> states(3);
  std::vector<std::thread> waiting;
  for (std::int64_t chunk = 0; chunk < 3; ++chunk) {
    ASSERT_TRUE(chunks.Claim(chunk));
    waiting.emplace_back(
        [&, chunk] { states[static_cast<std::size_t>(chunk)] = chunks.Await(chunk, kGoOn); });
  }
  chunks.Keep(0, ContentOf(0, 5000).data());
  chunks.Refuse(1);
  chunks.Release(2);
  for (std::thread& thread : waiting) thread.join();
  EXPECT_EQ(states, (std::vector<State>{State::kKept, State::kRefused, State::kMissing}));
  EXPECT_EQ(changes, 3);
  ASSERT_TRUE(chunks.Claim(2));
  const std::atomic<bool> stop{true};
  EXPECT_EQ(chunks.Await(2, stop), State::kReading);
}

TEST_P(KeptChunksTest, WhatHasNoRoomIsRefused) {
  KeptChunks chunks(std::vector<std::int64_t>(2, 1 << 16), GetParam());
  chunks.SetHomes({true, true});
  ASSERT_TRUE(chunks.Claim(0));
  ASSERT_TRUE(chunks.Claim(1));
  signal(SIGXFSZ, SIG_IGN);  // a file that has no room for more
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{100000, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const int first = chunks.Keep(0, ContentOf(0, 1 << 16).data());
  const int second = chunks.Keep(1, ContentOf(1, 1 << 16).data());
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(first, 0);
  EXPECT_EQ(second, EFBIG);
  EXPECT_EQ(chunks.state(0), State::kKept);
  EXPECT_EQ(chunks.state(1), State::kRefused);
  EXPECT_EQ(chunks.kept_bytes(), 1 << 16);
  EXPECT_LT(PagesOf(chunks), 100000);
}

INSTANTIATE_TEST_SUITE_P(Places, KeptChunksTest, testing::Values("", "/tmp"),
                         [](const auto& place) { return place.param.empty() ? "Memory" : "File"; });

TEST(KeptChunksPlaceTest, AFolderThatIsNotThereIsNamed) {
  try {
    KeptChunks chunks({1}, "/no/such/folder");
    FAIL();
  } catch (const std::system_error& error) {
    EXPECT_NE(std::string(error.what()).find("/no/such/folder"), std::string::npos);
  }
}

}  // namespace kept_chunks_test
}  // namespace io
}  // namespace horovod_opt
