// A program for upstream's queue of tensors, with calls, tensors that a plan gives back, and
// responses.
#include <deque>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "fakes.h"
#include "horovod/common/global_state.h"
#include "horovod/common/message.h"
#include "horovod/common/operations.h"
#include "horovod_opt/csrc/binding/hooks/enqueue.h"
#include "horovod_opt/csrc/binding/reduction/planned_tensor.h"

namespace horovod_opt {
namespace {

using horovod::common::HorovodGlobalState;
using horovod::common::Request;
using horovod::common::Response;
using horovod::common::Status;
using horovod::common::TensorTableEntry;

// As told by the tensors' numbers of elements.
class Program {
 public:
  // A line of `said` for each.
  void Call(const std::string& name, int number) {
    auto [entry, request] = Tensor(name, number);
    Say(queue_.AddToTensorQueue(entry, request));
  }

  void GiveBack(const std::string& name, int number) {
    auto [entry, request] = Tensor(name, number);
    Say(EnqueueAgain(horovod_, std::make_unique<PlannedTensor>(std::move(entry), request)));
  }

  // What is negotiated next, in the order of its requests.
  void Negotiate() {
    std::deque<Request> requests;
    queue_.PopMessagesFromQueue(requests);
    for (const Request& request : requests) said_ << request.tensor_shape()[0] << ' ';
    said_ << '\n';
  }

  void Respond(const std::string& name) {
    Response response;
    response.set_response_type(Response::ALLREDUCE);
    response.add_tensor_name(name);
    std::vector<TensorTableEntry> entries;
    queue_.GetTensorEntriesFromResponse(response, entries);
    said_ << entries[0].tensor->shape().dim_size(0) << '\n';
  }

  // Those that have ended with it.
  void End() {
    queue_.FinalizeTensorQueue(horovod::common::SHUT_DOWN_ERROR);
    for (int number : ended_) said_ << number << ' ';
    said_ << '\n';
  }

  std::string said() const { return said_.str(); }

 private:
  std::pair<TensorTableEntry, Request> Tensor(const std::string& name, int number) {
    TensorTableEntry entry;
    entry.tensor_name = name;
    entry.context = std::make_shared<FakeContext>();
    entry.tensor = entry.output = std::make_shared<FakeTensor>(number);
    entry.callback = [this, number](const Status& status) {
      if (status.reason() == horovod::common::SHUT_DOWN_ERROR.reason()) ended_.push_back(number);
    };
    Request request;
    request.set_tensor_name(name);
    request.add_tensor_shape(number);
    return {std::move(entry), request};
  }

  void Say(const Status& status) { said_ << (status.ok() ? "ok" : status.reason()) << '\n'; }

  HorovodGlobalState horovod_;
  horovod::common::TensorQueue& queue_ = horovod_.process_set_table.Get(0).tensor_queue;
  std::vector<int> ended_;
  std::ostringstream said_;
};

}  // namespace
}  // namespace horovod_opt

// Lines of `text`: what to do, the tensor's name, its number. Returns what the queue says.
extern "C" const char* queue_program(const char* text) {
  static std::string said;
  const auto program = std::make_unique<horovod_opt::Program>();  // too large for a stack
  std::istringstream lines(text);
  std::string action, name;
  int number = 0;
  while (lines >> action >> name >> number) {
    if (action == "call") program->Call(name, number);
    if (action == "give-back") program->GiveBack(name, number);
    if (action == "negotiate") program->Negotiate();
    if (action == "respond") program->Respond(name);
    if (action == "end") program->End();
  }
  said = program->said();
  return said.c_str();
}
