// Texts of other people's making in JSON: a tensor is called whatever its script calls it.
#pragma once

#include <cstddef>
#include <string>

namespace horovod_opt {

// Bytes of the character of UTF-8 that begins at `at`; 0: none does.
inline std::size_t Utf8Bytes(const std::string& text, std::size_t at) {
  const auto byte = [&](std::size_t i) -> unsigned {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0;
  };
  const unsigned first = byte(at);
  if (first < 0x80) return 1;
  if (first < 0xc2 || first > 0xf4) return 0;
  // The second byte tells what is longer than it has to be, a surrogate, or no character of
  // Unicode.
  const unsigned least = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
  const unsigned most = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
  if (byte(at + 1) < least || byte(at + 1) > most) return 0;
  const std::size_t bytes = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  for (std::size_t i = 2; i < bytes; ++i) {
    if ((byte(at + i) & 0xc0) != 0x80) return 0;
  }
  return bytes;
}

// What stands for `text` between the quotes of a JSON string. A byte that is no UTF-8 stands for
// the character of its number, as in Latin-1.
inline std::string JsonText(const std::string& text) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string json;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t bytes = Utf8Bytes(text, at);
    const unsigned char first = static_cast<unsigned char>(text[at]);
    if (bytes == 0 || first < 0x20) {
      json += "\\u00";
      json += kDigits[first >> 4];
      json += kDigits[first & 15];
      ++at;
      continue;
    }
    if (first == '"' || first == '\\') json += '\\';
    json.append(text, at, bytes);
    at += bytes;
  }
  return json;
}

}  // namespace horovod_opt
