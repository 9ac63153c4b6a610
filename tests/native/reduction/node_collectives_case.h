// One call of NodeCollectives::Allreduce() as all its ranks together see it.
#pragma once

#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "horovod_opt/csrc/core/reduction/node_collectives.h"
#include "tests/native/reduction/node_ranks.h"

namespace horovod_opt {

constexpr std::size_t kSmallChunk = 1 << 12;  // many chunks and no slice of more than one block

template <class Number>
void Add(void* out, const void* const* inputs, int number, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    Number sum = static_cast<const Number*>(inputs[0])[i];
    for (int n = 1; n < number; ++n) {
      sum = static_cast<Number>(sum + static_cast<const Number*>(inputs[n])[i]);
    }
    static_cast<Number*>(out)[i] = sum;
  }
}

template <class Number>
void Scale(void* data, std::int64_t count, double factor) {
  for (std::int64_t i = 0; i < count; ++i) {
    auto& value = static_cast<Number*>(data)[i];
    value = static_cast<Number>(value * factor);
  }
}

// Now and then other ranks get ahead, wherever this one is.
template <class Number>
void AddSlowly(void* out, const void* const* inputs, int number, std::int64_t count) {
  thread_local std::minstd_rand random(
      static_cast<unsigned>(std::hash<std::thread::id>()(std::this_thread::get_id())));
  if (random() % 16 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
  Add<Number>(out, inputs, number, count);
}

inline const Arithmetic kFloats{sizeof(float), AddSlowly<float>, Scale<float>};

// Random inputs and outputs, and the result that is expected, computed in the order that is
// promised: first over the ranks of each group, then over the groups. Ranks are numbered through.
class Case {
 public:
  struct Rank {
    std::vector<std::vector<char>> in;   // of each segment
    std::vector<std::vector<char>> out;  // aligned for every type, as vectors of char are
    std::vector<Segment> segments;
  };

  // `ranks`: of each group. `sizes`: of the segments, in elements.
  Case(int ranks, const Arithmetic& arithmetic, const std::vector<std::int64_t>& sizes,
       double prescale, double postscale, unsigned seed, int groups = 1)
      : arithmetic_(arithmetic),
        prescale_(prescale),
        postscale_(postscale),
        group_size_(ranks),
        ranks_(groups * ranks) {
    std::mt19937 random(seed);
    for (Rank& rank : ranks_) {
      for (std::int64_t elements : sizes) AddSegment(rank, elements, random);
    }
    Reduce();
  }

  bool Run(NodeCollectives& reduce, int rank, std::uint64_t tag, const std::atomic<bool>& stop) {
    WaitCounts counts;
    return reduce.Allreduce(BucketOf(rank), tag, stop, counts);
  }

  // In two halves, between which `cross` reduces the part of the rank over the groups.
  using Cross = std::function<void(void* data, std::int64_t count)>;
  bool RunInParts(NodeCollectives& reduce, int rank, std::uint64_t tag,
                  const std::atomic<bool>& stop, const Cross& cross) {
    const BucketReduction bucket = BucketOf(rank);
    const std::int64_t elements = bucket.Bytes() / bucket.element();
    const int number = rank % group_size_;
    std::vector<std::int64_t> ends;
    for (int owner = 1; owner <= group_size_; ++owner) {
      ends.push_back(elements * owner / group_size_ * bucket.element());
    }
    std::vector<char> part(
        static_cast<std::size_t>(ends[number] - (number == 0 ? 0 : ends[number - 1])));
    const auto bytes = static_cast<std::int64_t>(part.size());
    WaitCounts counts;
    if (!reduce.ReduceParts(bucket, ends, part.data(), tag, stop, counts)) return false;
    if (bytes > 0) cross(part.data(), bytes / bucket.element());
    bucket.ScaleSum(part.data(), bytes);
    return reduce.GatherParts(bucket, ends, part.data(), tag, stop, counts);
  }

  void Check(int rank) const {
    for (std::size_t i = 0; i < expected_.size(); ++i) {
      const Segment& segment = ranks_[rank].segments[i];
      if (segment.out == nullptr || segment.bytes == 0) continue;
      ASSERT_EQ(std::memcmp(segment.out, expected_[i].data(), expected_[i].size()), 0)
          << "rank " << rank << ", segment " << i << " of " << segment.bytes << " bytes";
    }
  }

 private:
  BucketReduction BucketOf(int rank) const {
    return {ranks_[rank].segments, arithmetic_, prescale_, postscale_};
  }

  void AddSegment(Rank& rank, std::int64_t elements, std::mt19937& random) {
    const std::size_t bytes = static_cast<std::size_t>(elements) * arithmetic_.element;
    const bool has_input = random() % 8 != 0;
    const bool is_wanted = random() % 8 != 0;
    const bool is_in_place = random() % 3 == 0 && has_input && is_wanted;
    std::vector<char> in(has_input ? bytes : 0);
    // Floats of very different size: a sum in another order has other bits.
    for (std::size_t at = 0; at + sizeof(float) <= in.size(); at += sizeof(float)) {
      const float value = static_cast<float>(random() % 2000) - 1000.0f;
      const float number = std::ldexp(value, static_cast<int>(random() % 12));
      std::memcpy(in.data() + at, &number, sizeof(float));
    }
    rank.in.push_back(std::move(in));
    rank.out.emplace_back(is_wanted && !is_in_place ? bytes : 0);
    void* const input = has_input ? rank.in.back().data() : nullptr;
    void* const own_output = is_wanted ? rank.out.back().data() : nullptr;
    rank.segments.push_back(
        {input, is_in_place ? input : own_output, static_cast<std::int64_t>(bytes)});
  }

  std::vector<char> Input(const Rank& rank, std::size_t segment) const {
    std::vector<char> values(static_cast<std::size_t>(rank.segments[segment].bytes));
    if (!rank.in[segment].empty()) values = rank.in[segment];
    Multiply(values, prescale_);
    return values;
  }

  void Multiply(std::vector<char>& values, double factor) const {
    const std::size_t count = values.size() / arithmetic_.element;
    if (factor != 1) arithmetic_.scale(values.data(), static_cast<std::int64_t>(count), factor);
  }

  std::vector<char> Sum(const std::vector<std::vector<char>>& parts) const {
    if (parts.size() == 1) return parts[0];
    std::vector<char> sum(parts[0].size());
    std::vector<const void*> inputs;
    for (const std::vector<char>& part : parts) inputs.push_back(part.data());
    arithmetic_.reduce(sum.data(), inputs.data(), static_cast<int>(inputs.size()),
                       static_cast<std::int64_t>(sum.size() / arithmetic_.element));
    return sum;
  }

  std::vector<char> GroupSum(int group, std::size_t segment) const {
    std::vector<std::vector<char>> inputs;
    for (int i = 0; i < group_size_; ++i) {
      inputs.push_back(Input(ranks_[group * group_size_ + i], segment));
    }
    return Sum(inputs);
  }

  void Reduce() {
    const int groups = static_cast<int>(ranks_.size()) / group_size_;
    for (std::size_t i = 0; i < ranks_[0].segments.size(); ++i) {
      std::vector<char> sum = GroupSum(0, i);
      for (int group = 1; group < groups; ++group) sum = Sum({sum, GroupSum(group, i)});
      Multiply(sum, postscale_);
      expected_.push_back(std::move(sum));
    }
  }

  const Arithmetic arithmetic_;
  const double prescale_;
  const double postscale_;
  const int group_size_;
  std::vector<Rank> ranks_;
  std::vector<std::vector<char>> expected_;
};

// The ranks of a group and their memory.
class Node {
 public:
  explicit Node(int ranks, std::size_t chunk = kSmallChunk)
      : memory_(NodeCollectives::Bytes(ranks, chunk)) {
    for (int rank = 0; rank < ranks; ++rank) {
      reduce_.push_back(
          std::make_unique<NodeCollectives>(memory_.data(), memory_.size(), rank, ranks));
    }
  }

  int ranks() const { return static_cast<int>(reduce_.size()); }
  NodeCollectives& operator[](int rank) { return *reduce_[rank]; }

 private:
  const Zeros memory_;
  std::vector<std::unique_ptr<NodeCollectives>> reduce_;
};

}  // namespace horovod_opt
