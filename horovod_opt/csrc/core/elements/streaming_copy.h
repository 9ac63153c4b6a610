// Non-temporal stores: a copy that neither reads the lines it overwrites nor keeps them in the
// caches, for memory that nobody reads soon.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace horovod_opt {

// As std::memcpy, which it is where the processor has no such stores, and for a few bytes. Other
// threads see it as they see any store.
inline void StreamingCopy(char* to, const char* from, std::size_t bytes) {
#if defined(__SSE2__)
  constexpr std::size_t kLine = 64, kLeast = 4096;
  if (bytes >= kLeast) {
    const std::size_t head = (kLine - reinterpret_cast<std::uintptr_t>(to) % kLine) % kLine;
    std::memcpy(to, from, head);
    std::size_t at = head;
    for (; at + kLine <= bytes; at += kLine) {
      __m128i line[4];  // whole, or its bytes go to memory in pieces
      for (int i = 0; i < 4; ++i) {
        line[i] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + at) + i);
      }
      for (int i = 0; i < 4; ++i) {
        _mm_stream_si128(reinterpret_cast<__m128i*>(to + at) + i, line[i]);
      }
    }
    std::memcpy(to + at, from + at, bytes - at);
    _mm_sfence();  // these stores alone may come after later ones
    return;
  }
#endif
  std::memcpy(to, from, bytes);
}

}  // namespace horovod_opt
