// What a pack has, as a tree of files and folders in one read-only mapping that all programs of a
// job on a node share. horovod_opt/io/overlay/file_table.py writes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace horovod_opt {
namespace io {

constexpr char kFileTableMagic[8] = {'H', 'O', 'P', 'F', 'I', 'L', 'E', '2'};
constexpr std::uint32_t kAtStore = 0xffffffff;  // the part of a file that the store hands over

// Places and lengths are in bytes, from the table's begin.
struct FileTableHeader {
  char magic[8];
  std::uint64_t bytes;       // of the table
  std::uint64_t files_at;    // FileEntry[files]; 0 is the folder that programs see
  std::uint64_t parts_at;    // places of parts' paths, std::uint64_t[parts]
  std::uint64_t roots_at;    // places of the paths of that folder, std::uint64_t[roots]
  std::uint64_t store_at;    // the name of the store's socket, in the abstract namespace
  std::uint64_t counters_at; // the path of the counters' page
  std::uint64_t outputs_at;  // the path of the folder for what programs write; "": they may not
  std::uint64_t outputs_device;  // of files there, as stat() says
  std::uint64_t device;      // of stat()
  std::uint32_t files;
  std::uint32_t parts;
  std::uint32_t roots;       // as given first, then without links
  std::uint32_t id;          // of this table, in the names of what programs have open
  std::uint32_t uid;
  std::uint32_t gid;
  std::uint32_t has_unnamed;  // in the outputs' file system a file need not have a name (O_TMPFILE)
  std::uint32_t reserved;
};

struct FileEntry {
  std::uint64_t name_at;
  std::uint64_t size;
  std::uint64_t offset;       // in its part
  std::int64_t mtime_ns;
  std::uint32_t name_length;
  std::uint32_t mode;         // of stat()
  std::uint32_t part;         // or kAtStore
  std::uint32_t crc;          // CRC-32C of the contents
  std::uint32_t parent;
  std::uint32_t first;        // of a folder: its entries, by name
  std::uint32_t count;
  std::uint32_t reserved;
};

class FileTable {
 public:
  // nullptr, and errno, for what is no table of this version.
  static const FileTable* Map(const char* path);

  const FileTableHeader& header() const { return *reinterpret_cast<const FileTableHeader*>(this); }
  const FileEntry& operator[](std::uint32_t number) const {
    return At<FileEntry>(header().files_at)[number];
  }
  bool IsFolder(std::uint32_t number) const { return ((*this)[number].mode & 0170000) == 0040000; }
  std::string_view Name(std::uint32_t number) const;
  const char* PartPath(std::uint32_t part) const {
    return At<char>(At<std::uint64_t>(header().parts_at)[part]);
  }
  std::string_view Root(std::uint32_t root) const {
    return At<char>(At<std::uint64_t>(header().roots_at)[root]);
  }
  const char* StoreName() const { return At<char>(header().store_at); }
  const char* OutputsPath() const { return At<char>(header().outputs_at); }
  const char* CountersPath() const { return At<char>(header().counters_at); }

  // Of the folder `folder` the entry `name`; -1: it has none.
  std::int64_t Find(std::uint32_t folder, std::string_view name) const;

  // The path in the folder that programs see, "/a/1.jpg"; of that folder itself "". Returns its
  // length; above `room` nothing was written.
  std::size_t PathOf(std::uint32_t number, char* path, std::size_t room) const;

 private:
  template <class T>
  const T* At(std::uint64_t place) const {
    return reinterpret_cast<const T*>(reinterpret_cast<const char*>(this) + place);
  }
};

}  // namespace io
}  // namespace horovod_opt
