#include "horovod_opt/csrc/core/waiting/spin_history.h"

#include <gtest/gtest.h>

namespace horovod_opt {
namespace spin_history_test {

// Waits until it spins again.
int WithoutSpin(SpinHistory& history) {
  int waits = 0;
  while (!history.Pays()) ++waits;
  return waits;
}

TEST(SpinHistory, SpinsAsLongAsThatIsNotInVain) {
  SpinHistory history;
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(history.Pays());
    history.Note(false);
  }
}

TEST(SpinHistory, SpinsLessAndLessOftenInVain) {
  SpinHistory history;
  for (const int waits : {1, 3, 7, 15, 31, 63, 127, 127, 127}) {
    ASSERT_TRUE(history.Pays());
    history.Note(true);
    ASSERT_EQ(WithoutSpin(history), waits);
  }
}

TEST(SpinHistory, OneThatWasNotInVainMakesUpForAll) {
  SpinHistory history;
  for (int i = 0; i < 9; ++i) history.Note(true);
  history.Note(false);
  EXPECT_EQ(WithoutSpin(history), 0);
  history.Note(true);
  EXPECT_EQ(WithoutSpin(history), 1);
}

}  // namespace spin_history_test
}  // namespace horovod_opt
