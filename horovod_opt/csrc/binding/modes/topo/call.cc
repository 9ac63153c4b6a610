#include "horovod_opt/csrc/binding/modes/topo/call.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <numeric>
#include <set>
#include <sstream>
#include <tuple>
#include <utility>

#include "horovod_opt/csrc/core/base/rank_texts.h"

namespace horovod_opt {
namespace {

using horovod::common::DataType;
using horovod::common::DataType_Name;
using horovod::common::DataType_Size;
using horovod::common::GroupTable;
using horovod::common::Request;
using horovod::common::Response;
using horovod::common::TensorQueue;

constexpr std::int64_t kBucketBytes = 4 << 20;
// Keys of graphs are small numbers.
constexpr std::uint64_t kCalls = std::uint64_t{1} << 63;

std::string NameOf(Collective collective) {
  std::string name = Request::RequestType_Name(RequestTypeOf(collective));
  for (char& letter : name) letter = static_cast<char>(std::tolower(letter));
  return name;
}

template <class Message>
std::optional<Collective> CollectiveOf(int type) {
  if (type == Message::ALLREDUCE) return Collective::kAllreduce;
  if (type == Message::ALLGATHER) return Collective::kAllgather;
  if (type == Message::BROADCAST) return Collective::kBroadcast;
  if (type == Message::REDUCESCATTER) return Collective::kReducescatter;
  return std::nullopt;
}

std::int64_t KeyOf(const std::string& text) {
  return static_cast<std::int64_t>(Hash(text) | kCalls);
}

// Fills in what depends on the kind. False: upstream has an error for it.
template <class Message>
bool Complete(Call& call, std::vector<std::int64_t> shape, int root, const Message& message) {
  const bool reduces =
      call.collective == Collective::kAllreduce || call.collective == Collective::kReducescatter;
  if (reduces) {
    call.reduction.prescale = message.prescale_factor();
    call.reduction.postscale = message.postscale_factor();
  }
  if (call.collective == Collective::kAllreduce) call.reduction.reduce_op = message.reduce_op();
  if (call.collective == Collective::kBroadcast) call.root = root;
  const bool has_rows =
      call.collective == Collective::kAllgather || call.collective == Collective::kReducescatter;
  if (has_rows && shape.empty()) return false;
  if (call.collective == Collective::kAllgather) shape.erase(shape.begin());
  call.dims = std::move(shape);
  return true;
}

// A name of upstream's for a call without one: "allreduce.noname.57",
// "grouped_allgather.noname.57_1of3".
struct UnnamedName {
  std::string base;  // without the number
  std::uint64_t number = 0;
};

std::optional<UnnamedName> ParseUnnamed(const std::string& name) {
  static const std::string kMark = ".noname.";
  static const std::set<std::string> kKinds = {"allreduce",
                                               "allgather",
                                               "broadcast",
                                               "reducescatter",
                                               "grouped_allreduce",
                                               "grouped_allgather",
                                               "grouped_reducescatter"};
  const std::size_t mark = name.find(kMark);
  if (mark == std::string::npos || kKinds.count(name.substr(0, mark)) == 0) return std::nullopt;
  UnnamedName unnamed;
  std::size_t end = mark + kMark.size();
  const std::size_t begin = end;
  for (; end < name.size() && std::isdigit(static_cast<unsigned char>(name[end])); ++end) {
    unnamed.number = 10 * unnamed.number + static_cast<std::uint64_t>(name[end] - '0');
  }
  if (end == begin || (end < name.size() && name[end] != '_')) return std::nullopt;
  unnamed.base = name.substr(0, begin - 1) + name.substr(end);
  return unnamed;
}

CallGroup Group(std::vector<Call> calls, bool is_group) {
  CallGroup group;
  for (Call& call : calls) {
    const auto unnamed = ParseUnnamed(call.name);
    if (!unnamed) break;
    call.name = unnamed->base;
    group.number = unnamed->number;
  }
  std::vector<std::string> texts;
  for (const Call& call : calls) texts.push_back(call.Text());
  std::string whole;  // in the keys of all its calls
  if (is_group) {
    std::vector<std::string> sorted = texts;
    std::sort(sorted.begin(), sorted.end());
    for (const std::string& text : sorted) whole += text + '\n';
    whole = std::to_string(Hash(whole)) + '\n';
  }
  for (const std::string& text : texts) group.keys.push_back(KeyOf(whole + text));
  group.calls = std::move(calls);
  return group;
}

}  // namespace

Request::RequestType RequestTypeOf(Collective collective) {
  if (collective == Collective::kAllgather) return Request::ALLGATHER;
  if (collective == Collective::kBroadcast) return Request::BROADCAST;
  if (collective == Collective::kReducescatter) return Request::REDUCESCATTER;
  return Request::ALLREDUCE;
}

std::string Call::Text() const {
  // For each call of a step: no stream.
  std::string text;
  const auto add = [&](std::int64_t number) { text += std::to_string(number) + ' '; };
  const auto add_bits = [&](double factor) {
    std::int64_t bits;
    static_assert(sizeof(bits) == sizeof(factor), "a double has 64 bits");
    std::memcpy(&bits, &factor, sizeof(bits));
    add(bits);
  };
  add(static_cast<int>(collective));
  add(reduction.dtype);
  add(reduction.reduce_op);
  add_bits(reduction.prescale);
  add_bits(reduction.postscale);
  add(root);
  for (std::int64_t dim : dims) add(dim);
  return text + '\n' + name;
}

std::int64_t Call::Bytes() const {
  const auto element = DataType_Size(static_cast<DataType>(reduction.dtype));
  return std::accumulate(dims.begin(), dims.end(), static_cast<std::int64_t>(element),
                         std::multiplies<>());
}

std::string Call::Description() const {
  std::string text = NameOf(collective) + " of " +
                     DataType_Name(static_cast<DataType>(reduction.dtype)) + " [" +
                     (collective == Collective::kAllgather ? "any" : "");
  for (std::int64_t dim : dims) text += (text.back() == '[' ? "" : ", ") + std::to_string(dim);
  return text + ']';
}

bool IsUnnamed(const std::string& name) { return ParseUnnamed(name).has_value(); }

CallGroup CallGroup::InLane(int lane) const {
  std::vector<Call> in_lane = calls;
  for (Call& call : in_lane) call.name += ", lane " + std::to_string(lane);
  return Group(std::move(in_lane), calls.size() > 1);
}

std::string CallGroup::Description() const {
  const std::string first = calls[0].Description();
  if (calls.size() == 1) return first;
  return "grouped_" + first + " and " + std::to_string(calls.size() - 1) + " more";
}

std::int64_t CallGroup::Key() const { return *std::min_element(keys.begin(), keys.end()); }

Plan CallGroup::AsPlan() const {
  std::vector<int> order(calls.size());
  std::iota(order.begin(), order.end(), 0);
  const auto rank = [&](int i) {
    const Call& call = calls[i];
    return std::make_tuple(call.reduction.dtype, call.name);
  };
  std::sort(order.begin(), order.end(), [&](int a, int b) { return rank(a) < rank(b); });
  Plan plan;
  plan.is_call = true;
  plan.limits = kBucketBytes;
  std::int64_t room = 0;
  for (int i : order) {
    const Call& call = calls[i];
    Slot slot;
    slot.key = keys[i];
    slot.bytes = call.Bytes();
    slot.reduction = call.reduction;
    slot.name = call.name;
    slot.collective = call.collective;
    slot.root = call.root;
    if (call.collective == Collective::kReducescatter) slot.rows = call.dims[0];
    const bool fits = !plan.buckets.empty() && call.collective == Collective::kAllreduce &&
                      plan.slots.back().reduction.IsLike(slot.reduction) && slot.bytes <= room;
    if (!fits) {
      plan.buckets.emplace_back();
      room = kBucketBytes;
    }
    room -= slot.bytes;
    plan.buckets.back().push_back(static_cast<int>(plan.slots.size()));
    plan.slots.push_back(std::move(slot));
  }
  const Slot& first = plan.slots[0];
  std::ostringstream hash;
  hash << kCallHash << std::hex << static_cast<std::uint64_t>(first.key);
  plan.hash = hash.str();
  plan.name = NameOf(first.collective) + " '" + first.name + "'";
  if (calls.size() > 1) plan.name += " and " + std::to_string(calls.size() - 1) + " more";
  return plan;
}

std::optional<CallGroup> CallsOf(const std::vector<Request>& requests) {
  std::vector<Call> calls;
  for (const Request& request : requests) {
    const auto collective = CollectiveOf<Request>(request.request_type());
    if (!collective || request.device() != CPU_DEVICE_ID) return std::nullopt;
    Call call;
    call.name = request.tensor_name();
    call.collective = *collective;
    call.reduction.dtype = request.tensor_type();
    if (!Complete(call, request.tensor_shape(), request.root_rank(), request)) return std::nullopt;
    calls.push_back(std::move(call));
  }
  return Group(std::move(calls), requests[0].group_id() != NULL_GROUP_ID);
}

std::vector<CallGroup> CallsOf(const Response& response, const TensorQueue& queue,
                               const GroupTable& groups) {
  std::vector<CallGroup> call_groups;
  const auto collective = CollectiveOf<Response>(response.response_type());
  const auto& devices = response.devices();
  const bool in_main_memory = std::all_of(devices.begin(), devices.end(),
                                          [](int device) { return device == CPU_DEVICE_ID; });
  if (!collective || !in_main_memory) return call_groups;
  std::set<int> group_ids;
  for (const std::string& name : response.tensor_names()) {
    const int id = groups.GetGroupIDFromTensorName(name);
    if (id != NULL_GROUP_ID && !group_ids.insert(id).second) continue;
    const auto names =
        id == NULL_GROUP_ID ? std::vector<std::string>{name} : groups.GetGroupTensorNames(id);
    std::vector<Call> calls;
    for (const std::string& member : names) {
      const auto& entry = queue.GetTensorEntry(member);
      Call call;
      call.name = member;
      call.collective = *collective;
      call.reduction.dtype = entry.tensor->dtype();
      if (!Complete(call, entry.tensor->shape().to_vector(), entry.root_rank, response)) break;
      calls.push_back(std::move(call));
    }
    if (calls.size() == names.size())
      call_groups.push_back(Group(std::move(calls), id != NULL_GROUP_ID));
  }
  return call_groups;
}

}  // namespace horovod_opt
