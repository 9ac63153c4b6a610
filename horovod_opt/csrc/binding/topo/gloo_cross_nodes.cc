#include "horovod_opt/csrc/binding/topo/gloo_cross_nodes.h"

#include <gloo/allreduce.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/device.h>

#include <chrono>
#include <exception>
#include <string>

#include "horovod/common/controller.h"
#include "horovod/common/global_state.h"
#include "horovod_opt/csrc/binding/base/rank_rows.h"
#include "horovod_opt/csrc/binding/topo/arithmetic.h"

namespace horovod_opt {
namespace {

using horovod::common::Controller;
using horovod::common::DataType;
using horovod::common::HorovodGlobalState;
using horovod::common::ReduceOp;

// Gloo ends a context in which something takes longer. A leader waits for the next step of the
// training, however long that takes; a rank that is gone closes its connections.
constexpr std::chrono::hours kForever(24 * 365);

// Where Gloo's contexts find each other's addresses: in rows gathered by the controller. Every rank
// sets equally many values, in the same order.
class GatheredStore : public gloo::rendezvous::Store {
 public:
  GatheredStore(Controller& controller, const std::vector<int>& ranks)
      : controller_(controller), ranks_(ranks) {}

  void set(const std::string&, const std::vector<char>& data) override {
    rows_ = GatherRows(controller_, std::string(data.begin(), data.end()));
  }
  // Gloo's keys end with the number of a rank of the context.
  std::vector<char> get(const std::string& key) override {
    const int number = std::stoi(key.substr(key.find_last_not_of("0123456789") + 1));
    const std::string& row = rows_.at(ranks_.at(number));
    return {row.begin(), row.end()};
  }
  void wait(const std::vector<std::string>&) override {}  // set() returns with all

 private:
  Controller& controller_;
  const std::vector<int>& ranks_;
  std::vector<std::string> rows_;
};

class GlooCrossNodes : public CrossNodes {
 public:
  GlooCrossNodes(HorovodGlobalState& horovod, const Groups& groups)
      : context_(std::make_shared<gloo::rendezvous::Context>(
            groups.group, static_cast<int>(groups.cross.size()))) {
    auto& gloo = *horovod.process_set_table.Get(0).gloo_context.ctx;
    GatheredStore store(*horovod.global_controller, groups.cross);
    context_->setTimeout(gloo.getTimeout());
    context_->connectFullMesh(store, gloo.getDevice());
  }

 protected:
  bool DoAnd(std::vector<std::uint64_t>& words) override {
    auto options = Options();
    options.setOutput(words.data(), words.size());
    options.setReduceFunction([](void* out, const void* a, const void* b, std::size_t count) {
      for (std::size_t i = 0; i < count; ++i) {
        static_cast<std::uint64_t*>(out)[i] =
            static_cast<const std::uint64_t*>(a)[i] & static_cast<const std::uint64_t*>(b)[i];
      }
    });
    gloo::allreduce(options);
    return true;
  }

  bool DoAllreduce(void* data, std::int64_t count, DataType dtype, ReduceOp reduce_op) override {
    const Arithmetic arithmetic = ArithmeticOf(dtype, reduce_op);
    auto options = Options();
    SetOutput(options, data, static_cast<std::size_t>(count), arithmetic.element);
    options.setReduceFunction(
        [arithmetic](void* out, const void* a, const void* b, std::size_t elements) {
          const void* const inputs[] = {a, b};
          arithmetic.reduce(out, inputs, 2, static_cast<std::int64_t>(elements));
        });
    gloo::allreduce(options);
    return true;
  }

  // A receive that takes too long makes Gloo end the context and wake all who wait in it.
  void Interrupt() override {
    try {
      char nothing;
      const auto buffer = context_->createUnboundBuffer(&nothing, sizeof(nothing));
      buffer->recv(context_->rank == 0 ? 1 : 0, kUnusedSlot);
      buffer->waitRecv(std::chrono::milliseconds(0));
    } catch (const std::exception&) {
      // as intended
    }
  }

 private:
  static constexpr std::uint64_t kUnusedSlot = ~std::uint64_t{0};

  gloo::AllreduceOptions Options() const {
    gloo::AllreduceOptions options(context_);
    options.setTimeout(kForever);
    return options;
  }

  // All that Gloo needs to know of the element type is its size.
  static void SetOutput(gloo::AllreduceOptions& options, void* data, std::size_t count,
                        std::size_t element) {
    switch (element) {
      case 1:
        return options.setOutput(static_cast<std::uint8_t*>(data), count);
      case 2:
        return options.setOutput(static_cast<std::uint16_t*>(data), count);
      case 4:
        return options.setOutput(static_cast<std::uint32_t*>(data), count);
      default:
        return options.setOutput(static_cast<std::uint64_t*>(data), count);
    }
  }

  const std::shared_ptr<gloo::rendezvous::Context> context_;
};

}  // namespace

std::unique_ptr<CrossNodes> ConnectWithGloo(HorovodGlobalState& horovod, const Groups& groups) {
  return std::make_unique<GlooCrossNodes>(horovod, groups);
}

}  // namespace horovod_opt
