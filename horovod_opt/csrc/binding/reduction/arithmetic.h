// Elementwise reduction and scaling of Horovod's data types, with the results of its own
// operations.
#pragma once

#include "horovod/common/message.h"
#include "horovod_opt/csrc/core/reduction/node_collectives.h"

namespace horovod_opt {

// Throws std::logic_error for a reduction that has none (Adasum).
Arithmetic ArithmeticOf(horovod::common::DataType dtype, horovod::common::ReduceOp reduce_op);

}  // namespace horovod_opt
