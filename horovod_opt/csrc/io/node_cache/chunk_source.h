// Where the bytes of a load may come from, other than from storage.
#pragma once

#include <atomic>
#include <cstddef>
#include <vector>

#include "horovod_opt/csrc/io/node_cache/load_check.h"

namespace horovod_opt {
namespace io {

// Below the node cache: which load comes when, and what ranks see of it, does not depend on it. For
// several threads. Nothing here waits for a rank, or for room in the node cache: or else the proof
// of LoadCheck would not hold.
class ChunkSource {
 public:
  enum class Place {
    kStorage,  // nobody keeps it
    kHere,     // this node does
    kPeer,     // another one does
    kToKeep,   // this node is to keep it: read all of it from storage, then call Keep()
    kParcel,   // of many chunks: call Collect()
  };

  virtual ~ChunkSource() = default;

  // Waits while another thread reads the chunk.
  virtual Place Find(const Load& load, const std::atomic<bool>& stop) = 0;
  // Of kHere and kPeer: brings the load's bytes. False: they have to come from storage after all.
  virtual bool Take(const Load& load, Place place, char* buffer, const std::atomic<bool>& stop) = 0;
  // Of kToKeep: what was read; null: it was not, or has damages.
  virtual void Keep(const Load& load, const char* buffer, bool is_damaged) = 0;
  // Of kParcel: brings what somebody keeps. Returns which of the load's extents have to come from
  // storage, ascending.
  virtual std::vector<std::size_t> Collect(const Load& load, char* buffer,
                                           const std::atomic<bool>& stop) = 0;
};

}  // namespace io
}  // namespace horovod_opt
