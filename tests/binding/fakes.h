// What a framework gives Horovod with a tensor, made of main memory.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "horovod/common/common.h"

namespace horovod_opt {

class FakeTensor : public horovod::common::Tensor {
 public:
  explicit FakeTensor(std::int64_t elements) : data_(elements) {}

  const horovod::common::DataType dtype() const override {
    return horovod::common::HOROVOD_FLOAT32;
  }
  const horovod::common::TensorShape shape() const override {
    horovod::common::TensorShape shape;
    shape.AddDim(static_cast<std::int64_t>(data_.size()));
    return shape;
  }
  const void* data() const override { return data_.data(); }
  std::int64_t size() const override { return data_.size() * sizeof(float); }

  std::vector<float>& values() { return data_; }

 private:
  std::vector<float> data_;
};

// Gives memory for fusion buffers. Allreduces ask for nothing else.
class FakeContext : public horovod::common::OpContext {
 public:
  horovod::common::Status AllocatePersistent(
      std::int64_t size, std::shared_ptr<horovod::common::PersistentBuffer>* buffer) override {
    *buffer = std::make_shared<Buffer>(size);
    return horovod::common::Status::OK();
  }
  horovod::common::Status AllocateOutput(horovod::common::TensorShape,
                                         std::shared_ptr<horovod::common::Tensor>*,
                                         std::shared_ptr<horovod::common::ReadyEvent>*) override {
    throw std::logic_error("not for allreduces");
  }
  horovod::common::Status AllocateZeros(std::int64_t, horovod::common::DataType,
                                        std::shared_ptr<horovod::common::Tensor>*) override {
    throw std::logic_error("nobody joins");
  }
  horovod::common::Framework framework() const override { return horovod::common::PYTORCH; }

 private:
  class Buffer : public horovod::common::PersistentBuffer {
   public:
    explicit Buffer(std::int64_t size) : data_(size) {}
    const void* AccessData(std::shared_ptr<horovod::common::OpContext>) const override {
      return data_.data();
    }

   private:
    std::vector<char> data_;
  };
};

class FakeReadyEvent : public horovod::common::ReadyEvent {
 public:
  // Waits, as those of PyTorch and TensorFlow do.
  bool Ready() const override {
    while (!opt_ready_now()) std::this_thread::sleep_for(std::chrono::microseconds(20));
    return true;
  }
  bool opt_ready_now() const override { return ready_.load(std::memory_order_acquire); }
  void Set() { ready_.store(true, std::memory_order_release); }
#if HAVE_GPU
  gpuEvent_t event() const override { throw std::logic_error("in main memory"); }
#endif

 private:
  std::atomic<bool> ready_{false};
};

}  // namespace horovod_opt
