// Which ranks of a group are still there.
#pragma once

#include <cstddef>

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
  static std::size_t Bytes(int ranks);

  Presence(void* memory, int rank, int ranks);

  // Throws std::system_error if there are no such mutexes.
  void Enter();
  void Close();

  // The first other rank that has left or whose thread has ended; -1: none. Any thread.
  int Missing() const;

 private:
  struct Place;

  Place* const places_;
  const int rank_;
  const int ranks_;
};

}  // namespace horovod_opt
