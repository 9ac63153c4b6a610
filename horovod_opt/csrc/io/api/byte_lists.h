// Lists of Python's bytes objects, to be filled in later without Python's lock.
#pragma once

#include <cstdint>

#include "horovod_opt/csrc/io/api/c_api.h"

namespace horovod_opt {
namespace io {

// A list of lists, the i-th of which has bytes objects of the sizes before ends[i]; where the bytes
// of each go comes to `places`. Null, with Python's exception set, if there is no memory. The caller
// holds Python's lock; nobody else has the objects, so that they may still be written.
void* NewByteLists(const HioPython& python, std::int64_t lists, const std::int64_t* ends,
                   const std::int64_t* sizes, std::int64_t* places);

}  // namespace io
}  // namespace horovod_opt
