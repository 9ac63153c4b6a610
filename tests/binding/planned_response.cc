// What HorovodOps asks upstream to perform, and what upstream's own controller would have
// asked for the same tensors: its coordinator is given the requests that the ranks would send.
#include <cstdint>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "fakes.h"
#include "horovod/common/controller.h"
#include "horovod/common/global_state.h"
#include "horovod/common/message.h"
#include "horovod_opt/csrc/binding/reduction/horovod_ops_gpu.h"
#include "horovod_opt/csrc/binding/reduction/planned_tensor.h"

namespace horovod_opt {
namespace {

using horovod::common::Communicator;
using horovod::common::DataType;
using horovod::common::HorovodGlobalState;
using horovod::common::ProcessSet;
using horovod::common::ReduceOp;
using horovod::common::Request;
using horovod::common::RequestList;
using horovod::common::Response;
using horovod::common::ResponseList;
using horovod::common::Status;
using horovod::common::TensorTableEntry;

constexpr DataType kFloat32 = horovod::common::HOROVOD_FLOAT32;
constexpr std::int64_t kKey = 1;
constexpr int kIterations = 3;  // the third is planned

struct Allreduce {
  std::string name;
  std::int64_t elements;
  std::vector<int> devices;  // by rank
};

// Of one bucket.
struct Case {
  ReduceOp reduce_op;
  double prescale, postscale;
  std::int64_t threshold;  // bytes that upstream fuses
  std::vector<Allreduce> allreduces;

  int ranks() const { return static_cast<int>(allreduces[0].devices.size()); }
};

TensorTableEntry Entry(int rank, const Allreduce& allreduce) {
  TensorTableEntry entry;
  entry.tensor_name = allreduce.name;
  entry.context = std::make_shared<FakeContext>();
  entry.tensor = entry.output = std::make_shared<FakeTensor>(allreduce.elements);
  entry.device = allreduce.devices[rank];
  entry.callback = [](const Status&) {};
  return entry;
}

Request RequestOf(const Case& scenario, int rank, const Allreduce& allreduce) {
  Request request;
  request.set_request_rank(rank);
  request.set_request_type(Request::ALLREDUCE);
  request.set_tensor_type(kFloat32);
  request.set_tensor_name(allreduce.name);
  request.set_device(allreduce.devices[rank]);
  request.add_tensor_shape(allreduce.elements);
  request.set_prescale_factor(scenario.prescale);
  request.set_postscale_factor(scenario.postscale);
  request.set_reduce_op(scenario.reduce_op);
  return request;
}

// The coordinator, rank 0. All other ranks send what the case says.
class Coordinator : public horovod::common::Controller {
 public:
  Coordinator(HorovodGlobalState& horovod, ProcessSet& process_set, const Case& scenario)
      : Controller(process_set.response_cache, process_set.tensor_queue, horovod.timeline,
                   horovod.parameter_manager, process_set.group_table, horovod.timeline_controller),
        case_(scenario) {
    size_ = local_size_ = scenario.ranks();
    is_coordinator_ = is_initialized_ = true;
    for (int rank = 0; rank < size_; ++rank) global_ranks_.push_back(rank);
  }

  int GetTypeSize(DataType dtype) override { return static_cast<int>(DataType_Size(dtype)); }
  void CrossRankBitwiseAnd(std::vector<long long>&, int) override {}
  void CrossRankBitwiseOr(std::vector<long long>&, int) override {}
  void Bcast(void*, std::size_t, int, Communicator) override {}
  void AlltoallGetRecvSplits(const std::vector<int32_t>&, std::vector<int32_t>&) override {}
  void Barrier(Communicator) override {}
  void Allgather2Ints(std::array<int, 2>, std::vector<int>&) override {}

 protected:
  void DoInitialization() override {}
  void RecvReadyTensors(std::vector<std::string>&, std::vector<RequestList>& lists) override {
    lists.resize(size_);
    for (int rank = 1; rank < size_; ++rank) {
      for (const Allreduce& allreduce : case_.allreduces) {
        lists[rank].add_request(RequestOf(case_, rank, allreduce));
      }
    }
  }
  void SendReadyTensors(RequestList&) override {}
  void SendFinalTensors(ResponseList&) override {}
  void RecvFinalTensors(ResponseList&) override {}

