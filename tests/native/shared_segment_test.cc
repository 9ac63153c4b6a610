#include "shared_segment.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <system_error>
#include <utility>

namespace horovod_opt {
namespace {

constexpr std::size_t kBytes = 10000;

std::string Name() { return "/horovod_opt-segment-" + std::to_string(getpid()); }

std::string Path() { return "/dev/shm" + Name(); }

bool Exists() {
  struct stat status;
  return stat(Path().c_str(), &status) == 0;
}

char* Bytes(const SharedSegment& segment) { return static_cast<char*>(segment.data()); }

// The error of `action`, whose text must contain the segment's name and `text`.
template <class Action>
std::error_code ErrorOf(const Action& action, const std::string& text) {
  try {
    action();
  } catch (const std::system_error& error) {
    const std::string what = error.what();
    EXPECT_NE(what.find(Name()), std::string::npos) << what;
    EXPECT_NE(what.find(text), std::string::npos) << what;
    return error.code();
  }
  ADD_FAILURE() << "no error";
  return {};
}

TEST(SharedSegment, IsZeroedAndShared) {
  const SharedSegment created = SharedSegment::Create(Name(), kBytes);
  const SharedSegment opened = SharedSegment::Open(Name(), kBytes);
  EXPECT_EQ(created.size(), kBytes);
  EXPECT_EQ(opened.size(), kBytes);
  for (std::size_t i = 0; i < kBytes; ++i) ASSERT_EQ(Bytes(opened)[i], 0);
  Bytes(created)[kBytes - 1] = 42;
  EXPECT_EQ(Bytes(opened)[kBytes - 1], 42);
}

TEST(SharedSegment, IsForThisUserOnly) {
  const SharedSegment segment = SharedSegment::Create(Name(), kBytes);
  struct stat status;
  ASSERT_EQ(stat(Path().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

TEST(SharedSegment, MemoryIsAllocatedAtOnce) {
  const SharedSegment segment = SharedSegment::Create(Name(), std::size_t{1} << 20);
  struct stat status;
  ASSERT_EQ(stat(Path().c_str(), &status), 0);
  EXPECT_GE(status.st_blocks * 512, 1 << 20);
}

TEST(SharedSegment, OutlivesItsName) {
  SharedSegment created = SharedSegment::Create(Name(), kBytes);
  const SharedSegment opened = SharedSegment::Open(Name(), kBytes);
  created.Unlink();
  EXPECT_FALSE(Exists());
  Bytes(created)[1] = 7;
  EXPECT_EQ(Bytes(opened)[1], 7);
  // The name is free for another one, which the first must not remove.
  const SharedSegment next = SharedSegment::Create(Name(), kBytes);
  created.Unlink();
  { const SharedSegment end = std::move(created); }
  EXPECT_TRUE(Exists());
}

TEST(SharedSegment, OnlyTheCreatorRemovesTheName) {
  {
    const SharedSegment created = SharedSegment::Create(Name(), kBytes);
    {
      SharedSegment opened = SharedSegment::Open(Name(), kBytes);
      opened.Unlink();
    }
    EXPECT_TRUE(Exists());
  }
  EXPECT_FALSE(Exists());
}

TEST(SharedSegment, MovesWithMappingAndName) {
  SharedSegment first = SharedSegment::Create(Name(), kBytes);
  Bytes(first)[0] = 3;
  SharedSegment second = std::move(first);
  EXPECT_EQ(first.data(), nullptr);
  EXPECT_EQ(first.size(), 0u);
  EXPECT_EQ(Bytes(second)[0], 3);
  first = std::move(second);
  EXPECT_EQ(Bytes(first)[0], 3);
  EXPECT_TRUE(Exists());
}

TEST(SharedSegment, APrivateOneIsZeroedAndShowsInNoDirectory) {
  SharedSegment segment = SharedSegment::Private(kBytes);
  ASSERT_EQ(segment.size(), kBytes);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(segment.data()) % sysconf(_SC_PAGESIZE), 0u);
  for (std::size_t i = 0; i < kBytes; ++i) ASSERT_EQ(Bytes(segment)[i], 0);
  Bytes(segment)[kBytes - 1] = 42;
  const SharedSegment other = SharedSegment::Private(kBytes);
  EXPECT_EQ(Bytes(other)[kBytes - 1], 0);
  EXPECT_FALSE(Exists());
  segment.Unlink();
  const SharedSegment moved = std::move(segment);
  EXPECT_EQ(segment.data(), nullptr);
  EXPECT_EQ(Bytes(moved)[kBytes - 1], 42);
}

TEST(SharedSegment, TooMuchPrivateMemoryIsAnError) {
  const std::size_t bytes = std::size_t{1} << 62;
  try {
    SharedSegment::Private(bytes);
    FAIL() << "no error";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), std::errc::not_enough_memory);
    EXPECT_NE(std::string(error.what()).find(std::to_string(bytes)), std::string::npos);
  }
}

TEST(SharedSegment, ATakenNameIsAnError) {
  const SharedSegment segment = SharedSegment::Create(Name(), kBytes);
  EXPECT_EQ(ErrorOf([] { SharedSegment::Create(Name(), 4321); }, "4321"), std::errc::file_exists);
  EXPECT_TRUE(Exists());
}

TEST(SharedSegment, OpenNeedsOneThatIsLargeEnough) {
  EXPECT_EQ(ErrorOf([] { SharedSegment::Open(Name(), kBytes); }, "10000"),
            std::errc::no_such_file_or_directory);
  const SharedSegment segment = SharedSegment::Create(Name(), kBytes);
  EXPECT_EQ(ErrorOf([] { SharedSegment::Open(Name(), kBytes + 1); }, "it has only 10000"),
            std::errc::invalid_argument);
}

TEST(SharedSegment, TooLittleMemoryIsAnErrorWithARemedy) {
  struct statvfs status;
  ASSERT_EQ(statvfs("/dev/shm", &status), 0);
  if (status.f_blocks == 0) GTEST_SKIP() << "/dev/shm has no limit";
  const std::size_t bytes = (status.f_blocks + 1) * status.f_frsize;
  const std::error_code code = ErrorOf([&] { SharedSegment::Create(Name(), bytes); },
                                       "of " + std::to_string(bytes) + " bytes");
  EXPECT_EQ(code, std::errc::no_space_on_device);
  ErrorOf([&] { SharedSegment::Create(Name(), bytes); }, "bytes are free. Enlarge /dev/shm");
  EXPECT_FALSE(Exists());
}

}  // namespace
}  // namespace horovod_opt
