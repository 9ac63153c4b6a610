// Event loop of Gloo's TCP transport: whether its thread sleeps in epoll until something happens.
#pragma once

#include "horovod_opt/csrc/binding/base/state.h"

namespace horovod_opt {

// In mode topo. Otherwise it looks every 10 ms, as upstream's does. Before the ranks can talk.
inline bool GlooSleeps() {
  return GlobalState().Has(HOROVOD_OPT_MODE_TOPO | HOROVOD_OPT_MODE_AUTO);
}

}  // namespace horovod_opt
