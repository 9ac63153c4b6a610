// FNV-1a, 64 bits: equal on every machine, unlike std::hash.
#pragma once

#include <cstdint>
#include <string>

namespace horovod_opt {

inline std::uint64_t Hash(const std::string& text) {
  std::uint64_t hash = 14695981039346656037ull;
  for (unsigned char c : text) hash = (hash ^ c) * 1099511628211ull;
  return hash;
}

}  // namespace horovod_opt
