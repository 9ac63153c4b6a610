// Words that an exchange replaces by what it has made of them.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "horovod_opt/csrc/core/network/nonblocking_allreduce.h"

namespace horovod_opt {

using Words = std::vector<std::uint64_t>;

// `reduce`: of words.
inline ExchangedData ExchangedWords(const std::shared_ptr<Words>& words,
                                    decltype(Arithmetic::reduce) reduce) {
  return {static_cast<std::int64_t>(words->size() * sizeof(Words::value_type)),
          {sizeof(Words::value_type), reduce, nullptr},
          [words](std::int64_t begin, std::int64_t end, char* to) {
            std::memcpy(to, reinterpret_cast<const char*>(words->data()) + begin,
                        static_cast<std::size_t>(end - begin));
          },
          [words](std::int64_t begin, std::int64_t end, const char* from) {
            std::memcpy(reinterpret_cast<char*>(words->data()) + begin, from,
                        static_cast<std::size_t>(end - begin));
          },
          {},
          {}};
}

}  // namespace horovod_opt
