// What the system has of a file in memory already.
#pragma once

#include <cstdint>

namespace horovod_opt {
namespace io {

// Whether bytes of a file seem to be in the page cache: one in every 64 KiB is asked for, and none is
// waited for. False where the file system cannot tell, as that of many networks.
//
// Not by mincore(2): that says yes to whoever may not write the file.
bool IsCached(int file, std::int64_t offset, std::int64_t bytes);

// Reads them, if all are there: nothing is waited for. Else false, and `to` is undefined.
bool ReadCached(int file, char* to, std::int64_t bytes, std::int64_t offset);

}  // namespace io
}  // namespace horovod_opt
