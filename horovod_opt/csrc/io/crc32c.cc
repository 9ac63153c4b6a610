#include "horovod_opt/csrc/io/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

namespace horovod_opt {
namespace io {
namespace {

constexpr std::uint32_t kPolynomial = 0x82f63b78;  // reversed
constexpr std::size_t kWord = 8;                   // bytes that a turn of a loop takes

using Tables = std::array<std::array<std::uint32_t, 256>, kWord>;

// tables[k][b]: what byte b adds to the checksum of k more bytes ("slicing by 8", Kounavis and
// Berry 2008, DOI 10.1109/TC.2008.85).
constexpr Tables MakeTables() {
  Tables tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? kPolynomial : 0);
    tables[0][byte] = crc;
  }
  for (std::size_t k = 1; k < kWord; ++k) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t before = tables[k - 1][byte];
      tables[k][byte] = before >> 8 ^ tables[0][before & 255];
    }
  }
  return tables;
}

constexpr Tables kTables = MakeTables();

using Update = std::uint32_t (*)(std::uint32_t, const unsigned char*, std::size_t);

std::uint32_t ByTables(std::uint32_t crc, const unsigned char* data, std::size_t bytes) {
  for (; bytes >= kWord; data += kWord, bytes -= kWord) {
    std::uint32_t next = 0;
    for (std::size_t i = 0; i < kWord; ++i) {
      const unsigned char byte =
          i < sizeof(crc) ? static_cast<unsigned char>(data[i] ^ crc >> 8 * i) : data[i];
      next ^= kTables[kWord - 1 - i][byte];
    }
    crc = next;
  }
  for (; bytes > 0; ++data, --bytes) crc = crc >> 8 ^ kTables[0][(crc ^ *data) & 255];
  return crc;
}

#if defined(__x86_64__)

__attribute__((target("sse4.2"))) std::uint32_t ByInstruction(std::uint32_t crc,
                                                              const unsigned char* data,
                                                              std::size_t bytes) {
  std::uint64_t wide = crc;
  for (; bytes >= kWord; data += kWord, bytes -= kWord) {
    std::uint64_t word;
    std::memcpy(&word, data, kWord);
    wide = _mm_crc32_u64(wide, word);
  }
  crc = static_cast<std::uint32_t>(wide);
  for (; bytes > 0; ++data, --bytes) crc = _mm_crc32_u8(crc, *data);
  return crc;
}

Update Best() { return __builtin_cpu_supports("sse4.2") ? ByInstruction : ByTables; }

#elif defined(__aarch64__) && defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__

__attribute__((target("+crc"))) std::uint32_t ByInstruction(std::uint32_t crc,
                                                            const unsigned char* data,
                                                            std::size_t bytes) {
  for (; bytes >= kWord; data += kWord, bytes -= kWord) {
    std::uint64_t word;
    std::memcpy(&word, data, kWord);
    crc = __builtin_aarch64_crc32cx(crc, word);
  }
  for (; bytes > 0; ++data, --bytes) crc = __builtin_aarch64_crc32cb(crc, *data);
  return crc;
}

Update Best() {
  constexpr unsigned long kHasCrc32 = 1 << 7;  // HWCAP_CRC32
  return getauxval(AT_HWCAP) & kHasCrc32 ? ByInstruction : ByTables;
}

#else

Update Best() { return ByTables; }

#endif

}  // namespace

std::uint32_t Crc32c(std::uint32_t crc, const void* data, std::size_t bytes) {
  static const Update update = Best();
  return ~update(~crc, static_cast<const unsigned char*>(data), bytes);
}

std::uint32_t Crc32cByTables(std::uint32_t crc, const void* data, std::size_t bytes) {
  return ~ByTables(~crc, static_cast<const unsigned char*>(data), bytes);
}

}  // namespace io
}  // namespace horovod_opt
