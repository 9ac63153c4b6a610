#include "horovod_opt/csrc/io/node_cache/read_extent.h"

#include <errno.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "horovod_opt/csrc/io/files/damages.h"
#include "tests/native/io/test_files.h"

namespace horovod_opt {
namespace io {
namespace read_extent_test {

constexpr std::int64_t kBytes = 100000, kBlock = 4096;

class ReadExtentTest : public testing::Test {
 protected:
  // Reads [offset, offset + bytes) to `place` of the chunk buffer.
  void Read(ExtentReader::Read how, std::int64_t offset, std::int64_t bytes, std::int64_t place) {
    ExtentReader reader(files_, *counters_, stop_, std::move(how));
    reader({0, offset, bytes, place}, slot_.data(), damages_);
  }

  // What was read against the file; zeros for damaged blocks.
  void ExpectAsFile(std::int64_t offset, std::int64_t bytes, std::int64_t place) {
    const std::string expected = data_.contents[0].substr(static_cast<std::size_t>(offset),
                                                          static_cast<std::size_t>(bytes));
    EXPECT_EQ(slot_.substr(static_cast<std::size_t>(place), static_cast<std::size_t>(bytes)),
              expected);
  }

  TestFiles data_{1, kBytes};
  OpenFiles files_{data_.Table(), 2};
  std::unique_ptr<Counters> counters_ = std::make_unique<Counters>();
  std::atomic<bool> stop_{false};
  std::string slot_ = std::string(kBytes + 100, 'x');
  Damages damages_{};
};

TEST_F(ReadExtentTest, ReadsInOneRequestToItsPlaceAndNothingElse) {
  Read(pread, 1000, 50000, 77);
  ExpectAsFile(1000, 50000, 77);
  EXPECT_EQ(slot_[76], 'x');
  EXPECT_EQ(slot_[50077], 'x');
  EXPECT_EQ(counters_->requests, 1);
  EXPECT_EQ(counters_->bytes_read, 50000);
}

TEST_F(ReadExtentTest, GoesOnAfterShortReadsAndSignals) {
  int calls = 0;
  const auto haltingly = [&](int file, void* to, size_t bytes, off_t offset) -> ssize_t {
    if (++calls % 2 == 0) {
      errno = EINTR;
      return -1;
    }
    return pread(file, to, std::min<size_t>(bytes, 777), offset);
  };
  Read(haltingly, 3, 20000, 5);
  ExpectAsFile(3, 20000, 5);
  EXPECT_EQ(damages_.Of(0, kBytes), kGood);
}

// Blocks 3 and 7 of the disk are bad; each byte outside of them is read.
TEST_F(ReadExtentTest, ReadsAllButBadBlocks) {
  const auto bad = [](std::int64_t offset) { return offset / kBlock == 3 || offset / kBlock == 7; };
  const auto disk = [&](int file, void* to, size_t bytes, off_t offset) -> ssize_t {
    for (off_t at = offset; at < offset + static_cast<off_t>(bytes); ++at) {
      if (bad(at)) {
        errno = EIO;
        return -1;
      }
    }
    return pread(file, to, bytes, offset);
  };
  Read(disk, 100, 60000, 0);
  for (std::int64_t i = 0; i < 60000; ++i) {
    const auto at = static_cast<std::size_t>(i);
    ASSERT_EQ(slot_[at], bad(i + 100) ? '\0' : data_.contents[0][at + 100]) << i;
    ASSERT_EQ(damages_.Of(i, i + 1), bad(i + 100) ? EIO : kGood) << i;
  }
}

// NFS: the descriptor has become stale, a new one is good.
TEST_F(ReadExtentTest, OpensAgainAfterAnError) {
  const int stale = files_.Get(0).descriptor->number();
  const auto nfs = [&](int file, void* to, size_t bytes, off_t offset) -> ssize_t {
    if (file == stale) {
      errno = ESTALE;
      return -1;
    }
    return pread(file, to, bytes, offset);
  };
  const OpenFile file = files_.Get(0);  // so that the new one has another number
  Read(nfs, 0, 20000, 0);
  ExpectAsFile(0, 20000, 0);
  EXPECT_EQ(damages_.Of(0, kBytes), kGood);
}

TEST_F(ReadExtentTest, SaysWhatAFileThatEndsTooEarlyLacks) {
  Read(pread, 90000, 20000, 50);
  ExpectAsFile(90000, 10000, 50);
  EXPECT_EQ(damages_.Of(0, 10050), kGood);
  EXPECT_EQ(damages_.Of(10049, 10051), kTruncated);
  EXPECT_EQ(slot_[10050], '\0');
  EXPECT_EQ(damages_.Of(20050, 20051), kGood);
}

// Of long extents, with requests of so many bytes.
class AskingTest : public testing::Test {
 protected:
  struct Call {
    bool asks;
    std::int64_t offset, bytes;
  };

