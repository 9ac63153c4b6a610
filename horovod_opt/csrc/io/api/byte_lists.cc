#include "horovod_opt/csrc/io/api/byte_lists.h"

namespace horovod_opt {
namespace io {

void* NewByteLists(const HioPython& python, std::int64_t lists, const std::int64_t* ends,
                   const std::int64_t* sizes, std::int64_t* places) {
  void* const outer = python.new_list(lists);
  std::int64_t i = 0;
  for (std::int64_t list = 0; outer != nullptr && list < lists; ++list) {
    const std::int64_t begin = i;
    void* const inner = python.new_list(ends[list] - begin);
    // The list of lists owns it, and both are freed with what is in them.
    if (inner == nullptr || python.set_item(outer, list, inner) != 0) break;
    for (; i < ends[list]; ++i) {
      void* const bytes = python.new_bytes(nullptr, sizes[i]);
      if (bytes == nullptr || python.set_item(inner, i - begin, bytes) != 0) break;
      places[i] = reinterpret_cast<std::int64_t>(python.data_of(bytes));
    }
    if (i < ends[list]) break;
  }
  if (outer != nullptr && (lists == 0 || i == ends[lists - 1])) return outer;
  if (outer != nullptr) python.release(outer);
  return nullptr;
}

}  // namespace io
}  // namespace horovod_opt
