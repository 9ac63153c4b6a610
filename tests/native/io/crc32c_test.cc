#include "horovod_opt/csrc/io/files/crc32c.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace horovod_opt {
namespace io {
namespace crc32c_test {

// RFC 3720, appendix B.4.
TEST(Crc32c, IsThatOfTheStandard) {
  std::string ascending;
  for (char c = 0; c < 32; ++c) ascending += c;
  for (const auto crc32c : {Crc32c, Crc32cByTables}) {
    EXPECT_EQ(crc32c(0, "", 0), 0u);
    EXPECT_EQ(crc32c(0, "123456789", 9), 0xe3069283u);
    EXPECT_EQ(crc32c(0, std::string(32, '\0').data(), 32), 0x8a9136aau);
    EXPECT_EQ(crc32c(0, std::string(32, '\xff').data(), 32), 0x62a8ab43u);
    EXPECT_EQ(crc32c(0, ascending.data(), 32), 0x46dd794eu);
  }
}

TEST(Crc32c, TablesAndInstructionAgreeAtAnyLengthAndAlignment) {
  std::mt19937 random(1);
  std::vector<char> bytes(8000);  // several turns of all lanes, and what is left
  for (char& byte : bytes) byte = static_cast<char>(random());
  for (std::size_t begin = 0; begin < 9; ++begin) {
    for (std::size_t length = 0; begin + length < bytes.size(); length += length < 200 ? 1 : 7) {
      ASSERT_EQ(Crc32c(7, bytes.data() + begin, length),
                Crc32cByTables(7, bytes.data() + begin, length));
    }
  }
}

TEST(Crc32c, GoesOnWhereItEnded) {
  const std::string text = "every sample exactly once";
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    EXPECT_EQ(Crc32c(Crc32c(0, text.data(), cut), text.data() + cut, text.size() - cut),
              Crc32c(0, text.data(), text.size()));
  }
}

}  // namespace crc32c_test
}  // namespace io
}  // namespace horovod_opt