  static constexpr std::int64_t kRequest = 128 << 10;
  static constexpr std::int64_t kLong = ExtentReader::kAhead + 2 * ExtentReader::kStep - 12345;

  // What the reader does for an extent, in its order.
  std::vector<Call> Calls(std::int64_t request, std::int64_t offset, std::int64_t bytes,
                          std::int64_t most_read = kLong) {
    Use(request, most_read);
    Damages damages{};
    std::string buffer(static_cast<std::size_t>(bytes), 'x');
    (*reader_)({0, offset, bytes, 0}, buffer.data(), damages);
    EXPECT_EQ(damages.Of(0, bytes), kGood);
    EXPECT_EQ(buffer, data_.contents[0].substr(static_cast<std::size_t>(offset), buffer.size()));
    return calls_;
  }

  void Use(std::int64_t request, std::int64_t most_read) {
    calls_.clear();
    files_ = std::make_unique<OpenFiles>(data_.Table(), 2, [=](dev_t) { return request; });
    reader_ = std::make_unique<ExtentReader>(
        *files_, *counters_, stop_,
        [=](int file, void* to, size_t bytes, off_t offset) {
          const auto some = std::min<size_t>(bytes, static_cast<size_t>(most_read));
          Note({false, offset, static_cast<std::int64_t>(some)});
          return pread(file, to, some, offset);
        },
        [=](int, off_t offset, off_t bytes) { Note({true, offset, bytes}); });
  }

  void Note(Call call) {
    std::lock_guard<std::mutex> lock(mutex_);
    calls_.push_back(call);
  }

  // (1) and (2) of what was done for an extent.
  static void ExpectAskedInOrder(const std::vector<Call>& calls, std::int64_t offset,
                                 std::int64_t bytes) {
    std::int64_t request_end = offset, read = offset;
    for (const Call& call : calls) {
      if (call.asks) {
        EXPECT_EQ(call.offset, request_end);
        request_end += call.bytes;
        EXPECT_TRUE(request_end % kRequest == 0 || request_end == offset + bytes) << request_end;
        EXPECT_LE(call.bytes, kRequest);
        EXPECT_LE(request_end - read, ExtentReader::kAhead);
      } else {
        EXPECT_EQ(call.offset, read);
        read += call.bytes;
        EXPECT_LE(read, request_end);
      }
    }
    EXPECT_EQ(request_end, offset + bytes);
    EXPECT_EQ(read, offset + bytes);
  }

