// What a thread does between two looks at a word that another core may change.
#pragma once

namespace horovod_opt {

inline void Pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace horovod_opt
