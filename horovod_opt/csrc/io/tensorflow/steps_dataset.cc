// A data set of TensorFlow whose iterator takes a rank's steps out of the node's reader.
//
// One pass of the training, whose queue has the `number`, or none if that is negative. An element
// has the records of each part (string[k]), labels (int64[k]) where there are some, and what the
// batch says of itself: int64[6] and the weight (float). Python, and its lock, are needed only for
// what hio_queue_ask() is asked.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "tensorflow/core/framework/cancellation.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/dataset.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/partial_tensor_shape.h"
#include "tensorflow/core/framework/tensor.h"
#include "horovod_opt_io_abi.h"

namespace horovod_opt {
namespace {

namespace tf = tensorflow;

// A wait hears of a cancellation only when it ends.
constexpr std::int64_t kLookMilliseconds = 100;
constexpr int kLooksToAsk = 10;  // after so many Python may say what is waited for

REGISTER_OP("HorovodOptStepsDataset")
    .Input("number: int64")
    .Output("handle: variant")
    .Attr("output_types: list(type) >= 1")
    .Attr("output_shapes: list(shape) >= 1")
    .SetIsStateful()  // a number is good for one iterator
    .SetShapeFn(tf::shape_inference::ScalarShape);

struct LetGo {
  void operator()(HioQueue* queue) const {
    hio_queue_stop(queue);  // its feeder waits for that
    hio_queue_free(queue);
  }
};
using Queue = std::unique_ptr<HioQueue, LetGo>;

absl::Status Left() {
  return absl::CancelledError(
      "the pass was left, as another loop over the same data set has begun");
}

// Repeats `call` until it is not HIO_TIMEOUT.
template <class Call>
absl::Status Await(tf::data::IteratorContext* ctx, int& code, const Call& call) {
  while ((code = call()) == HIO_TIMEOUT) {
    tf::CancellationManager* const manager = ctx->cancellation_manager();
    if (manager != nullptr && manager->IsCancelled()) {
      return absl::CancelledError("the iterator was cancelled");
    }
  }
  return absl::OkStatus();
}

class StepsDataset : public tf::data::DatasetBase {
 public:
  StepsDataset(tf::OpKernelContext* ctx, std::int64_t number, tf::DataTypeVector types,
               std::vector<tf::PartialTensorShape> shapes)
      : DatasetBase(tf::data::DatasetContext(ctx)),
        number_(number),
        types_(std::move(types)),
        shapes_(std::move(shapes)) {}

  std::unique_ptr<tf::data::IteratorBase> MakeIteratorInternal(
      const std::string& prefix) const override {
    return std::make_unique<Iterator>(Iterator::Params{this, prefix + "::HorovodOptSteps"});
  }
  const tf::DataTypeVector& output_dtypes() const override { return types_; }
  const std::vector<tf::PartialTensorShape>& output_shapes() const override { return shapes_; }
  std::string DebugString() const override { return "HorovodOptStepsDatasetOp::Dataset"; }
  std::int64_t CardinalityInternal(tf::data::CardinalityOptions) const override {
    return tf::data::kUnknownCardinality;
  }
  absl::Status InputDatasets(std::vector<const DatasetBase*>*) const override {
    return absl::OkStatus();
  }
  absl::Status CheckExternalState() const override {
    return absl::FailedPreconditionError(DebugString() + " depends on the node's reader");
  }

 protected:
  absl::Status AsGraphDefInternal(tf::data::SerializationContext*, DatasetGraphDefBuilder*,
                                  tf::Node**) const override {
    return NoCheckpoint();
  }

 private:
  static absl::Status NoCheckpoint() {
    return absl::UnimplementedError(
        "an iterator over hio.tensorflow.dataset() cannot be saved; remedy: data.state_dict(), or "
        "hio.keras.Resume");
  }

  class Iterator : public tf::data::DatasetIterator<StepsDataset> {
   public:
    using DatasetIterator<StepsDataset>::DatasetIterator;

