// How much of a file the kernel asks its storage for at a time.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace horovod_opt {
namespace io {

// Bytes of a request for a file that is not on a block device of this machine: the kernel then asks
// for `read_ahead_kb` of its file system, 128 KiB by default, and waits for the answer, however
// much a pread(2) wants. NFS and FUSE say so under `folder`. 0: nothing does, or the device is one
// of this machine, whose requests may be larger.
std::int64_t RequestBytes(dev_t device, const std::string& folder = "/sys/class/bdi");

}  // namespace io
}  // namespace horovod_opt
