// Which file of the table a path means. Only what the kernel would find the same way counts as in
// the table: `..` and links before the folder are the kernel's, and inside there are no links.
#pragma once

#include <cstdint>

#include "horovod_opt/csrc/io/overlay/file_table.h"

namespace horovod_opt {
namespace io {

struct Resolved {
  enum Kind { kElsewhere, kFile, kError };
  Kind kind = kElsewhere;
  std::uint32_t number = 0;    // of kFile
  int error = 0;               // of kError: ENOENT, ENOTDIR
  bool could_be_made = false;  // of ENOENT: the folder that it would be in is there
};

// `path` as openat() takes it. `folder`: the number of what `dirfd` is, -1 where it is not of the
// table; not asked for absolute paths and AT_FDCWD.
Resolved Resolve(const FileTable& table, int dirfd, const char* path,
                 std::int64_t (*folder_of)(int dirfd));

}  // namespace io
}  // namespace horovod_opt