    absl::Status Initialize(tf::data::IteratorContext*) override {
      is_over_ = dataset()->number_ < 0;
      if (is_over_) return absl::OkStatus();
      queue_.reset(hio_queue_claim(dataset()->number_));
      if (queue_ != nullptr) return absl::OkStatus();
      return absl::FailedPreconditionError(
          "the steps of pass " + std::to_string(dataset()->number_) +
          " are taken by another iterator, or it is over; remedy: loop over the data set anew");
    }

   protected:
    absl::Status GetNextInternal(tf::data::IteratorContext* ctx, std::vector<tf::Tensor>* out,
                                 bool* is_over) override {
      const std::lock_guard<std::mutex> lock(mutex_);
      *is_over = is_over_;
      if (is_over_ || !failed_.ok()) return failed_;
      const absl::Status status = TakeNext(ctx, out);
      // An end would look like the pass's; a wait that was cancelled may be repeated.
      if (!absl::IsCancelled(status)) failed_ = status;
      *is_over = is_over_;
      return status;
    }
    absl::Status SaveInternal(tf::data::SerializationContext*,
                              tf::data::IteratorStateWriter*) override {
      return NoCheckpoint();
    }
    absl::Status RestoreInternal(tf::data::IteratorContext*,
                                 tf::data::IteratorStateReader*) override {
      return NoCheckpoint();
    }

   private:
    // The next step to `out`, or is_over_.
    absl::Status TakeNext(tf::data::IteratorContext* ctx, std::vector<tf::Tensor>* out) {
      const auto start = std::chrono::steady_clock::now();
      HioStep step;
      int code = HIO_OK;
      TF_RETURN_IF_ERROR(Await(
          ctx, code, [&] { return hio_queue_look(queue_.get(), &step, kLookMilliseconds); }));
      if (code == HIO_CLOSED) return Left();
      if (code == HIO_OVER) {
        is_over_ = true;
        return absl::OkStatus();
      }
      HioAnswer answer;
      if (code != HIO_OK) return Ask(ctx, code, "", answer);

      std::vector<tf::Tensor> parts;
      const std::vector<std::int64_t> places = MakeRoom(ctx, step, parts);
      std::int64_t begin = 0, bad = 0;
      do {
        int looks = 0;
        TF_RETURN_IF_ERROR(Await(ctx, code, [&] {
          const int taken =
              hio_queue_take(queue_.get(), places.data(), &begin, &bad, kLookMilliseconds);
          return taken == HIO_TIMEOUT && ++looks == kLooksToAsk ? kLong : taken;
        }));
        if (code == kLong) TF_RETURN_IF_ERROR(Ask(ctx, HIO_TIMEOUT, "", answer));
      } while (code == kLong);
      if (code != HIO_OK) {
        const bool has_text = code == HIO_FAILED || code == HIO_READER_FAILED;
        return Ask(ctx, code, has_text ? hio_error() : "", answer);
      }
      answer = {nullptr, 0, nullptr, step.samples, step.weight};
      if (bad > 0) TF_RETURN_IF_ERROR(Ask(ctx, HIO_OK, "", answer));
      if (answer.is_good != nullptr) {
        for (tf::Tensor& part : parts) part = Good<tf::tstring>(ctx, answer, step.samples, part);
      }
      Finish(ctx, step, answer, parts, out);
      hio_queue_hand_out(queue_.get(), std::chrono::nanoseconds(
          std::chrono::steady_clock::now() - start).count());
      return absl::OkStatus();
    }

    // A tensor for each part, and where the bytes of each record go.
    static std::vector<std::int64_t> MakeRoom(tf::data::IteratorContext* ctx, const HioStep& step,
                                              std::vector<tf::Tensor>& parts) {
      std::vector<std::int64_t> places(static_cast<std::size_t>(step.samples * step.parts));
      for (std::int64_t part = 0; part < step.parts; ++part) {
        parts.emplace_back(ctx->allocator({}), tf::DT_STRING, tf::TensorShape({step.samples}));
        auto records = parts.back().vec<tf::tstring>();
        for (std::int64_t i = 0; i < step.samples; ++i) {
          const std::int64_t record = i * step.parts + part;
          records(i).resize_uninitialized(static_cast<std::size_t>(step.sizes[record]));
          places[static_cast<std::size_t>(record)] =
              reinterpret_cast<std::int64_t>(records(i).mdata());
        }
      }
      return places;
    }

