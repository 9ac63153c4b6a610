// What a collective call is, for the other ranks of its group and for people.
#pragma once

#include <array>
#include <cstdint>
#include <cstdio>
#include <string>

#include "horovod_opt/csrc/core/base/rank_texts.h"

namespace horovod_opt {

enum class CallKind : std::int32_t {
  kAllreduce,
  kReduce,
  kBroadcast,
  kAllgather,
  kReduceScatter,
  kBarrier,
  kAlltoall,
  kGather,
  kScatter
};

// Plain data, which ranks show each other in shared memory.
struct CallFacts {
  static constexpr int kShown = 5;  // dimensions

  CallKind kind = CallKind::kBarrier;
  std::int32_t operation = 0;  // of the caller's own numbers
  std::int32_t root = -1;      // -1: it has none
  std::int32_t tensors = 0;
  std::int64_t bytes = 0;       // of all tensors, on this rank; of an alltoall 0
  double factor = 1;            // before the sum
  std::int32_t dimensions = 0;  // of the first tensor
  std::array<std::int64_t, kShown> sizes{};
  std::array<char, 24> type{};  // its name
  std::array<char, 12> operation_name{};

  // Equal on all ranks, or the program is wrong. Shapes may differ.
  std::uint64_t Fingerprint(std::uint64_t number) const {
    std::string facts;
    const auto add = [&](const auto& value) {
      facts.append(reinterpret_cast<const char*>(&value), sizeof(value));
    };
    facts.reserve(sizeof(*this));
    add(number), add(kind), add(operation), add(root), add(bytes), add(factor), add(type);
    return Hash(facts);
  }

  const char* Name() const {
    constexpr const char* kNames[] = {"allreduce",  "reduce",         "broadcast",
                                      "allgather",  "reduce_scatter", "barrier",
                                      "all_to_all", "gather",         "scatter"};
    return kNames[static_cast<int>(kind)];
  }

  // As "(sum), float32 [3, 4]".
  std::string Text() const {
    std::string text;
    if (operation_name[0] != '\0') text += std::string(" (") + operation_name.data() + ")";
    if (root >= 0) text += " with root " + std::to_string(root);
    if (tensors == 0) return text;
    text += std::string(", ") + type.data() + " [";
    for (int i = 0; i < dimensions && i < kShown; ++i) {
      text += (i > 0 ? ", " : "") + std::to_string(sizes[static_cast<std::size_t>(i)]);
    }
    text += dimensions > kShown ? ", ...]" : "]";
    if (tensors > 1) {
      text += " and " + std::to_string(tensors - 1) + " more, " + std::to_string(bytes) + " bytes";
    }
    return text;
  }
};

}  // namespace horovod_opt