 private:
  const Case& case_;
};

HorovodOps* operations = nullptr;
std::vector<Response> performed;
std::vector<std::string> entry_names;

void Perform(Response response, ProcessSet&) {
  std::vector<TensorTableEntry> entries;
  operations->TakeEntries(response, entries);
  for (const TensorTableEntry& entry : entries) entry_names.push_back(entry.tensor_name);
  performed.push_back(std::move(response));
}

Plan PlanOf(const Case& scenario) {
  Plan plan;
  plan.hash = plan.name = "p";
  plan.buckets.emplace_back();
  for (std::size_t i = 0; i < scenario.allreduces.size(); ++i) {
    Slot slot;
    slot.key = kKey + static_cast<std::int64_t>(i);
    slot.bytes = scenario.allreduces[i].elements * static_cast<std::int64_t>(sizeof(float));
    slot.reduction = {kFloat32, scenario.reduce_op, scenario.prescale, scenario.postscale};
    slot.name = scenario.allreduces[i].name;
    plan.slots.push_back(slot);
    plan.buckets[0].push_back(static_cast<int>(i));
  }
  return plan;
}

void Arrive(PlanTable& plans, const Case& scenario, int rank) {
  for (std::size_t i = 0; i < scenario.allreduces.size(); ++i) {
    ArrivalPtr arrival = std::make_unique<PlannedTensor>(Entry(rank, scenario.allreduces[i]));
    arrival->reduction = {kFloat32, scenario.reduce_op, scenario.prescale, scenario.postscale,
                          TensorOf(arrival).entry.device};
    plans.Arrive(kKey + static_cast<std::int64_t>(i), arrival);
  }
}

// Rank 0's bucket of the first planned iteration.
void PerformPlanned(HorovodGlobalState& horovod, const Case& scenario) {
  std::vector<int> ready;
  std::vector<std::unique_ptr<PlanTable>> tables;
  for (int rank = 0; rank < scenario.ranks(); ++rank) {
    const auto complete = [rank, &ready](const Work& work) {
      if (rank == 0) ready.push_back(work.bucket->id);
    };
    tables.push_back(std::make_unique<PlanTable>(ReadyQueue::kBuckets, complete, [] {}));
    tables[rank]->Add(PlanOf(scenario));
  }
  for (int iteration = 1; iteration <= kIterations; ++iteration) {
    for (int rank = 0; rank < scenario.ranks(); ++rank) Arrive(*tables[rank], scenario, rank);
    TextByRank rows;
    for (int rank = 0; rank < scenario.ranks(); ++rank) {
      rows[rank] = tables[rank]->VoteRow(rank == 0, false);
    }
    for (const auto& table : tables) table->Apply(rows);
  }
  PathCounters counters;
  HorovodOps planned(horovod, Perform, *tables[0], counters, true, false);
  operations = &planned;
  for (int bucket_id : ready) planned.Hand(tables[0]->Take(bucket_id));
  planned.PerformUntilRound();
}

std::vector<Response> Negotiated(HorovodGlobalState& horovod, const Case& scenario) {
  ProcessSet& process_set = horovod.process_set_table.Get(0);
  for (const Allreduce& allreduce : scenario.allreduces) {
    auto entry = Entry(0, allreduce);
    auto request = RequestOf(scenario, 0, allreduce);
    process_set.tensor_queue.AddToTensorQueue(entry, request);
  }
  return process_set.controller->ComputeResponseList(false, horovod, process_set).responses();
}

template <class T>
std::string Listed(const std::vector<T>& values) {
  std::ostringstream text;
  for (const T& value : values) text << ' ' << value;
  return text.str();
}

std::string Described(const Response& response) {
  std::ostringstream text;
  text << Response::ResponseType_Name(response.response_type())
       << "; names:" << Listed(response.tensor_names())
       << "; sizes:" << Listed(response.tensor_sizes())
       << "; dtype: " << DataType_Name(response.tensor_type())
       << "; devices:" << Listed(response.devices()) << "; op: " << response.reduce_op()
       << "; prescale: " << response.prescale_factor()
       << "; postscale: " << response.postscale_factor()
       << "; last joined: " << response.last_joined_rank()
       << "; error: " << response.error_message();
  // Whatever else it may have.
  std::string bytes;
  Response::SerializeToString(response, bytes);
  text << "; hash: " << std::hash<std::string>()(bytes);
  return text.str();
}

}  // namespace
}  // namespace horovod_opt

// `text`: "reduce_op prescale postscale threshold ranks", then for each tensor of a bucket "name
// elements" and its device on each rank. Returns lines "negotiated response", "planned response"
// and "entry name", in the order of events.
extern "C" const char* planned_responses(const char* text) {
  using namespace horovod_opt;
  std::istringstream words(text);
  Case scenario;
  int reduce_op = 0, ranks = 0;
  words >> reduce_op >> scenario.prescale >> scenario.postscale >> scenario.threshold >> ranks;
  scenario.reduce_op = static_cast<ReduceOp>(reduce_op);
  for (Allreduce next; words >> next.name >> next.elements;) {
    next.devices.resize(ranks);
    for (int& device : next.devices) words >> device;
    scenario.allreduces.push_back(next);
  }

  const auto state = std::make_unique<HorovodGlobalState>();  // too large for a stack
  HorovodGlobalState& horovod = *state;
  ProcessSet& process_set = horovod.process_set_table.Get(0);
  process_set.controller = std::make_shared<Coordinator>(horovod, process_set, scenario);
  horovod.global_controller = process_set.controller;
  horovod.parameter_manager.SetTensorFusionThresholdBytes(scenario.threshold);

  static std::string lines;
  lines.clear();
  for (const Response& response : Negotiated(horovod, scenario)) {
    lines += "negotiated " + Described(response) + '\n';
  }
  performed.clear();
  entry_names.clear();
  PerformPlanned(horovod, scenario);
  for (const Response& response : performed) lines += "planned " + Described(response) + '\n';
  for (const std::string& name : entry_names) lines += "entry " + name + '\n';
  return lines.c_str();
}
