#include "horovod_opt/csrc/io/files/open_files.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>

#include "horovod_opt/csrc/io/node_cache/node_cache_memory.h"
#include "tests/native/io/test_files.h"

namespace horovod_opt {
namespace io {
namespace open_files_test {

int OpenDescriptors() {
  int count = 0;
  for (int number = 0; number < 1000; ++number) count += fcntl(number, F_GETFD) >= 0;
  return count;
}

TEST(OpenFiles, KeepsAFewAndTheLastUsed) {
  const TestFiles data(10, 10);
  OpenFiles files(data.Table(), 3);
  const int before = OpenDescriptors();
  const int first = files.Get(0).descriptor->number();
  for (int file = 1; file < 10; ++file) {
    EXPECT_EQ(files.Get(file).status, kGood);
    EXPECT_EQ(files.Get(0).descriptor->number(), first);
  }
  EXPECT_EQ(OpenDescriptors(), before + 3);
}

TEST(OpenFiles, OneThatIsHeldStaysOpen) {
  const TestFiles data(2, 10);
  OpenFiles files(data.Table(), 1);
  const OpenFile file = files.Get(0);
  files.Get(1);
  char byte;
  EXPECT_EQ(pread(file.descriptor->number(), &byte, 1, 3), 1);
  EXPECT_EQ(byte, data.contents[0][3]);
}

TEST(OpenFiles, SaysWhyItCannotOpen) {
  const TestFiles data(3, 10);
  OpenFiles files(data.Table(), 9);
  std::ofstream(data.Path(0), std::ios::app) << "more";
  unlink(data.Path(1).c_str());
  EXPECT_EQ(files.Get(0).status, kChanged);
  EXPECT_EQ(files.Get(1).status, ENOENT);
  EXPECT_EQ(files.Get(2).status, kGood);
}

TEST(OpenFiles, OpensAgainWhatHasFailed) {
  const TestFiles data(1, 10);
  OpenFiles files(data.Table(), 9);
  const OpenFile before = files.Get(0);
  const OpenFile after = files.Get(0, /*again=*/true);
  EXPECT_NE(before.descriptor, after.descriptor);
  EXPECT_EQ(files.Get(0).descriptor, after.descriptor);
}

TEST(OpenFiles, GivesDescriptorsBackWhenTheProcessHasNoneLeft) {
  const TestFiles data(10, 10);
  OpenFiles files(data.Table(), 100);
  rlimit limit;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = static_cast<rlim_t>(OpenDescriptors()) + 4;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  for (int file = 0; file < 10; ++file) EXPECT_EQ(files.Get(file).status, kGood);
}

// The kernel reads ahead of a file that is read in order, megabytes that nobody has asked for.
TEST(OpenFiles, WhatIsNotAskedForIsNotRead) {
  constexpr std::size_t kBytes = 8 << 20, kAsked = 1 << 20;
  const TestFiles data(1, kBytes);
  OpenFiles files(data.Table(), 1);
  const int file = files.Get(0).descriptor->number();
  ASSERT_EQ(fsync(file), 0);
  ASSERT_EQ(posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED), 0);
  void* const mapped = mmap(nullptr, kBytes, PROT_READ, MAP_SHARED, file, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  const auto cached_from = [&](std::size_t begin) {
    std::vector<unsigned char> pages(kBytes / static_cast<std::size_t>(PageBytes()));
    EXPECT_EQ(mincore(mapped, kBytes, pages.data()), 0);
    return std::count_if(pages.begin() + static_cast<std::ptrdiff_t>(begin) / PageBytes(),
                         pages.end(), [](unsigned char page) { return page & 1; });
  };
  if (cached_from(0) > 0) GTEST_SKIP() << "/tmp keeps all of its files in memory";
  std::string read(kAsked, '\0');
  for (const std::size_t begin : {std::size_t{0}, kAsked}) {  // in order
    ASSERT_EQ(pread(file, read.data(), kAsked, static_cast<off_t>(begin)),
              static_cast<ssize_t>(kAsked));
  }
  EXPECT_EQ(cached_from(2 * kAsked), 0);  // of the others the kernel may have dropped some
  munmap(mapped, kBytes);
}

}  // namespace open_files_test
}  // namespace io
}  // namespace horovod_opt
