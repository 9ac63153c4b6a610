#include "horovod_opt/csrc/core/cores/affinity.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>

namespace horovod_opt {
namespace {

std::uint64_t Runtime() {
  std::array<std::uint64_t, 7> attributes{};
  EXPECT_EQ(syscall(SYS_sched_getattr, 0, attributes.data(), 48, 0), 0);
  return attributes[3];
}

TEST(ShortSlice, ChangesTheSliceAndNothingElse) {
  int major = 0, minor = 0;
  utsname name;
  ASSERT_EQ(uname(&name), 0);
  ASSERT_EQ(std::sscanf(name.release, "%d.%d", &major, &minor), 2);
  if (sched_getscheduler(0) != SCHED_OTHER) GTEST_SKIP() << "another scheduling policy";
  ASSERT_EQ(setpriority(PRIO_PROCESS, 0, 5), 0);
  AskForShortSlice();
  EXPECT_EQ(sched_getscheduler(0), SCHED_OTHER);
  EXPECT_EQ(getpriority(PRIO_PROCESS, 0), 5);
  if (major > 6 || (major == 6 && minor >= 12)) {
    EXPECT_EQ(Runtime(), 100000u);
  }
}

}  // namespace
}  // namespace horovod_opt
