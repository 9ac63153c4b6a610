#include "horovod_opt/csrc/io/read_extent.h"

#include <errno.h>

#include <algorithm>
#include <memory>

#include "tests/native/io/test_files.h"

namespace horovod_opt {
namespace io {
namespace {

constexpr std::int64_t kBytes = 100000, kBlock = 4096;

class ReadExtentTest : public testing::Test {
 protected:
  // Reads [offset, offset + bytes) to `place` of the slot.
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
  const OpenFile held = files_.Get(0);  // so that the new one has another number
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

TEST_F(ReadExtentTest, EndsEarlyWhenItIsStopped) {
  const auto slow = [&](int file, void* to, size_t, off_t offset) {
    stop_ = true;
    return pread(file, to, 1, offset);
  };
  Read(slow, 0, 20000, 0);
  EXPECT_EQ(counters_->requests, 1);
}

}  // namespace
}  // namespace io
}  // namespace horovod_opt
