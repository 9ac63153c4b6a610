// Which file of the table a path means. Only what the kernel would find the same way counts as in
// the table: `..` and links before the folder are the kernel's, and inside there are no links.
#pragma once

#include <limits.h>

#include <cstddef>
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

// A path, as a program gives it and as the kernel gets it. They differ for what programs write:
// that is below another folder, the outputs'.
struct PassedPath {
  explicit PassedPath(const char* given) : text(given) {}

  const char* text;
  bool is_output = false;
  std::size_t packed = 0;  // of an output: up to here its folders are the table's
  char moved[PATH_MAX];    // not initialized: this is made for every call
};

// `path` as openat() takes it; changed to the path of the outputs if it is of those: elsewhere
// then. `folder_of`: the number of what `dirfd` is, -1 where it is not of the table; not asked for
// absolute paths, and for AT_FDCWD only if that has no path.
Resolved Resolve(const FileTable& table, int dirfd, PassedPath* path,
                 std::int64_t (*folder_of)(int dirfd));

}  // namespace io
}  // namespace horovod_opt
