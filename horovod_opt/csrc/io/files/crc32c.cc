#include "horovod_opt/csrc/io/files/crc32c.h"

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
#define HOROVOD_OPT_CRC_TARGET __attribute__((target("sse4.2")))

HOROVOD_OPT_CRC_TARGET inline std::uint32_t AddByte(std::uint32_t crc, unsigned char byte) {
  return _mm_crc32_u8(crc, byte);
}

using Lane = std::uint64_t;  // the checksum of one, as the instruction takes it

HOROVOD_OPT_CRC_TARGET inline Lane AddWord(Lane crc, std::uint64_t word) {
  return _mm_crc32_u64(crc, word);
}

bool HasInstruction() { return __builtin_cpu_supports("sse4.2"); }

#elif defined(__aarch64__) && defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define HOROVOD_OPT_CRC_TARGET __attribute__((target("+crc")))

HOROVOD_OPT_CRC_TARGET inline std::uint32_t AddByte(std::uint32_t crc, unsigned char byte) {
  return __builtin_aarch64_crc32cb(crc, byte);
}

using Lane = std::uint32_t;

HOROVOD_OPT_CRC_TARGET inline Lane AddWord(Lane crc, std::uint64_t word) {
  return __builtin_aarch64_crc32cx(crc, word);
}

bool HasInstruction() {
  constexpr unsigned long kHasCrc32 = 1 << 7;  // HWCAP_CRC32
  return getauxval(AT_HWCAP) & kHasCrc32;
}

#endif

#ifdef HOROVOD_OPT_CRC_TARGET

// The instruction takes three cycles, and one can begin in each: three lanes of neighbouring bytes
// go side by side (Gopal et al., "Fast CRC Computation for iSCSI Polynomial Using CRC32
// Instruction", Intel 323405, 2011). A checksum is linear, so that of lanes one after the other is
// that of the first, moved on by as many zeros as the others have bytes, xor that of the others.
constexpr std::size_t kLongLane = 1024, kShortLane = 256;  // bytes

using Zeros = std::array<std::array<std::uint32_t, 256>, 4>;

// zeros[k][b]: what a checksum whose byte k is b, and whose others are 0, becomes by that many
// zeros.
constexpr Zeros MakeZeros(std::size_t bytes) {
  Zeros zeros{};
  for (std::size_t bit = 0; bit < 32; ++bit) {
    std::uint32_t crc = std::uint32_t{1} << bit;
    for (std::size_t i = 0; i < bytes; ++i) crc = crc >> 8 ^ kTables[0][crc & 255];
    for (std::size_t byte = 0; byte < 256; ++byte) {
      if (byte >> bit % 8 & 1) zeros[bit / 8][byte] ^= crc;
    }
  }
  return zeros;
}

template <std::size_t kLane>
constexpr Zeros kZeros = MakeZeros(kLane);

template <std::size_t kLane>
Lane AfterALane(Lane crc) {
  const Zeros& zeros = kZeros<kLane>;
  return zeros[0][crc & 255] ^ zeros[1][crc >> 8 & 255] ^ zeros[2][crc >> 16 & 255] ^
         zeros[3][crc >> 24 & 255];
}

inline std::uint64_t WordAt(const unsigned char* data) {
  std::uint64_t word;
  std::memcpy(&word, data, kWord);
  return word;
}

// Takes as many bytes as three lanes have, as often as there are so many.
template <std::size_t kLane>
HOROVOD_OPT_CRC_TARGET Lane ByLanes(Lane crc, const unsigned char*& data, std::size_t& bytes) {
  for (; bytes >= 3 * kLane; data += 3 * kLane, bytes -= 3 * kLane) {
    Lane second = 0, third = 0;
    for (std::size_t i = 0; i < kLane; i += kWord) {
      crc = AddWord(crc, WordAt(data + i));
      second = AddWord(second, WordAt(data + kLane + i));
      third = AddWord(third, WordAt(data + 2 * kLane + i));
    }
    crc = AfterALane<kLane>(AfterALane<kLane>(crc) ^ second) ^ third;
  }
  return crc;
}

HOROVOD_OPT_CRC_TARGET std::uint32_t ByInstruction(std::uint32_t crc, const unsigned char* data,
                                                   std::size_t bytes) {
  Lane lane = ByLanes<kLongLane>(crc, data, bytes);
  lane = ByLanes<kShortLane>(lane, data, bytes);
  for (; bytes >= kWord; data += kWord, bytes -= kWord) lane = AddWord(lane, WordAt(data));
  crc = static_cast<std::uint32_t>(lane);
  for (; bytes > 0; ++data, --bytes) crc = AddByte(crc, *data);
  return crc;
}

Update Best() { return HasInstruction() ? ByInstruction : ByTables; }

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
