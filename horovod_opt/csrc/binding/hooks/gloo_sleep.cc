#include "horovod_opt/csrc/binding/hooks/gloo_sleep.h"

#include "horovod_opt/csrc/binding/base/state.h"

namespace horovod_opt {

bool GlooSleeps() { return GlobalState().Has(HOROVOD_OPT_MODE_TOPO | HOROVOD_OPT_MODE_AUTO); }

}  // namespace horovod_opt
