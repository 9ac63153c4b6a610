// A plan as graph_analysis made it: the collectives of a region and the buckets into which they are
// fused.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace horovod_opt {

// Instead of a GPU's number, as upstream's CPU_DEVICE_ID.
constexpr int kMainMemory = -1;

// The device of a tensor on each rank.
using Devices = std::vector<int>;

struct Reduction {
  int dtype = 0;      // horovod::common::DataType
  int reduce_op = 0;  // horovod::common::ReduceOp
  double prescale = 1.0;
  double postscale = 1.0;
  // Where the tensor is on this rank; a plan learns it in its first iteration.
  int device = kMainMemory;

  bool OnGpu() const { return device != kMainMemory; }
  std::string Where() const {
    return OnGpu() ? "on GPU " + std::to_string(device) : "in main memory";
  }
  // Wherever they are.
  bool IsLike(const Reduction& other) const {
    return dtype == other.dtype && reduce_op == other.reduce_op && prescale == other.prescale &&
           postscale == other.postscale;
  }
};

enum class Collective { kAllreduce, kAllgather, kBroadcast, kReducescatter };

// One collective of the region.
struct Slot {
  std::int64_t key = 0;    // names the collective in this process' graphs
  std::int64_t bytes = 0;  // of an allgather: of a row, of which there may be any number
  Reduction reduction;
  std::vector<int> after;  // slots that it depends on directly
  std::string name;
  // Since the ranks have agreed on it; equal ones of a plan are the same object. nullptr: it is in
  // main memory on every rank.
  std::shared_ptr<const Devices> devices;
  Collective collective = Collective::kAllreduce;
  int root = 0;           // of a broadcast
  std::int64_t rows = 0;  // of a reducescatter
};

// How many bytes a bucket of several tensors may have, by where they are. The first one on a GPU is
// smaller, as in PyTorch's DistributedDataParallel: there is nothing yet that its sum could wait for.
struct BucketLimits {
  std::int64_t main_memory = 0;
  std::int64_t gpu = 0;
  std::int64_t first_on_gpu = 0;

  BucketLimits() = default;
  BucketLimits(std::int64_t anywhere)  // NOLINT: the setting is one number
      : main_memory(anywhere), gpu(anywhere), first_on_gpu(anywhere) {}
  BucketLimits(std::int64_t in_memory, std::int64_t on_gpu, std::int64_t first)
      : main_memory(in_memory), gpu(on_gpu), first_on_gpu(first) {}
  // `is_first`: no bucket before it is on a GPU.
  std::int64_t Of(bool on_gpu, bool is_first) const {
    if (!on_gpu) return main_memory;
    return is_first ? first_on_gpu : gpu;
  }
  bool operator==(const BucketLimits& other) const {
    return main_memory == other.main_memory && gpu == other.gpu &&
           first_on_gpu == other.first_on_gpu;
  }
};

using Buckets = std::vector<std::vector<int>>;  // slots by bucket, in order

// The hash of a call that recurs (recurring_calls.h) begins so, that of a graph does not.
constexpr const char* kCallHash = "call-";
inline bool IsCallHash(const std::string& hash) { return hash.rfind(kCallHash, 0) == 0; }

struct Plan {
  std::string hash;
  std::string name;
  bool is_call = false;
  int process_set = 0;  // its number
  BucketLimits limits;
  std::vector<Slot> slots;
  Buckets buckets;  // each slot in exactly one
};

// The buckets without these slots, and none that is empty then.
Buckets Without(const Buckets& buckets, const std::set<int>& slots);

// In what an arriving tensor with `bytes` and `reduction` differs from its slot; empty: in nothing.
std::string Difference(const Slot& slot, std::int64_t bytes, const Reduction& reduction);

// What the first iteration tells of a plan's tensors and the graph does not: shape and device.
class FirstShapes {
 public:
  explicit FirstShapes(std::size_t slots) : first_(slots) {}

  // The tensor of `slot` has this shape. Returns in what it differs from the first; empty: in
  // nothing.
  std::string Compare(int slot, const std::vector<std::int64_t>& shape);

 private:
  struct First {
    bool is_known = false;
    std::vector<std::int64_t> shape;
  };
  std::vector<First> first_;
};

// Of `plan`, by slot, on this rank; empty: all are in main memory.
Devices DevicesOf(const Plan& plan);

// Of `devices`, by slot; empty: all are in main memory. Buckets whose tensors are on different
// devices on some rank become several, one after the other; the same ones on every rank.
using SharedDevices = std::vector<std::shared_ptr<const Devices>>;
Buckets SplitByDevices(const Buckets& buckets, const SharedDevices& devices);

// The text in which Python hands over a plan (parse_plan.cc).
// From tab-separated lines: "plan hash limits process_set name" (limits: three numbers with commas,
// or one for all), then for each slot "slot key
// bytes dtype reduce_op prescale postscale after name" (after: numbers with commas, or -), then for
// each bucket "bucket numbers". Throws std::invalid_argument that names the line.
Plan ParsePlan(const std::string& text);

}  // namespace horovod_opt
