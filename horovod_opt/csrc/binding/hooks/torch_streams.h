// The streams of PyTorch, for StreamEnds.
#pragma once

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime.h>

#include <memory>

#include "horovod_opt/csrc/core/reduction/stream_ends.h"

namespace horovod_opt {

struct TorchStreams {
  using Stream = c10::cuda::CUDAStream;
  using Event = std::shared_ptr<cudaEvent_t>;

  static Stream Current(int device) {
    return c10::cuda::getCurrentCUDAStream(static_cast<c10::DeviceIndex>(device));
  }
  // The event may have been recorded again since, as upstream reuses them: on the same stream, so
  // what is waited for is the same and more.
  static void Wait(const Stream& stream, const Event& event) {
    C10_CUDA_CHECK(cudaStreamWaitEvent(stream, *event, 0));
  }
  static void WaitOnHost(const Event& event) { C10_CUDA_CHECK(cudaEventSynchronize(*event)); }
};

}  // namespace horovod_opt
