#include "horovod_opt/csrc/core/shared_memory/presence.h"

#include <errno.h>
#include <pthread.h>

#include <system_error>

namespace horovod_opt {

struct alignas(64) Presence::Place {
  pthread_mutex_t mutex;
};

namespace {

void Check(int error, const char* what) {
  if (error != 0) throw std::system_error(error, std::generic_category(), what);
}

}  // namespace

std::size_t Presence::Bytes(int ranks) { return static_cast<std::size_t>(ranks) * sizeof(Place); }

Presence::Presence(void* memory, int rank, int ranks)
    : places_(static_cast<Place*>(memory)), rank_(rank), ranks_(ranks) {}

void Presence::Enter() {
  pthread_mutexattr_t attributes;
  Check(pthread_mutexattr_init(&attributes), "pthread_mutexattr_init");
  Check(pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED), "a shared mutex");
  Check(pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST), "a robust mutex");
  Check(pthread_mutex_init(&places_[rank_].mutex, &attributes), "pthread_mutex_init");
  pthread_mutexattr_destroy(&attributes);
  Check(pthread_mutex_lock(&places_[rank_].mutex), "pthread_mutex_lock");
}

void Presence::Close() { pthread_mutex_unlock(&places_[rank_].mutex); }

int Presence::Missing() const {
  for (int rank = 0; rank < ranks_; ++rank) {
    if (rank == rank_) continue;
    pthread_mutex_t* const mutex = &places_[rank].mutex;
    const int held = pthread_mutex_trylock(mutex);
    if (held == EBUSY) continue;
    // So that other ranks can see it, too.
    if (held == EOWNERDEAD) pthread_mutex_consistent(mutex);
    if (held == 0 || held == EOWNERDEAD) pthread_mutex_unlock(mutex);
    return rank;
  }
  return -1;
}

}  // namespace horovod_opt
