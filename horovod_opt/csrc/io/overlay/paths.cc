#include "horovod_opt/csrc/io/overlay/paths.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <string_view>

namespace horovod_opt {
namespace io {
namespace {

// Goes along a path, component by component: first along `root`, then in the table.
class Walk {
 public:
  Walk(const FileTable& table, std::string_view root) : table_(table), root_(root), left_(root) {}
  Walk(const FileTable& table, std::uint32_t folder)
      : table_(table), root_(table.Root(0)), is_inside_(true) {
    result_.kind = Resolved::kFile;
    result_.number = folder;
  }

  // False: the path leads elsewhere, or to an error, whatever follows.
  bool Along(std::string_view path) {
    while (!path.empty()) {
      if (path.front() == '/') {
        path.remove_prefix(1);
        continue;
      }
      const std::string_view name = path.substr(0, path.find('/'));
      path.remove_prefix(name.size());
      if (!(is_inside_ ? Inside(name, path) : Before(name))) return false;
      if (is_inside_ && !path.empty() && !table_.IsFolder(result_.number)) return Fail(ENOTDIR);
    }
    return true;
  }

  const Resolved& result() const { return result_; }

 private:
  bool Before(std::string_view name) {
    if (name == ".") return true;
    while (!left_.empty() && left_.front() == '/') left_.remove_prefix(1);
    const std::string_view next = left_.substr(0, left_.find('/'));
    if (name != next) return false;
    left_.remove_prefix(next.size());
    if (left_.empty()) {
      is_inside_ = true;
      result_.kind = Resolved::kFile;
    }
    return true;
  }

  bool Inside(std::string_view name, std::string_view behind) {
    if (name == ".") return true;
    if (name == "..") {
      if (result_.number == 0) {
        // Elsewhere, unless it comes back.
        result_ = Resolved();
        is_inside_ = false;
        left_ = root_.substr(root_.rfind('/'));
        return true;
      }
      result_.number = table_[result_.number].parent;
      return true;
    }
    if (name.size() > NAME_MAX) return Fail(ENAMETOOLONG);
    const std::int64_t found = table_.Find(result_.number, name);
    if (found < 0) {
      Fail(ENOENT);
      result_.could_be_made = behind.find_first_not_of('/') == std::string_view::npos;
      return false;
    }
    result_.number = static_cast<std::uint32_t>(found);
    return true;
  }

  bool Fail(int error) {
    result_ = Resolved();
    result_.kind = Resolved::kError;
    result_.error = error;
    return false;
  }

  const FileTable& table_;
  std::string_view root_;
  std::string_view left_;
  bool is_inside_ = false;
  Resolved result_;
};

}  // namespace

Resolved Resolve(const FileTable& table, int dirfd, const char* path,
                 std::int64_t (*folder_of)(int dirfd)) {
  if (path == nullptr || *path == '\0') return {};
  if (*path != '/' && dirfd != AT_FDCWD) {
    const std::int64_t folder = folder_of(dirfd);
    if (folder < 0) return {};
    if (!table.IsFolder(static_cast<std::uint32_t>(folder))) return {Resolved::kError, 0, ENOTDIR};
    Walk walk(table, static_cast<std::uint32_t>(folder));
    walk.Along(path);
    return walk.result();
  }
  char here[PATH_MAX];
  if (*path != '/') {
    // What is outside of the process' root begins with "(".
    if (syscall(SYS_getcwd, here, sizeof here) < 0 || *here != '/') return {};
  }
  for (std::uint32_t root = 0; root < table.header().roots; ++root) {
    Walk walk(table, table.Root(root));
    if (*path == '/' || walk.Along(here)) walk.Along(path);
    if (walk.result().kind != Resolved::kElsewhere) return walk.result();
  }
  return {};
}

}  // namespace io
}  // namespace horovod_opt
