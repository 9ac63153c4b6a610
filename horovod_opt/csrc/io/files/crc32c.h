// CRC-32C (Castagnoli, DOI 10.1109/26.231911), the checksum of TFRecord and of the index: with the
// processor's instruction where it has one, else by tables.
#pragma once

#include <cstddef>
#include <cstdint>

namespace horovod_opt {
namespace io {

// The checksum of what `crc` is of, followed by these bytes. `crc` is 0 at the start.
std::uint32_t Crc32c(std::uint32_t crc, const void* data, std::size_t bytes);

// The same by tables, on every processor.
std::uint32_t Crc32cByTables(std::uint32_t crc, const void* data, std::size_t bytes);

}  // namespace io
}  // namespace horovod_opt
