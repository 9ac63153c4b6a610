#include "horovod_opt/csrc/io/overlay/file_table.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace horovod_opt {
namespace io {

const FileTable* FileTable::Map(const char* path) {
  const long fd = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return nullptr;
  const off_t bytes = lseek(static_cast<int>(fd), 0, SEEK_END);
  void* memory = MAP_FAILED;
  if (bytes >= static_cast<off_t>(sizeof(FileTableHeader))) {
    memory = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, static_cast<int>(fd), 0);
  }
  syscall(SYS_close, static_cast<int>(fd));
  if (memory == MAP_FAILED) return nullptr;
  const auto* table = static_cast<const FileTable*>(memory);
  if (memcmp(table->header().magic, kFileTableMagic, sizeof kFileTableMagic) != 0 ||
      table->header().bytes != static_cast<std::uint64_t>(bytes)) {
    munmap(memory, bytes);
    errno = EPROTO;
    return nullptr;
  }
  return table;
}

std::string_view FileTable::Name(std::uint32_t number) const {
  const FileEntry& entry = (*this)[number];
  return {At<char>(entry.name_at), entry.name_length};
}

std::int64_t FileTable::Find(std::uint32_t folder, std::string_view name) const {
  std::uint32_t low = (*this)[folder].first;
  std::uint32_t high = low + (*this)[folder].count;
  while (low < high) {
    const std::uint32_t middle = low + (high - low) / 2;
    const int order = Name(middle).compare(name);
    if (order == 0) return middle;
    if (order < 0) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return -1;
}

std::size_t FileTable::PathOf(std::uint32_t number, char* path, std::size_t room) const {
  std::size_t length = 0;
  for (std::uint32_t i = number; i != 0; i = (*this)[i].parent) length += 1 + Name(i).size();
  if (length > room) return length;
  std::size_t end = length;
  for (std::uint32_t i = number; i != 0; i = (*this)[i].parent) {
    const std::string_view name = Name(i);
    end -= name.size();
    memcpy(path + end, name.data(), name.size());
    path[--end] = '/';
  }
  return length;
}

}  // namespace io
}  // namespace horovod_opt