    // `all` without what is not good.
    template <class Value>
    static tf::Tensor Good(tf::data::IteratorContext* ctx, const HioAnswer& answer,
                           std::int64_t samples, tf::Tensor& all) {
      tf::Tensor good(ctx->allocator({}), all.dtype(), tf::TensorShape({answer.size}));
      auto from = all.vec<Value>();
      auto to = good.vec<Value>();
      for (std::int64_t i = 0, next = 0; i < samples && next < answer.size; ++i) {
        if (answer.is_good[i]) to(next++) = std::move(from(i));
      }
      return good;
    }

    void Finish(tf::data::IteratorContext* ctx, const HioStep& step, const HioAnswer& answer,
                std::vector<tf::Tensor>& parts, std::vector<tf::Tensor>* out) const {
      for (tf::Tensor& part : parts) out->push_back(std::move(part));
      // Of no samples there are no labels to see whether the data has some.
      if (dataset()->types_.size() > static_cast<std::size_t>(step.parts) + 2) {
        tf::Tensor labels(ctx->allocator({}), tf::DT_INT64, tf::TensorShape({step.samples}));
        std::copy_n(step.labels, step.samples, labels.vec<std::int64_t>().data());
        out->push_back(answer.is_good == nullptr
                           ? labels
                           : Good<std::int64_t>(ctx, answer, step.samples, labels));
      }
      constexpr std::int64_t kInfos = HIO_INFOS;
      tf::Tensor infos(ctx->allocator({}), tf::DT_INT64, tf::TensorShape({kInfos}));
      std::copy_n(step.infos, kInfos, infos.vec<std::int64_t>().data());
      infos.vec<std::int64_t>()(kSize) = answer.size;
      out->push_back(std::move(infos));
      tf::Tensor weight(ctx->allocator({}), tf::DT_FLOAT, tf::TensorShape({}));
      weight.scalar<float>()() = answer.weight;
      out->push_back(std::move(weight));
    }

    // Python's answer; an error if it is one.
    absl::Status Ask(tf::data::IteratorContext* ctx, int reason, const std::string& text,
                     HioAnswer& answer) {
      int code = HIO_OK;
      TF_RETURN_IF_ERROR(Await(ctx, code, [&] {
        return hio_queue_ask(queue_.get(), reason, text.c_str(), &answer, kLookMilliseconds);
      }));
      if (code == HIO_CLOSED) return Left();
      if (answer.error == nullptr) return absl::OkStatus();
      return answer.is_input ? absl::InvalidArgumentError(answer.error)
                             : absl::UnknownError(answer.error);
    }

    static constexpr int kLong = -1;           // no HIO_*: the wait is a long one
    static constexpr std::int64_t kSize = 4;  // of a batch's whole numbers, see batch.py

    std::mutex mutex_;
    Queue queue_;
    bool is_over_ = false;
    absl::Status failed_;  // what is returned from now on, unless it is OK
  };

  const std::int64_t number_;
  const tf::DataTypeVector types_;
  const std::vector<tf::PartialTensorShape> shapes_;
};

class StepsDatasetOp : public tf::data::DatasetOpKernel {
 public:
  explicit StepsDatasetOp(tf::OpKernelConstruction* ctx) : DatasetOpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("output_types", &types_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("output_shapes", &shapes_));
  }

 protected:
  void MakeDataset(tf::OpKernelContext* ctx, tf::data::DatasetBase** output) override {
    std::int64_t number = 0;
    OP_REQUIRES_OK(ctx, tf::data::ParseScalarArgument<std::int64_t>(ctx, "number", &number));
    *output = new StepsDataset(ctx, number, types_, shapes_);
  }

 private:
  tf::DataTypeVector types_;
  std::vector<tf::PartialTensorShape> shapes_;
};

REGISTER_KERNEL_BUILDER(Name("HorovodOptStepsDataset").Device(tf::DEVICE_CPU), StepsDatasetOp);

}  // namespace
}  // namespace horovod_opt
