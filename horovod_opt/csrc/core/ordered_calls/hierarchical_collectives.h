// Hierarchical collectives: those of all ranks of a group, in the memory of a host and, if the group
// is on several (groups.h), between the ranks of one number of all of them. As internode_buckets.h
// describes, but one call after the other, by the thread that performs it.
//
// Before any output is written all ranks have compared their tags: those of a host in its memory, and
// those of one number by an allreduce, with which every call between hosts begins.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <vector>

#include "horovod_opt/csrc/core/elements/bucket_reduction.h"
#include "horovod_opt/csrc/core/network/block_ring.h"
#include "horovod_opt/csrc/core/network/groups.h"
#include "horovod_opt/csrc/core/network/nonblocking_allreduce.h"
#include "horovod_opt/csrc/core/ordered_calls/host_links.h"
#include "horovod_opt/csrc/core/reduction/node_collectives.h"
#include "horovod_opt/csrc/core/waiting/event_count.h"

namespace horovod_opt {

// Ranks of other hosts have made another call.
class HostsDiffer : public std::logic_error {
 public:
  HostsDiffer() : std::logic_error("ranks of other hosts have made another call") {}
};

// One rank's part. All ranks make the same calls in the same order, from one thread at a time. They
// return false if `stop` was set, or the links are closed. They throw std::logic_error on all ranks of
// a host if their tags differ, HostsDiffer if those of hosts do, and std::runtime_error if another
// host cannot be reached; nothing is of any use afterwards.
class HierarchicalCollectives {
 public:
  struct Call {
    std::uint64_t tag;
    const std::atomic<bool>& stop;
    WaitCounts& waits;
  };

  // `groups`: of which the ranks of this one have `node`. `links`: null if it is the only one.
  HierarchicalCollectives(NodeCollectives& node, Groups groups, HostLinks* links);

  // As of NodeCollectives, but the sums of a host are added up as a number is.
  bool Allreduce(const std::shared_ptr<const BucketReduction>& bucket, const Call& call);
  // Copies `bytes` bytes of `root` to all others.
  bool Broadcast(void* data, std::int64_t bytes, int root, const Call& call);
  // `bytes` bytes of each rank, in the order of ranks.
  bool Allgather(const void* data, std::int64_t bytes, void* output, const Call& call);
  // Of the sum of `data` each rank gets its `bytes` bytes, in the order of ranks.
  bool ReduceScatter(const void* data, void* output, std::int64_t bytes,
                     const Arithmetic& arithmetic, double prescale, double postscale,
                     const Call& call);
  // Of a group on one host alone: each rank gives every rank a piece.
  bool Alltoall(const PieceCopy::Pieces& pieces, const Call& call);

 private:
  bool OnOneHost() const { return links_ == nullptr; }
  int ranks() const { return static_cast<int>(groups_.ranks.size()); }
  int hosts() const { return static_cast<int>(groups_.cross.size()); }
  // The rank of a number on a host.
  int RankAt(int host, int number) const { return groups_.all[host * ranks() + number]; }
  int PlaceOf(int rank) const;

  bool Compare(const Call& call);
  bool Exchange(AllreduceData data, const Call& call);
  bool GoRound(BlockRing::Kind kind, BlockRing::Memory memory,
               const std::vector<BlockRing::Block>& blocks, const Arithmetic& arithmetic,
               const Call& call);
  char* Take(BufferPool::Buffer& buffer, std::int64_t bytes);

  NodeCollectives& node_;
  const Groups groups_;
  HostLinks* const links_;
  // Of a call, until the next one: links may have to do with it after that call has failed.
  BufferPool buffers_{0};
  BufferPool::Buffer part_, gathered_;
};

}  // namespace horovod_opt
