// The job's memory (DeepIO, DOI 10.1109/MASCOTS.2018.00023): what one node has read and keeps is
// not read again by another.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "horovod_opt/csrc/io/files/open_files.h"
#include "horovod_opt/csrc/io/kept/chunk_client.h"
#include "horovod_opt/csrc/io/kept/chunk_server.h"
#include "horovod_opt/csrc/io/kept/kept_chunks.h"
#include "horovod_opt/csrc/io/node_cache/chunk_source.h"

namespace horovod_opt {
namespace io {

// One node's part of it: the chunks that have their home here, the server that gives them to other
// nodes, and the client that gets the others'. Which chunk has its home where is a table that all
// nodes have computed alike.
//
// Invariants:
//   (1) a home reads a chunk once, whoever needs it; that waits for storage alone;
//   (2) what is kept, or comes from another node, is compared with the checksums of the index
//       before ranks see it. Whatever is wrong with it, the bytes come from storage instead;
//   (3) a load asks, and claims a chunk, only when it has its room in the node cache: whoever waits
//       for a chunk that is being read waits for nobody who waits for room;
//   (4) a parcel waits for several homes, one after the other, and holds nothing that any of them
//       waits for: no chunk that it has claimed itself, and no lock. So it waits for storage alone,
//       as (3) has it of a chunk;
//   (5) what is filled is claimed in the order of the data and read in this order, so each chunk is
//       read once, by whoever asks for it meanwhile, too.
//
// Then no nodes wait in a circle, though ranks wait for ranks of other nodes in collective
// operations, and with deal="job" each node needs chunks of all others in each step. Say rank r has
// the lowest step of all ranks of the job, s. None of its node's ranks is below s: so by the proof
// of LoadCheck the node's loads of step s have room, or get it without anybody else's doing. With
// room a load waits for a home only, and the home, by (1) and (3), for storage: so it comes, and r
// takes step s. In a collective operation behind it r waits for ranks that have not come to it,
// which are at s as well, and for which the same holds. So all come to it, and the lowest step
// rises. A node that is lost, or stands still, is waited for no longer than the client's patience.
//
// What is to be kept because another node has asked for it, or though this node's ranks need a part
// of it only, is read by whoever calls Wait() and Fill(), who knows the index.
class JobMemory : public ChunkSource {
 public:
  static constexpr std::int32_t kNowhere = -1;

  struct Counters {
    std::atomic<std::int64_t> peer_bytes{0}, peer_requests{0}, served_bytes{0}, fallback_bytes{0};
  };
  enum class EventKind { kStop, kWanted, kLost, kNoRoom };
  struct Event {
    EventKind kind;
    std::int64_t number;  // of the chunk, or of the node
    std::string why;      // of a node that is lost, "": it has ended well; of a lack of room
  };
  struct Options {
    ChunkServer::Options server;
    ChunkClient::Options client;
  };

  // Of KeptChunks: `bytes` and `folder`.
  JobMemory(std::vector<std::int64_t> bytes, const std::string& folder,
            const Fingerprint& fingerprint, FileTable files, Options options);
  ~JobMemory() override;

  // Others may ask at the port that it returns, once they know the secret. Throws std::exception.
  std::string Serve(const std::string& host, const std::string& secret);
  // The node that keeps each chunk, kNowhere for none, from now on; this one is number `self` of
  // `nodes`. All of them are asked again.
  void SetHomes(const std::vector<std::int32_t>& homes, int self, std::vector<PeerNode> nodes);

  Place Find(const Load& load, const std::atomic<bool>& stop) override;
  bool Take(const Load& load, Place place, char* buffer, const std::atomic<bool>& stop) override;
  void Keep(const Load& load, const char* buffer, bool is_damaged) override;
  std::vector<std::size_t> Collect(const Load& load, char* buffer,
                                   const std::atomic<bool>& stop) override;

  // Sleeps until there is something to do. kWanted: Fill() or Refuse() the chunk.
  Event Wait();
  void Fill(const Load& load);
  void Refuse(std::int64_t chunk) { chunks_.Refuse(chunk); }
  // All that has its home here and is missing is wanted, in the order of the data.
  void WantAll();

  // Serves and keeps nothing any more; what needs chunks reads storage. Wait() returns kStop.
  void Stop();
  // In a process that was forked: closes what must not stay open there.
  void Forget();

  const KeptChunks& chunks() const { return chunks_; }
  const Counters& counters() const { return counters_; }
  const io::Counters& storage_counters() const { return storage_counters_; }

 private:
  // What changes when homes do; who uses one goes on with it.
  struct Table {
    std::vector<std::int32_t> homes;
    int self;
    ChunkClient client;
  };

  std::shared_ptr<Table> table() const;
  void Want(std::int64_t chunk);
  // Whether this node keeps it: its bytes have come then.
  bool ReadHere(const ChunkRange& range, const std::atomic<bool>& stop);
  void AddEvent(Event event);
  void WakeServer();

  const Fingerprint fingerprint_;
  const Options options_;
  KeptChunks chunks_;
  Counters counters_;
  io::Counters storage_counters_{};
  std::atomic<bool> stop_{false};
  OpenFiles files_;
  ExtentReader read_;
  mutable std::mutex mutex_;
  std::condition_variable has_event_;
  std::deque<Event> events_;
  bool lacks_room_ = false;
  std::shared_ptr<Table> table_;
  std::mutex server_mutex_;
  std::unique_ptr<ChunkServer> server_;
};

}  // namespace io
}  // namespace horovod_opt
