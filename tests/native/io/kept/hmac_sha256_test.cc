// HMAC-SHA-256 against the vectors of FIPS 180-4's examples and RFC 4231.
#include "horovod_opt/csrc/io/kept/hmac_sha256.h"

#include <gtest/gtest.h>

#include <string>

namespace horovod_opt {
namespace io {
namespace hmac_test {

std::string Hex(const Digest& digest) {
  std::string text;
  for (const unsigned char byte : digest) {
    text += "0123456789abcdef"[byte / 16];
    text += "0123456789abcdef"[byte % 16];
  }
  return text;
}

TEST(Sha256Test, ExamplesOfTheStandard) {
  EXPECT_EQ(Hex(Sha256("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(Hex(Sha256("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(Hex(Sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),  // 56 bytes
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(Hex(Sha256(std::string(1000000, 'a'))),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(HmacSha256Test, VectorsOfRfc4231) {
  EXPECT_EQ(Hex(HmacSha256(std::string(20, '\x0b'), "Hi There")),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(Hex(HmacSha256("Jefe", "what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(Hex(HmacSha256(std::string(131, '\xaa'),
                           "Test Using Larger Than Block-Size Key - Hash Key First")),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST(HmacSha256Test, ADifferenceInAnyByteIsSeen) {
  const Digest tag = HmacSha256("key", "text");
  EXPECT_TRUE(AreEqual(tag, tag));
  for (std::size_t i = 0; i < tag.size(); ++i) {
    Digest other = tag;
    other[i] ^= 1;
    EXPECT_FALSE(AreEqual(tag, other));
  }
}

}  // namespace hmac_test
}  // namespace io
}  // namespace horovod_opt
