// What programs write below the folder: files of another one, which get their names when they are
// complete. horovod_opt/io/overlay/outputs.py says by which rules.
#pragma once

#include <sys/stat.h>

#include "horovod_opt/csrc/io/overlay/paths.h"
#include "horovod_opt/csrc/io/overlay/session.h"
#include "horovod_opt/csrc/io/overlay/store_connection.h"

namespace horovod_opt {
namespace io {

constexpr char kOutputDraft[] = ".horovod-opt-draft-";  // where a file must have a name

// The table's folders, in the outputs' folder, that the path leads through. False, and errno.
bool MakePackedFolders(const FileTable& table, const PassedPath* path);

// Whether open() makes a file that gets its name later; then `fd` is what open() returns, with
// errno. All else is the kernel's.
bool TakeOutput(FileSession& session, const PassedPath* path, int flags, mode_t mode, int* fd);

// Of a file without a name, which this process has made under the path, a descriptor; -1: of none.
int DescriptorOfDraft(const PassedPath* path);

// Around what closes a descriptor. Does nothing where that is of no output.
class OutputClose {
 public:
  // From now on the store has the file open, too.
  explicit OutputClose(int fd);

  // The descriptor is closed. `is_well`: all that was written is in the file. If it was the last
  // one the file has its name now; false, and errno: it could not get it.
  bool Done(bool is_well);

  bool is_output() const { return is_output_; }

 private:
  FileSession* session_;
  StoreConnection connection_;
  bool is_output_;
  unsigned long inode_ = 0;
  int error_ = 0;
};

// Behind the end of a mapping. Returns when a file that was complete with it has its name.
void SettleMapped();

// All that this process has open: it ends by itself.
void CloseOutputs();

}  // namespace io
}  // namespace horovod_opt
