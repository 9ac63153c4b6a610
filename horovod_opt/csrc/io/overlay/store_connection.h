// A request to the node's store, and its answer: horovod_opt/io/overlay/store.py.
#pragma once

#include <cstddef>
#include <cstdint>

#include "horovod_opt/csrc/io/overlay/file_table.h"

namespace horovod_opt {
namespace io {

class StoreConnection {
 public:
  // Of requests that are not the number of a file.
  static constexpr std::uint32_t kCreate = 0xfffffffe;  // a file for output, with its descriptor
  static constexpr std::uint32_t kClose = 0xfffffffd;   // of one, with the descriptor that it had
  static constexpr std::uint32_t kSettle = 0xfffffffc;  // what the kernel tells of comes first
  static constexpr int kOpenStill = -1;  // what the store answers then if others have it open

  StoreConnection() = default;
  ~StoreConnection();
  StoreConnection(const StoreConnection&) = delete;
  StoreConnection& operator=(const StoreConnection&) = delete;

  // `text` goes behind the number, and a descriptor beside it, if it is not negative. False: there
  // is no store any more, with errno.
  bool Ask(const FileTable& table, std::uint32_t number, const char* text = "", int passed = -1);

  // What belongs to the request and comes later.
  bool Say(char word);

  // An error number, 0 for none; the descriptor that came, or -1.
  int Answer(int* received = nullptr);

 private:
  int fd_ = -1;
};

}  // namespace io
}  // namespace horovod_opt
