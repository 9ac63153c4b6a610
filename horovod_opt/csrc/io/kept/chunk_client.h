// Asks other nodes for the chunks that they keep.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "horovod_opt/csrc/core/base/file_descriptor.h"
#include "horovod_opt/csrc/io/kept/peer_frames.h"

namespace horovod_opt {
namespace io {

struct PeerNode {
  std::string host, port;  // numbers
  std::string secret;
};

// Bytes of a chunk, and where they go.
struct ChunkRange {
  std::int64_t chunk, begin, end;
  char* to;
  bool is_there = false;  // they have come
};

// For several threads, each of which waits for its answers on a connection of its own. A node that
// closes one, says nothing for `patience` or answers what was not asked for is lost: this client
// does not ask it again.
class ChunkClient {
 public:
  struct Options {
    std::chrono::milliseconds patience = std::chrono::seconds(5);
    std::size_t most_connections = 256;  // to all nodes
  };
  enum class Result {
    kAnswered,  // ChunkRange::is_there of each says how
    kLost,      // the node is
    kStopped,
  };
  // Why a node is lost; "": it has said that it keeps nothing any more.
  using OnLost = std::function<void(int node, const std::string& why)>;

  ChunkClient(std::vector<PeerNode> nodes, const Fingerprint& fingerprint, OnLost on_lost,
              Options options);
  ~ChunkClient();

  // All that the node keeps of these ranges, in one round trip where they are at most kMostAsked;
  // further ones are asked for while answers come. Ends early once `stop` is set.
  Result Fetch(int node, std::vector<ChunkRange>& ranges, const std::atomic<bool>& stop);
  int nodes() const { return static_cast<int>(nodes_.size()); }
  bool is_lost(int node) const { return is_lost_[static_cast<std::size_t>(node)]; }

 private:
  class Connection;
  struct Idle {
    int node;
    std::unique_ptr<Connection> connection;
  };

  std::unique_ptr<Connection> Take(int node);
  void GiveBack(int node, std::unique_ptr<Connection> connection);
  void Lose(int node, const std::string& why);

  const std::vector<PeerNode> nodes_;
  const Fingerprint fingerprint_;
  const OnLost on_lost_;
  const Options options_;
  std::vector<std::atomic<bool>> is_lost_;
  std::mutex mutex_;
  std::list<Idle> idle_;  // the last used first
  std::size_t open_ = 0;  // connections, of those in use too
};

}  // namespace io
}  // namespace horovod_opt
