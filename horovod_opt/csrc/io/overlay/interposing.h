// How a function of libc is put in front of libc's own.
#pragma once

#include <dlfcn.h>

// Defines what programs find under `name`, without the declarations of libc's headers.
#define HOROVOD_OPT_INTERPOSE(result, name, ...)                                      \
  extern "C" __attribute__((visibility("default"))) result Interposed_##name(__VA_ARGS__) \
      __asm__(#name);                                                                 \
  extern "C" __attribute__((visibility("default"))) result Interposed_##name(__VA_ARGS__)

// What programs would have found: libc's, or another preloaded library's.
#define HOROVOD_OPT_NEXT(name)                                                        \
  ([] {                                                                               \
    static const auto next =                                                          \
        reinterpret_cast<decltype(&Interposed_##name)>(dlsym(RTLD_NEXT, #name));      \
    return next;                                                                      \
  }())
