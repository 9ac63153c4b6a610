// The C functions that need no node cache: orders, checksums, and lists of Python's.

#include <cstdint>
#include <stdexcept>
#include <string>

#include "horovod_opt/csrc/io/api/handles.h"
#include "horovod_opt/csrc/io/files/crc32c.h"
#include "horovod_opt/csrc/io/order/permutation.h"
#include "horovod_opt/csrc/io/order/step_order.h"
#include "horovod_opt_io_abi.h"

namespace io = horovod_opt::io;

std::string& io::LastError() {
  thread_local std::string error;
  return error;
}

const char* hio_abi(void) { return HOROVOD_OPT_IO_ABI; }

const char* hio_error(void) { return io::LastError().c_str(); }

uint32_t hio_crc32c(uint32_t crc, const void* data, int64_t bytes) {
  return io::Crc32c(crc, data, static_cast<std::size_t>(bytes));
}

void* hio_byte_lists(const HioPython* python, int64_t lists, const int64_t* ends,
                     const int64_t* sizes, int64_t* places) {
  void* const outer = python->new_list(lists);
  std::int64_t i = 0;
  for (std::int64_t list = 0; outer != nullptr && list < lists; ++list) {
    const std::int64_t begin = i;
    void* const inner = python->new_list(ends[list] - begin);
    // The list of lists owns it, and both are freed with what is in them.
    if (inner == nullptr || python->set_item(outer, list, inner) != 0) break;
    for (; i < ends[list]; ++i) {
      void* const bytes = python->new_bytes(nullptr, sizes[i]);
      if (bytes == nullptr || python->set_item(inner, i - begin, bytes) != 0) break;
      places[i] = reinterpret_cast<std::int64_t>(python->data_of(bytes));
    }
    if (i < ends[list]) break;
  }
  if (outer != nullptr && (lists == 0 || i == ends[lists - 1])) return outer;
  if (outer != nullptr) python->release(outer);
  return nullptr;
}

int hio_permute(int64_t count, const uint64_t* numbers, int64_t ns, const uint64_t* n, int64_t keys,
                const uint64_t* first, const uint64_t* step, int forward, uint64_t* out) {
  return io::Guarded(int{HIO_FAILED}, [&] {
    for (int64_t i = 0; i < count; ++i) {
      const uint64_t below = n[ns > 1 ? i : 0];
      if (numbers[i] >= below || below > uint64_t{1} << 62) {
        throw std::invalid_argument("there is no number " + std::to_string(numbers[i]) + " of " +
                                    std::to_string(below) + " to permute");
      }
      const int64_t k = keys > 1 ? i : 0;
      const io::Permutation permutation(below, {first[k], step[k]});
      out[i] = forward ? permutation.Forward(numbers[i]) : permutation.Backward(numbers[i]);
    }
    return int{HIO_OK};
  });
}

int hio_order_take(const HioOrder* order, int64_t begin, int64_t positions, int64_t steps,
                   int64_t runs, const int64_t* firsts, const int64_t* ends, int64_t ranks,
                   int64_t index, int64_t* taken_positions, int64_t* samples) {
  return io::Guarded(int{HIO_FAILED}, [&] {
    io::StepOrder(*order).Take({begin, positions, steps},
                               {{firsts, firsts + runs}, {ends, ends + runs}, ranks, index},
                               taken_positions, samples);
    return int{HIO_OK};
  });
}

int hio_order_mark(const HioOrder* order, int64_t begin, int64_t positions, int64_t steps,
                   int64_t first, int64_t end, int64_t number, int64_t* firsts, int64_t* lasts,
                   int64_t* counts) {
  return io::Guarded(int{HIO_FAILED}, [&] {
    io::StepOrder(*order).Mark({begin, positions, steps}, first, end, number, firsts, lasts,
                               counts);
    return int{HIO_OK};
  });
}

int hio_order_find(const HioOrder* order, int64_t begin, int64_t positions, int64_t steps,
                   int64_t first, int64_t end, int64_t windows, const int64_t* ordinals,
                   const int64_t* begins, uint8_t* mask) {
  return io::Guarded(int{HIO_FAILED}, [&] {
    io::StepOrder(*order).Find({begin, positions, steps}, first, end,
                               {ordinals, ordinals + windows}, begins, mask);
    return int{HIO_OK};
  });
}
