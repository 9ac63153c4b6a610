#include "horovod_opt/csrc/core/agreement/settings_agreement.h"

#include <gtest/gtest.h>

namespace horovod_opt {
namespace settings_agreement_test {

const std::string kGs = "HOROVOD_OPT_MODE=gs\nHOROVOD_OPT_GS_INTERVAL=1\n";
const std::string kGs10 = "HOROVOD_OPT_MODE=gs\nHOROVOD_OPT_GS_INTERVAL=10\n";
const std::string kNbcs10 = "HOROVOD_OPT_MODE=nbcs\nHOROVOD_OPT_GS_INTERVAL=10\n";
const std::string kRemedy =
    "Set the same value on every rank; horovodrun passes the environment of the shell it is "
    "launched from.";

TEST(SettingsDisagreement, NoneIfAllAreEqual) {
  EXPECT_EQ(SettingsDisagreement({}), "");
  EXPECT_EQ(SettingsDisagreement({kGs}), "");
  EXPECT_EQ(SettingsDisagreement({kGs, kGs, kGs}), "");
}

TEST(SettingsDisagreement, NamesSettingValuesAndRanks) {
  EXPECT_EQ(SettingsDisagreement({kGs, kGs10, kGs, kGs, kGs, kGs}),
            "The ranks disagree: HOROVOD_OPT_GS_INTERVAL=1 on ranks 0, 2-5; "
            "HOROVOD_OPT_GS_INTERVAL=10 on rank 1.\n" +
                kRemedy);
}

TEST(SettingsDisagreement, AnotherBuildHasARemedyOfItsOwn) {
  const std::string remedy =
      "Install the same build of horovod-opt on every node: layouts of memory and plans depend on "
      "it.";
  EXPECT_EQ(SettingsDisagreement(
                {"A=1\nhorovod-opt=1.0 of sources 12\n", "A=1\nhorovod-opt=1.0 of sources 34\n"}),
            "The ranks disagree: horovod-opt=1.0 of sources 12 on rank 0; horovod-opt=1.0 of "
            "sources 34 on rank 1.\n" +
                remedy);
  EXPECT_EQ(SettingsDisagreement({"A=1\nB=1\nhorovod-opt=x\n", "A=2\nB=2\nhorovod-opt=y\n"}),
            "The ranks disagree: A=1 on rank 0; A=2 on rank 1.\n"
            "The ranks disagree: B=1 on rank 0; B=2 on rank 1.\n"
            "The ranks disagree: horovod-opt=x on rank 0; horovod-opt=y on rank 1.\n" +
                kRemedy + "\n" + remedy);
}

TEST(SettingsDisagreement, NamesEverySettingThatDiffers) {
  EXPECT_EQ(SettingsDisagreement({kGs, kGs10, kNbcs10}),
            "The ranks disagree: HOROVOD_OPT_MODE=gs on ranks 0-1; HOROVOD_OPT_MODE=nbcs on rank "
            "2.\n"
            "The ranks disagree: HOROVOD_OPT_GS_INTERVAL=1 on rank 0; HOROVOD_OPT_GS_INTERVAL=10 "
            "on "
            "ranks 1-2.\n" +
                kRemedy);
}

TEST(SettingsDisagreement, SettingThatOneRankDoesNotKnow) {
  EXPECT_EQ(SettingsDisagreement({kGs, "HOROVOD_OPT_MODE=gs\n"}),
            "The ranks disagree: HOROVOD_OPT_GS_INTERVAL=1 on rank 0; HOROVOD_OPT_GS_INTERVAL is "
            "unknown on rank 1.\n" +
                kRemedy);
}

TEST(SettingsDisagreement, EmptyValueIsAValue) {
  EXPECT_EQ(SettingsDisagreement({"A=\n", "A=x=y\n"}),
            "The ranks disagree: A= on rank 0; A=x=y on rank 1.\n" + kRemedy);
}

TEST(SettingsDisagreement, SameErrorEverywhereIsSaidOnce) {
  EXPECT_EQ(SettingsDisagreement({"error\nbad mode", "error\nbad mode"}), "bad mode");
  EXPECT_EQ(SettingsDisagreement({"error\nbad mode"}), "bad mode");
}

TEST(SettingsDisagreement, ErrorOnSomeRanksReachesAll) {
  EXPECT_EQ(SettingsDisagreement({kGs, "error\nbad mode", kGs10, "error\nbad mode"}),
            "On ranks 1, 3: bad mode\n" + kRemedy);
}

TEST(SettingsDisagreement, DifferentErrors) {
  EXPECT_EQ(
      SettingsDisagreement({"error\nbad mode", "error\nbad interval\nuse 1", "error\nbad mode"}),
      "On ranks 0, 2: bad mode\nOn rank 1: bad interval\nuse 1\n" + kRemedy);
}

}  // namespace settings_agreement_test
}  // namespace horovod_opt
