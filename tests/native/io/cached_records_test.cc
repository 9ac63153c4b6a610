#include "horovod_opt/csrc/io/node_cache/cached_records.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/native/io/test_files.h"

namespace horovod_opt {
namespace io {
namespace cached_records_test {

constexpr std::int64_t kBytes = 200000, kRecord = 3000;

std::string Zeros(std::int64_t bytes) { return std::string(static_cast<std::size_t>(bytes), '\0'); }

class CachedRecordsTest : public testing::TestWithParam<int> {
 protected:
  Status Read(std::int32_t file, std::int64_t offset) {
    out_.assign(kRecord, '?');
    return records_.Read(file, offset, kRecord, /*is_checked=*/true, out_.data());
  }

  std::string Expected(std::int32_t file, std::int64_t offset) {
    return data_.contents[static_cast<std::size_t>(file)].substr(static_cast<std::size_t>(offset),
                                                                 kRecord);
  }

  TestFiles data_{GetParam(), 8192};
  std::unique_ptr<Counters> counters_ = std::make_unique<Counters>();
  std::atomic<bool> stop_{false};
  CachedRecords records_{data_.Table(), *counters_, stop_};
  std::string out_;
};

TEST_P(CachedRecordsTest, RecordsAreThoseOfTheFile) {
  for (const std::int32_t file : {0, GetParam() - 1}) {
    for (const std::int64_t offset : {0, 1234, 5000}) {
      EXPECT_EQ(Read(file, offset), kGood);
      EXPECT_EQ(out_, Expected(file, offset));
    }
  }
}

TEST_P(CachedRecordsTest, AFileThatIsTruncatedIsNoBusError) {
  ASSERT_EQ(Read(0, 0), kGood);  // from now on it is open, and mapped where files are few
  ASSERT_EQ(truncate(data_.Path(0).c_str(), 4096), 0);
  EXPECT_EQ(Read(0, 5000), kTruncated);
  EXPECT_EQ(out_, Zeros(kRecord));
  EXPECT_EQ(Read(0, 0), kGood);
  EXPECT_EQ(out_, Expected(0, 0));
}

// Its last page goes on with zeros.
TEST_P(CachedRecordsTest, ARecordThatIsCutIsFoundByWhoeverDoesNotCompareIt) {
  ASSERT_EQ(Read(0, 0), kGood);
  ASSERT_EQ(truncate(data_.Path(0).c_str(), 5000), 0);
  EXPECT_EQ(records_.Read(0, 4500, kRecord, /*is_checked=*/false, out_.data()), kTruncated);
  out_.assign(kRecord, '?');
  EXPECT_EQ(records_.Reread(0, 4500, kRecord, out_.data()), kTruncated);
  EXPECT_EQ(out_.substr(0, 500), Expected(0, 4500).substr(0, 500));
  EXPECT_EQ(out_.substr(500), Zeros(kRecord - 500));
}

TEST_P(CachedRecordsTest, AFileThatIsGoneIsAnError) {
  ASSERT_EQ(unlink(data_.Path(0).c_str()), 0);
  EXPECT_EQ(Read(0, 0), ENOENT);
  EXPECT_EQ(out_, Zeros(kRecord));
}

TEST_P(CachedRecordsTest, SeveralThreadsReadAtOnce) {
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([this, thread] {
      std::string out(kRecord, '?');
      for (std::int64_t i = 0; i < 200; ++i) {
        const auto file = static_cast<std::int32_t>(i % GetParam());
        const std::int64_t offset = (i * 7 + thread) % 5000;
        ASSERT_EQ(records_.Read(file, offset, kRecord, true, out.data()), kGood);
        ASSERT_EQ(out, Expected(file, offset));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Invariants 1 to 3 of what is let go of.
TEST_P(CachedRecordsTest, WhatIsLetGoOfIsReadAgain) {
  std::atomic<bool> is_over{false};
  std::thread lets_go([&] {
    for (std::int64_t step = 0; !is_over; ++step) records_.LetGo(step);
  });
  for (std::int64_t i = 0; i < 2000; ++i) {
    const auto file = static_cast<std::int32_t>(i % GetParam());
    ASSERT_EQ(Read(file, i % 5000), kGood);
    ASSERT_EQ(out_, Expected(file, i % 5000));
    records_.NoteUse(file, i % 5000, kRecord, /*last=*/i);
  }
  is_over = true;
  lets_go.join();
}

INSTANTIATE_TEST_SUITE_P(FewAndManyFiles, CachedRecordsTest, testing::Values(2, 257));

TEST(CachedRecords, AFileThatIsReplacedIsReadAsItWas) {
  TestFiles data(2, kBytes);
  Counters counters{};
  const std::atomic<bool> stop{false};
  CachedRecords records(data.Table(), counters, stop);
  std::string out(kRecord, '?');
  ASSERT_EQ(records.Read(0, 0, kRecord, true, out.data()), kGood);
  ASSERT_EQ(rename(data.Path(0).c_str(), data.Path(1).c_str()), 0);
  EXPECT_EQ(records.Read(1, 700, kRecord, true, out.data()), kGood);
  EXPECT_EQ(out, data.contents[1].substr(700, kRecord));
}

TEST(PageCache, WhatAFileHasNotIsNotThere) {
  TestFiles data(1, kBytes);
  const Descriptor file(open(data.Path(0).c_str(), O_RDONLY));
  EXPECT_FALSE(IsCached(file.number(), kBytes - 10, 11));
  std::string out(11, '?');
  EXPECT_FALSE(ReadCached(file.number(), out.data(), 11, kBytes - 10));
  EXPECT_TRUE(IsCached(file.number(), kBytes, 0));
}

TEST(PageCache, AFileInMemoryIsThere) {
  const Descriptor file(memfd_create("cached", MFD_CLOEXEC));
  ASSERT_EQ(ftruncate(file.number(), 300000), 0);
  EXPECT_TRUE(IsCached(file.number(), 0, 300000));
  EXPECT_FALSE(IsCached(file.number(), 299995, 10));
  char byte = 1;
  EXPECT_TRUE(ReadCached(file.number(), &byte, 1, 299999));
  EXPECT_EQ(byte, 0);
}

TEST(GuardedCopy, TheHandlerThatWasThereIsCalledForOthers) {
  static volatile sig_atomic_t calls = 0;
  struct sigaction theirs = {};
  theirs.sa_handler = [](int) { ++calls; };
  ASSERT_EQ(sigaction(SIGBUS, &theirs, nullptr), 0);
  char to = '?';
  ASSERT_TRUE(CopyGuarded(&to, "a", 1));
  EXPECT_EQ(to, 'a');
  raise(SIGBUS);
  EXPECT_EQ(calls, 1);
}

TEST(GuardedCopyDeathTest, ABusErrorElsewhereEndsTheProcess) {
  char to;
  ASSERT_TRUE(CopyGuarded(&to, "a", 1));
  EXPECT_DEATH(raise(SIGBUS); raise(SIGBUS), "");  // by the signal, or as a sanitizer ends it
}

}  // namespace cached_records_test
}  // namespace io
}  // namespace horovod_opt
