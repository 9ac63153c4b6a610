// memcpy guarded against SIGBUS: copies out of a mapped file, which may be truncated at any time.
#pragma once

#include <cstdint>

namespace horovod_opt {
namespace io {

// False where the file ends before its mapping does, or storage fails: SIGBUS, which would end the
// process. Its handler is set by the first call; for what is not a copy of this kind, it calls the
// one that was there before. A handler that is set later takes its place.
bool CopyGuarded(char* to, const char* from, std::int64_t bytes);

}  // namespace io
}  // namespace horovod_opt