  TestFiles data_{1, kLong + 5000};
  std::unique_ptr<Counters> counters_ = std::make_unique<Counters>();
  std::atomic<bool> stop_{false};
  std::unique_ptr<OpenFiles> files_;
  std::unique_ptr<ExtentReader> reader_;
  std::mutex mutex_;
  std::vector<Call> calls_;
};

// (1), (2)
TEST_F(AskingTest, ALongExtentIsAskedForInOrderAndNotTooFarAhead) {
  ExpectAskedInOrder(Calls(kRequest, 4567, kLong), 4567, kLong);
  ExpectAskedInOrder(Calls(kRequest, 0, kLong), 0, kLong);
  const std::int64_t shortest = ExtentReader::kStep + 1;
  ExpectAskedInOrder(Calls(kRequest, 77, shortest), 77, shortest);
}

TEST_F(AskingTest, ShortReadsAreAskedForAsWell) {
  ExpectAskedInOrder(Calls(kRequest, 4567, kLong, 77777), 4567, kLong);
}

TEST_F(AskingTest, NothingIsAskedForWhereItWouldNotHelp) {
  const auto asks = [](const std::vector<Call>& calls) {
    return std::count_if(calls.begin(), calls.end(), [](const Call& call) { return call.asks; });
  };
  EXPECT_EQ(asks(Calls(0, 10, kLong)), 0);  // not known
  EXPECT_EQ(calls_.size(), 1u);
  EXPECT_EQ(asks(Calls(kRequest, 10, ExtentReader::kStep)), 0);
  EXPECT_EQ(asks(Calls(ExtentReader::kMostRequest + 4096, 10, kLong)), 0);
  EXPECT_GT(asks(Calls(ExtentReader::kMostRequest, 10, kLong)), 0);
}

// (3)
TEST_F(AskingTest, LongExtentsOfThreadsAreNotMixed) {
  constexpr std::int64_t kEach = 2 * ExtentReader::kStep;
  Use(kRequest, kLong);
  std::vector<std::thread> threads;
  for (std::int64_t i = 0; i < 3; ++i) {
    threads.emplace_back([this, i] {
      Damages damages{};
      std::string buffer(static_cast<std::size_t>(kEach - 12345), 'x');
      const auto bytes = static_cast<std::int64_t>(buffer.size());
      (*reader_)({0, i * kEach, bytes, 0}, buffer.data(), damages);
      EXPECT_EQ(damages.Of(0, bytes), kGood);
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<std::int64_t> order;  // of the extents
  for (const Call& call : calls_) {
    const std::int64_t extent = call.offset / kEach;
    if (order.empty() || order.back() != extent) order.push_back(extent);
  }
  EXPECT_EQ(order.size(), 3u);
}

// Who waits to read a long extent goes on after an error of another one, and is stopped with it.
TEST_F(AskingTest, AnErrorOrAStopLetsOthersGoOn) {
  Use(kRequest, kLong);
  ExtentReader bad(*files_, *counters_, stop_,
                   [](int, void*, size_t, off_t) -> ssize_t {
                     errno = EIO;
                     return -1;
                   },
                   [](int, off_t, off_t) {});
  std::string buffer(static_cast<std::size_t>(kLong), 'x');
  Damages damages{};
  bad({0, 0, ExtentReader::kStep + 1, 0}, buffer.data(), damages);
  EXPECT_EQ(damages.Of(0, ExtentReader::kStep + 1), EIO);
  bad({0, 0, ExtentReader::kStep + 1, 0}, buffer.data(), damages);
  stop_ = true;
  (*reader_)({0, 0, kLong, 0}, buffer.data(), damages);
  EXPECT_TRUE(calls_.empty());
}

TEST_F(ReadExtentTest, EndsEarlyWhenItIsStopped) {
  const auto slow = [&](int file, void* to, size_t, off_t offset) {
    stop_ = true;
    return pread(file, to, 1, offset);
  };
  Read(slow, 0, 20000, 0);
  EXPECT_EQ(counters_->requests, 1);
}

TEST(Damages, KnowWhichBytesAreMissing) {
  Damages damages{};
  damages.Add(100, 200, EIO);
  damages.Add(200, 300, EIO);
  damages.Add(300, 300, ESTALE);  // nothing
  damages.Add(400, 500, kTruncated);
  EXPECT_EQ(damages.Of(0, 100), kGood);
  EXPECT_EQ(damages.Of(99, 101), EIO);
  EXPECT_EQ(damages.Of(299, 300), EIO);
  EXPECT_EQ(damages.Of(300, 400), kGood);
  EXPECT_EQ(damages.Of(0, 1000), EIO);
  EXPECT_EQ(damages.Of(499, 1000), kTruncated);
  damages.Clear();
  EXPECT_EQ(damages.Of(0, 1000), kGood);
}

TEST(Damages, GrowOverWhatLiesBetweenWhenThereAreManyOfThem) {
  Damages damages{};
  for (int i = 0; i < 100; ++i) damages.Add(10 * i, 10 * i + 1, EIO);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(damages.Of(10 * i, 10 * i + 1), EIO);
  EXPECT_EQ(damages.Of(1, 10), kGood);
  EXPECT_EQ(damages.Of(981, 990), EIO);
  EXPECT_EQ(damages.Of(991, 2000), kGood);
}

}  // namespace read_extent_test
}  // namespace io
}  // namespace horovod_opt
