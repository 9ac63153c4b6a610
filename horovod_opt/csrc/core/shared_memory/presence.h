// Robust mutexes (POSIX), which tell the ranks of a group that are still there.
#pragma once

#include <errno.h>
#include <pthread.h>

#include <cstddef>
#include <system_error>

namespace horovod_opt {

// Lives in zeroed shared memory, aligned to 64: a mutex for each rank, which the rank holds as long
// as it takes part. The kernel gives up a robust mutex when the thread that holds it ends, however
// it ends, so who can lock the mutex of another rank knows that the rank is gone.
//
// Invariants:
// 1. Every rank has called Enter() before any calls Missing(); something else orders them.
// 2. Close() is called by the thread that called Enter(), before the memory is unmapped: the kernel
//    looks at it when that thread ends.
class Presence {
 public:
  static std::size_t Bytes(int ranks) { return static_cast<std::size_t>(ranks) * sizeof(Place); }

  Presence(void* memory, int rank, int ranks)
      : places_(static_cast<Place*>(memory)), rank_(rank), ranks_(ranks) {}

  // Throws std::system_error if there are no such mutexes.
  void Enter() {
    pthread_mutexattr_t attributes;
    Check(pthread_mutexattr_init(&attributes), "pthread_mutexattr_init");
    Check(pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED), "a shared mutex");
    Check(pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST), "a robust mutex");
    Check(pthread_mutex_init(&places_[rank_].mutex, &attributes), "pthread_mutex_init");
    pthread_mutexattr_destroy(&attributes);
    Check(pthread_mutex_lock(&places_[rank_].mutex), "pthread_mutex_lock");
  }
  void Close() { pthread_mutex_unlock(&places_[rank_].mutex); }

  // The first other rank that has left or whose thread has ended; -1: none. Any thread.
  int Missing() const {
    for (int rank = 0; rank < ranks_; ++rank) {
      if (rank == rank_) continue;
      pthread_mutex_t* const mutex = &places_[rank].mutex;
      const int result = pthread_mutex_trylock(mutex);
      if (result == EBUSY) continue;
      // So that other ranks can see it, too.
      if (result == EOWNERDEAD) pthread_mutex_consistent(mutex);
      if (result == 0 || result == EOWNERDEAD) pthread_mutex_unlock(mutex);
      return rank;
    }
    return -1;
  }

 private:
  struct alignas(64) Place {
    pthread_mutex_t mutex;
  };

  static void Check(int error, const char* what) {
    if (error != 0) throw std::system_error(error, std::generic_category(), what);
  }

  Place* const places_;
  const int rank_;
  const int ranks_;
};

}  // namespace horovod_opt
