// What can be said of a record, or of a range of bytes.
#pragma once

#include <cstdint>

namespace horovod_opt {
namespace io {

// Positive: the errno with which it could not be read.
using Status = std::int32_t;
constexpr Status kGood = 0;
constexpr Status kChecksum = -1;   // its bytes are others than those that were indexed
constexpr Status kTruncated = -2;  // its file ends before it does
constexpr Status kChanged = -3;    // its file has another size or mtime than when it was indexed

}  // namespace io
}  // namespace horovod_opt
