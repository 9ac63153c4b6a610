#include "horovod_opt/csrc/core/base/json_text.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <string>

namespace horovod_opt {
namespace json_text_test {

// What a JSON reader makes of the inside of a string, with bytes of escaped characters as such; it
// fails for what JSON does not allow.
std::string Read(const std::string& json) {
  std::string text;
  for (std::size_t at = 0; at < json.size();) {
    const unsigned char letter = static_cast<unsigned char>(json[at]);
    EXPECT_GE(letter, 0x20) << json;
    EXPECT_NE(letter, '"') << json;
    if (letter != '\\') {
      const std::size_t bytes = Utf8Bytes(json, at);
      EXPECT_GT(bytes, 0u) << json;
      if (bytes == 0) return text;
      text.append(json, at, bytes);
      at += bytes;
    } else if (json[at + 1] == 'u') {
      text += static_cast<char>(std::strtol(json.substr(at + 2, 4).c_str(), nullptr, 16));
      at += 6;
    } else {
      EXPECT_TRUE(json[at + 1] == '"' || json[at + 1] == '\\') << json;
      text += json[at + 1];
      at += 2;
    }
  }
  return text;
}

TEST(JsonText, EveryByteBesideEveryOther) {
  for (int first = 0; first < 256; ++first) {
    for (int second = 0; second < 256; ++second) {
      const std::string text{static_cast<char>(first), static_cast<char>(second), 'x'};
      ASSERT_EQ(Read(JsonText(text)), text) << first << ' ' << second;
    }
  }
}

TEST(JsonText, RandomBytes) {
  std::mt19937 random(1);
  for (int turn = 0; turn < 2000; ++turn) {
    std::string text;
    for (int i = 0; i < 12; ++i) {
      text += static_cast<char>(random() % 4 ? random() | 0x80 : random());
    }
    ASSERT_EQ(Read(JsonText(text)), text) << turn;
  }
}

TEST(JsonText, CharactersOfUtf8Stay) {
  const std::string text = "\xc3\xbc\xe2\x86\x92\xf0\x9f\x9a\x80\xed\x9f\xbf\xf4\x8f\xbf\xbf a/b";
  EXPECT_EQ(JsonText(text), text);
}

TEST(JsonText, IsEscapedOnlyWhereItHasToBe) {
  EXPECT_EQ(JsonText("a\"b\\c\n\x1f\x7f"), "a\\\"b\\\\c\\u000a\\u001f\x7f");
  EXPECT_EQ(JsonText(""), "");
}

TEST(JsonText, WhatIsNoUtf8) {
  EXPECT_EQ(JsonText("\xff"), "\\u00ff");
  EXPECT_EQ(JsonText("\xc0\xaf"), "\\u00c0\\u00af");             // longer than it has to be
  EXPECT_EQ(JsonText("\xed\xa0\x80"), "\\u00ed\\u00a0\\u0080");  // a surrogate
  EXPECT_EQ(JsonText("\xf4\x90\x80\x80"), "\\u00f4\\u0090\\u0080\\u0080");  // past the last
  EXPECT_EQ(JsonText("\xe2\x86"), "\\u00e2\\u0086");                        // cut short
}

}  // namespace json_text_test
}  // namespace horovod_opt
