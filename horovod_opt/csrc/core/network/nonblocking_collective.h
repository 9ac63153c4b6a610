// A collective over one rank of each group that has been begun and that nobody waits for.
#pragma once

#include "horovod_opt/csrc/core/network/buffer_pool.h"
#include "horovod_opt/csrc/core/network/transport.h"

namespace horovod_opt {

// For one thread.
class Nonblocking {
 public:
  virtual ~Nonblocking() = default;

  // Does what can be done at once. True if it has ended.
  virtual bool Advance(Transport& transport, BufferPool& buffers) = 0;
};

}  // namespace horovod_opt
