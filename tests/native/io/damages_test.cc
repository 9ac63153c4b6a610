#include "horovod_opt/csrc/io/files/damages.h"

#include <errno.h>
#include <gtest/gtest.h>

namespace horovod_opt {
namespace io {
namespace {

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

}  // namespace
}  // namespace io
}  // namespace horovod_opt
