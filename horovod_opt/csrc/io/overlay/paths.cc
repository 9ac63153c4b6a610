#include "horovod_opt/csrc/io/overlay/paths.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <string_view>

namespace horovod_opt {
namespace io {
namespace {

// Goes along a path, component by component: first along `root`, then in the table, then below the
// folder of outputs.
class Walk {
 public:
  Walk(const FileTable& table, std::string_view root, PassedPath* path)
      : table_(table), root_(root), left_(root), path_(path) {}
  Walk(const FileTable& table, std::uint32_t folder, PassedPath* path)
      : table_(table), root_(table.Root(0)), path_(path), is_inside_(true) {
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
      if (output_size_ > 0) {
        if (!Outside(name) || (path == "/" && !Append(""))) return false;
        continue;
      }
      if (!(is_inside_ ? Inside(name, path) : Before(name))) return false;
      if (result_.kind == Resolved::kFile && !path.empty() && !table_.IsFolder(result_.number)) {
        return Fail(ENOTDIR);
      }
    }
    return true;
  }

  const Resolved& result() const { return result_; }

  // What is passed on if this is an output's path.
  void Move() {
    if (output_size_ == 0) return;
    path_->moved[output_size_] = '\0';
    path_->text = path_->moved;
    path_->is_output = true;
  }

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
      if (*table_.OutputsPath() != '\0') return Leave(name) && (behind != "/" || Append(""));
      Fail(ENOENT);
      result_.could_be_made = behind.find_first_not_of('/') == std::string_view::npos;
      return false;
    }
    result_.number = static_cast<std::uint32_t>(found);
    return true;
  }

  // From the table's folder to what programs have written there.
  bool Leave(std::string_view name) {
    const std::string_view outputs = table_.OutputsPath();
    const std::size_t room = sizeof path_->moved - outputs.size();
    const std::size_t inside =
        table_.PathOf(result_.number, path_->moved + outputs.size(), room);
    if (inside > room) return Fail(ENAMETOOLONG);
    memcpy(path_->moved, outputs.data(), outputs.size());
    output_size_ = path_->packed = outputs.size() + inside;
    folder_ = result_.number;
    result_ = Resolved();
    return Append(name);
  }

  // Links there are the kernel's: `..` is taken back only where what is before it is none.
  bool Outside(std::string_view name) {
    if (name.size() > NAME_MAX) return Fail(ENAMETOOLONG);
    if (name != "..") return Append(name);
    path_->moved[output_size_] = '\0';
    struct stat status;
    if (syscall(SYS_newfstatat, AT_FDCWD, path_->moved, &status, AT_SYMLINK_NOFOLLOW) < 0) {
      return Fail(errno);
    }
    if (S_ISLNK(status.st_mode)) return Append(name);
    if (!S_ISDIR(status.st_mode)) return Fail(ENOTDIR);
    while (path_->moved[--output_size_] != '/') {
    }
    if (output_size_ == path_->packed) {
      output_size_ = 0;
      result_.kind = Resolved::kFile;
      result_.number = folder_;
    }
    return true;
  }

  bool Append(std::string_view name) {
    if (output_size_ + 1 + name.size() >= sizeof path_->moved) return Fail(ENAMETOOLONG);
    path_->moved[output_size_] = '/';
    memcpy(path_->moved + output_size_ + 1, name.data(), name.size());
    output_size_ += 1 + name.size();
    return true;
  }

  bool Fail(int error) {
    output_size_ = 0;
    result_ = Resolved();
    result_.kind = Resolved::kError;
    result_.error = error;
    return false;
  }

  const FileTable& table_;
  std::string_view root_;
  std::string_view left_;
  PassedPath* path_;
  bool is_inside_ = false;
  std::size_t output_size_ = 0;  // of path_->moved; 0: not below the outputs
  std::uint32_t folder_ = 0;     // where the table was left
  Resolved result_;
};

}  // namespace

Resolved Resolve(const FileTable& table, int dirfd, PassedPath* passed,
                 std::int64_t (*folder_of)(int dirfd)) {
  const char* path = passed->text;
  if (path == nullptr || *path == '\0') return {};
  char here[PATH_MAX];
  // What is outside of the process' root begins with "("; what was removed has no path.
  const bool is_here = *path == '/' || (dirfd == AT_FDCWD &&
                                        syscall(SYS_getcwd, here, sizeof here) > 0);
  if (!is_here) {
    const std::int64_t folder = folder_of(dirfd);
    if (folder < 0) return {};
    if (!table.IsFolder(static_cast<std::uint32_t>(folder))) return {Resolved::kError, 0, ENOTDIR};
    Walk walk(table, static_cast<std::uint32_t>(folder), passed);
    walk.Along(path);
    walk.Move();
    return walk.result();
  }
  if (*path != '/' && *here != '/') return {};
  for (std::uint32_t root = 0; root < table.header().roots; ++root) {
    Walk walk(table, table.Root(root), passed);
    if (*path == '/' || walk.Along(here)) walk.Along(path);
    walk.Move();
    if (passed->is_output || walk.result().kind != Resolved::kElsewhere) return walk.result();
  }
  return {};
}

}  // namespace io
}  // namespace horovod_opt
