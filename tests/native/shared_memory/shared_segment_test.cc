#include "horovod_opt/csrc/core/shared_memory/shared_segment.h"

#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>
#include <utility>

#include "tests/native/shared_memory/child.h"

namespace horovod_opt {
namespace shared_segment_test {

constexpr std::size_t kBytes = 10000;
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

char* Bytes(const SharedSegment& segment) { return static_cast<char*>(segment.data()); }

// The error of `action`, whose text must contain `text`.
template <class Action>
std::error_code ErrorOf(const Action& action, const std::string& text) {
  try {
    action();
  } catch (const std::system_error& error) {
    const std::string what = error.what();
    EXPECT_NE(what.find(text), std::string::npos) << what;
    return error.code();
  }
  ADD_FAILURE() << "no error";
  return {};
}

Descriptor Memfd(std::size_t bytes, int seals) {
  Descriptor file(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(ftruncate(file.number(), static_cast<off_t>(bytes)), 0);
  if (seals != 0) {
    EXPECT_EQ(fcntl(file.number(), F_ADD_SEALS, seals), 0);
  }
  return file;
}

struct stat StatusOf(const Descriptor& file) {
  struct stat status{};
  EXPECT_EQ(fstat(file.number(), &status), 0);
  return status;
}

bool Maps(const std::string& text) {
  std::ifstream file("/proc/self/maps");
  const std::string maps{std::istreambuf_iterator<char>(file), {}};
  return maps.find(text) != std::string::npos;
}

TEST(SharedSegment, IsZeroedAndShared) {
  const Descriptor file = NewSegmentFile(kBytes);
  const SharedSegment first = SharedSegment::Map(file, kBytes);
  const SharedSegment second = SharedSegment::Map(file, kBytes);
  EXPECT_EQ(first.size(), kBytes);
  EXPECT_NE(first.data(), second.data());
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first.data()) % sysconf(_SC_PAGESIZE), 0u);
  for (std::size_t i = 0; i < kBytes; ++i) ASSERT_EQ(Bytes(second)[i], 0);
  Bytes(first)[kBytes - 1] = 42;
  EXPECT_EQ(Bytes(second)[kBytes - 1], 42);
}

TEST(SharedSegment, NeverHasAName) {
  const struct stat status = StatusOf(NewSegmentFile(kBytes));
  EXPECT_EQ(status.st_nlink, 0u);
  // On the kernel's own mount, not on one that somebody can list or that has a limit.
  struct stat shm{};
  ASSERT_EQ(stat("/dev/shm", &shm), 0);
  EXPECT_NE(status.st_dev, shm.st_dev);
}

TEST(SharedSegment, PartsOfItAreAllocatedByWhoeverIsToUseThem) {
  constexpr std::size_t kPart = 256 << 10;
  const Descriptor file = NewSegmentFile(4 * kPart);
  const auto allocated = [&] { return static_cast<std::size_t>(StatusOf(file).st_blocks) * 512; };
  EXPECT_EQ(allocated(), 0u);
  AllocateSegment(file, kPart, kPart);
  EXPECT_EQ(allocated(), kPart);
  const SharedSegment segment = SharedSegment::Map(file, 4 * kPart);
  Bytes(segment)[kPart] = 7;
  AllocateSegment(file, 0, 4 * kPart);
  EXPECT_EQ(allocated(), 4 * kPart);
  EXPECT_EQ(Bytes(segment)[kPart], 7);
}

TEST(SharedSegment, NobodyAllocatesMoreThanThereIs) {
  const Descriptor file = NewSegmentFile(kBytes);
  EXPECT_EQ(ErrorOf([&] { AllocateSegment(file, kBytes, 4096); }, "4096"),
            std::errc::operation_not_permitted);
}

TEST(SharedSegment, ProgramsThatAreStartedDoNotGetIt) {
  EXPECT_NE(fcntl(NewSegmentFile(kBytes).number(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST(SharedSegment, OutlivesItsDescriptor) {
  Descriptor file = NewSegmentFile(kBytes);
  const SharedSegment first = SharedSegment::Map(file, kBytes);
  const SharedSegment second = SharedSegment::Map(file, kBytes);
  file = Descriptor();
  Bytes(first)[1] = 7;
  EXPECT_EQ(Bytes(second)[1], 7);
}

TEST(SharedSegment, NobodyCanTakeMemoryAway) {
  const Descriptor file = NewSegmentFile(kBytes);
  const SharedSegment segment = SharedSegment::Map(file, kBytes);
  for (const off_t bytes : {off_t{0}, off_t{kBytes - 5000}, off_t{kBytes + 5000}}) {
    EXPECT_EQ(ftruncate(file.number(), bytes), -1);
    EXPECT_EQ(errno, EPERM);
  }
  EXPECT_EQ(fcntl(file.number(), F_ADD_SEALS, F_SEAL_WRITE), -1);
  Bytes(segment)[kBytes - 1] = 1;  // no SIGBUS
  EXPECT_EQ(Bytes(segment)[kBytes - 1], 1);
}

TEST(SharedSegment, MapsOnlyWhatIsSealed) {
  const char* const text = "it is not sealed";
  for (const int seals :
       {0, kSeals & ~F_SEAL_SHRINK, kSeals & ~F_SEAL_GROW, kSeals & ~F_SEAL_SEAL}) {
    const Descriptor file = Memfd(kBytes, seals);
    EXPECT_EQ(ErrorOf([&] { SharedSegment::Map(file, kBytes); }, text),
              std::errc::invalid_argument);
  }
  char name[] = "/tmp/horovod-opt-test-XXXXXX";
  const Descriptor plain(mkstemp(name));
  ASSERT_EQ(unlink(name), 0);
  ASSERT_EQ(ftruncate(plain.number(), kBytes), 0);
  EXPECT_EQ(ErrorOf([&] { SharedSegment::Map(plain, kBytes); }, text), std::errc::invalid_argument);
}

TEST(SharedSegment, MapsOnlyWhatHasTheSize) {
  for (const std::size_t bytes : {std::size_t{0}, kBytes - 1, kBytes + 1}) {
    const Descriptor file = Memfd(bytes, kSeals);
    EXPECT_EQ(ErrorOf([&] { SharedSegment::Map(file, kBytes); }, "it has " + std::to_string(bytes)),
              std::errc::invalid_argument);
  }
}

TEST(SharedSegment, MapsOnlyWhatIsOfThisUser) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to become another user";
  ASSERT_EQ(seteuid(kNobody), 0);
  const Descriptor file = NewSegmentFile(kBytes);
  ASSERT_EQ(seteuid(0), 0);
  EXPECT_EQ(ErrorOf([&] { SharedSegment::Map(file, kBytes); },
                    "belongs to user " + std::to_string(kNobody) + ", not 0"),
            std::errc::invalid_argument);
}

TEST(SharedSegment, AForkedChildDoesNotHaveIt) {
  const SharedSegment segment = SharedSegment::Map(NewSegmentFile(kBytes), kBytes);
  const char* const name = "/memfd:horovod-opt";
  EXPECT_TRUE(Maps(name));
  EXPECT_EQ(Child([&] { return Maps(name) ? 1 : 0; }).Status(), 0);
}

TEST(SharedSegment, MovesWithItsMapping) {
  SharedSegment first = SharedSegment::Map(NewSegmentFile(kBytes), kBytes);
  Bytes(first)[0] = 3;
  SharedSegment second = std::move(first);
  EXPECT_EQ(first.data(), nullptr);
  EXPECT_EQ(first.size(), 0u);
  EXPECT_EQ(Bytes(second)[0], 3);
  first = std::move(second);
  EXPECT_EQ(Bytes(first)[0], 3);
}

TEST(SharedSegment, APrivateOneIsZeroedAndOfThisProcess) {
  SharedSegment segment = SharedSegment::Private(kBytes);
  ASSERT_EQ(segment.size(), kBytes);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(segment.data()) % sysconf(_SC_PAGESIZE), 0u);
  for (std::size_t i = 0; i < kBytes; ++i) ASSERT_EQ(Bytes(segment)[i], 0);
  Bytes(segment)[kBytes - 1] = 42;
  const SharedSegment second = SharedSegment::Private(kBytes);
  EXPECT_EQ(Bytes(second)[kBytes - 1], 0);
  const SharedSegment moved = std::move(segment);
  EXPECT_EQ(segment.data(), nullptr);
  EXPECT_EQ(Bytes(moved)[kBytes - 1], 42);
}

TEST(SharedSegment, TooMuchPrivateMemoryIsAnError) {
  const std::size_t bytes = std::size_t{1} << 62;
  EXPECT_EQ(ErrorOf([&] { SharedSegment::Private(bytes); }, std::to_string(bytes)),
            std::errc::not_enough_memory);
}

TEST(SharedSegment, ALimitOnFilesIsAnErrorThatNamesIt) {
  signal(SIGXFSZ, SIG_IGN);  // as Python does
  const rlimit limit{kBytes / 2, RLIM_INFINITY};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  EXPECT_EQ(ErrorOf([] { NewSegmentFile(kBytes); }, "ulimit -f"), std::errc::file_too_large);
}

// Like an old kernel, or a container's filter of system calls.
int WithoutMemfd(int error) {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_memfd_create, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned>(error)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{4, filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return 1;
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) return 2;
  try {
    NewSegmentFile(kBytes);
  } catch (const std::system_error& problem) {
    const bool says = std::string(problem.what()).find("memfd_create needs") != std::string::npos;
    return says && problem.code().value() == error ? 0 : 3;
  }
  return 4;
}

TEST(SharedSegment, NoMemfdIsAnErrorThatSaysSo) {
  EXPECT_EQ(Child([] { return WithoutMemfd(ENOSYS); }).Status(), 0);
  EXPECT_EQ(Child([] { return WithoutMemfd(EPERM); }).Status(), 0);
}

}  // namespace shared_segment_test
}  // namespace horovod_opt
