#include "horovod_opt/csrc/io/files/guarded_copy.h"

#include <setjmp.h>
#include <signal.h>

#include <atomic>
#include <cstring>

namespace horovod_opt {
namespace io {
namespace {

// Where this thread goes on after SIGBUS. In static memory of the thread: a handler may not
// allocate.
__attribute__((tls_model("initial-exec"))) thread_local sigjmp_buf* volatile way_out = nullptr;

struct sigaction before;

void OnBusError(int signal, siginfo_t* info, void* context) {
  if (way_out != nullptr) siglongjmp(*way_out, 1);
  if (before.sa_flags & SA_SIGINFO) {
    before.sa_sigaction(signal, info, context);
  } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
    before.sa_handler(signal);
  } else {
    sigaction(SIGBUS, &before, nullptr);  // it comes again at once
  }
}

bool SetHandler() {
  struct sigaction ours = {};
  ours.sa_sigaction = OnBusError;
  ours.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;  // not blocked: sigsetjmp saves no mask
  sigaction(SIGBUS, nullptr, &before);
  return sigaction(SIGBUS, &ours, nullptr) == 0;
}

}  // namespace

bool CopyGuarded(char* to, const char* from, std::int64_t bytes) {
  static const bool is_guarded = SetHandler();
  sigjmp_buf here;
  if (!is_guarded || sigsetjmp(here, /*savemask=*/0) != 0) {
    way_out = nullptr;
    return false;
  }
  way_out = &here;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  std::memcpy(to, from, static_cast<std::size_t>(bytes));
  std::atomic_signal_fence(std::memory_order_seq_cst);
  way_out = nullptr;
  return true;
}

}  // namespace io
}  // namespace horovod_opt
