#include "horovod_opt/csrc/io/node_cache/load_check.h"

#include <stdexcept>
#include <string>

namespace horovod_opt {
namespace io {

LoadCheck::LoadCheck(const Shape& shape, std::int64_t entries)
    : shape_(shape),
      last_steps_(static_cast<std::size_t>(entries), shape.start - 1),
      previous_first_(shape.start) {}

void LoadCheck::Add(const Load& load) {
  const std::int64_t number = load.number < 0 ? next_ : load.number;
  const std::string name = "load " + std::to_string(number) + " (steps " +
                           std::to_string(load.first) + " to " + std::to_string(load.last) + ", " +
                           std::to_string(load.bytes) + " bytes)";
  if (load.bytes < 0 || load.bytes > shape_.buffer_bytes) {
    throw std::invalid_argument(name + " does not fit into a slot of " +
                                std::to_string(shape_.buffer_bytes) + " bytes");
  }
  for (const Extent& extent : load.extents) {
    if (extent.offset < 0 || extent.bytes < 0 || extent.place < 0 ||
        extent.bytes > load.bytes || extent.place > load.bytes - extent.bytes) {
      throw std::invalid_argument(name + " has an extent of " + std::to_string(extent.bytes) +
                                  " bytes at " + std::to_string(extent.offset) +
                                  " of a file, for place " + std::to_string(extent.place));
    }
  }
  if (number < next_) throw std::invalid_argument(name + " comes after one of a higher number");
  if (load.first < previous_first_ || load.last < load.first) {
    throw std::invalid_argument(name + " comes after one of step " +
                                std::to_string(previous_first_) +
                                ": loads must come in the order of their first steps");
  }
  while (!live_.empty() && live_.top().first < load.first) {
    live_bytes_ -= live_.top().second;
    live_.pop();
  }
  const std::int64_t bytes = live_bytes_ + load.bytes;
  const auto chunks = static_cast<std::int64_t>(live_.size()) + 1;
  if (bytes > shape_.memory) {
    throw std::invalid_argument("step " + std::to_string(load.first) + " needs " +
                                std::to_string(chunks) + " chunks with " + std::to_string(bytes) +
                                " bytes at once, but memory= is " +
                                std::to_string(shape_.memory) +
                                " bytes: raise memory=, or lower the order's window or shards");
  }
  std::int64_t& last_step =
      last_steps_[static_cast<std::size_t>(number) % last_steps_.size()];
  if (chunks > shape_.buffers || last_step >= load.first) {
    throw std::invalid_argument(
        "step " + std::to_string(load.first) + " needs " + std::to_string(chunks) +
        " chunks at once, with up to " + std::to_string(last_steps_.size()) +
        " loads between two of them, but the ring has " + std::to_string(shape_.buffers) +
        " slots: lower the order's window or shards");
  }
  last_step = load.last;
  previous_first_ = load.first;
  live_.emplace(load.last, load.bytes);
  live_bytes_ = bytes;
  next_ = number + 1;
}

}  // namespace io
}  // namespace horovod_opt
