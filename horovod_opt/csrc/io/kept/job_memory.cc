#include "horovod_opt/csrc/io/kept/job_memory.h"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <new>
#include <system_error>
#include <utility>

#include "horovod_opt/csrc/io/files/crc32c.h"

namespace horovod_opt {
namespace io {
namespace {

constexpr std::size_t kMostOpenToKeep = 8;
// Bytes between two records that are sent along: a request costs more than they do. From storage a
// load's extents bring more, as a request costs more there.
constexpr std::int64_t kSentAlong = 2 << 10;

bool IsGood(const RecordCheck& record, const char* buffer) {
  return Crc32c(0, buffer + record.place, static_cast<std::size_t>(record.bytes)) ==
         record.checksum;
}

bool IsGood(const Load& load, const char* buffer) {
  return std::all_of(load.records.begin(), load.records.end(),
                     [buffer](const RecordCheck& record) { return IsGood(record, buffer); });
}

// What the node needs of the chunk: its records, or its extents where they are not known.
std::vector<ChunkRange> RangesOf(const Load& load, char* buffer) {
  std::vector<std::pair<std::int64_t, std::int64_t>> pieces;  // place, end
  for (const RecordCheck& record : load.records) {
    pieces.emplace_back(record.place, record.place + record.bytes);
  }
  for (const Extent& extent : load.extents) {
    if (load.records.empty()) pieces.emplace_back(extent.place, extent.place + extent.bytes);
  }
  std::sort(pieces.begin(), pieces.end());
  std::vector<ChunkRange> ranges;
  for (const auto& [place, end] : pieces) {
    if (!ranges.empty() && place - ranges.back().end <= kSentAlong) {
      ranges.back().end = std::max(ranges.back().end, end);
    } else {
      ranges.push_back({load.chunk, place, end, buffer + place});
    }
  }
  return ranges;
}

std::int64_t BytesOf(const Load& load) {
  std::int64_t bytes = 0;
  for (const Extent& extent : load.extents) bytes += extent.bytes;
  return bytes;
}

}  // namespace

JobMemory::JobMemory(std::vector<std::int64_t> bytes, const std::string& folder,
                     const Fingerprint& fingerprint, FileTable files, Options options)
    : fingerprint_(fingerprint),
      options_(options),
      chunks_(std::move(bytes), folder),
      files_(std::move(files), kMostOpenToKeep),
      read_(files_, storage_counters_, stop_, pread) {}

JobMemory::~JobMemory() { Stop(); }

std::string JobMemory::Serve(const std::string& host, const std::string& secret) {
  auto server = std::make_unique<ChunkServer>(
      chunks_, fingerprint_, host, secret, [this](std::int64_t chunk) { Want(chunk); },
      counters_.served_bytes, options_.server);
  const std::string port = server->port();
  {
    std::lock_guard<std::mutex> lock(server_mutex_);
    server.swap(server_);
  }
  chunks_.OnChange([this] { WakeServer(); });
  return port;  // one of before ends without the lock: its thread may be about to take it
}

void JobMemory::WakeServer() {
  std::lock_guard<std::mutex> lock(server_mutex_);
  if (server_ != nullptr) server_->Wake();
}

void JobMemory::SetHomes(const std::vector<std::int32_t>& homes, int self,
                         std::vector<PeerNode> nodes) {
  std::vector<bool> is_here;
  for (const std::int32_t home : homes) is_here.push_back(home == self);
  chunks_.SetHomes(is_here);
  auto table = std::shared_ptr<Table>(new Table{
      homes, self,
      ChunkClient(
          std::move(nodes), fingerprint_,
          [this](int node, const std::string& why) { AddEvent({EventKind::kLost, node, why}); },
          options_.client)});
  std::lock_guard<std::mutex> lock(mutex_);
  table_.swap(table);
}

std::shared_ptr<JobMemory::Table> JobMemory::table() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return table_;
}

ChunkSource::Place JobMemory::Find(const Load& load, const std::atomic<bool>& stop) {
  const auto known = table();
  if (load.is_parcel) return Place::kParcel;
  if (stop_ || known == nullptr || load.chunk < 0) return Place::kStorage;
  const std::int32_t home = known->homes[static_cast<std::size_t>(load.chunk)];
  if (home == kNowhere) return Place::kStorage;
  if (home != known->self) return Place::kPeer;
  if (load.is_whole && chunks_.Claim(load.chunk)) return Place::kToKeep;
  Want(load.chunk);
  if (chunks_.Await(load.chunk, stop) == KeptChunks::State::kKept) return Place::kHere;
  if (!stop) counters_.fallback_bytes += BytesOf(load);
  return Place::kStorage;
}

bool JobMemory::Take(const Load& load, Place place, char* buffer, const std::atomic<bool>& stop) {
  std::vector<ChunkRange> ranges = RangesOf(load, buffer);
  if (place == Place::kHere) {
    return std::all_of(ranges.begin(), ranges.end(),
                       [&](const ChunkRange& range) {
                         return chunks_.Read(load.chunk, range.begin, range.end - range.begin,
                                             range.to);
                       }) &&
           IsGood(load, buffer);
  }
  const auto known = table();
  if (stop_ || known == nullptr) return false;
  const std::int32_t home = known->homes[static_cast<std::size_t>(load.chunk)];
  if (home == kNowhere || home == known->self) return false;  // there are other homes since
  const ChunkClient::Result result = known->client.Fetch(home, ranges, stop);
  const bool are_there = std::all_of(ranges.begin(), ranges.end(),
                                     [](const ChunkRange& range) { return range.is_there; });
  if (are_there && IsGood(load, buffer)) {
    counters_.peer_requests += static_cast<std::int64_t>(ranges.size());
    for (const ChunkRange& range : ranges) counters_.peer_bytes += range.end - range.begin;
    return true;
  }
  if (result != ChunkClient::Result::kStopped) counters_.fallback_bytes += BytesOf(load);
  return false;
}

void JobMemory::Keep(const Load& load, const char* buffer, bool is_damaged) {
  if (buffer == nullptr) {
    chunks_.Release(load.chunk);
  } else if (is_damaged || !IsGood(load, buffer)) {
    chunks_.Refuse(load.chunk);
  } else if (const int error = chunks_.Keep(load.chunk, buffer)) {
    std::unique_lock<std::mutex> lock(mutex_);
    if (std::exchange(lacks_room_, true)) return;
    lock.unlock();
    AddEvent({EventKind::kNoRoom, load.chunk, std::generic_category().message(error)});
  }
}

// Each home is asked once for all that it keeps; after this node's own chunks, that of the next
// node's, so that not all nodes ask one.
std::vector<std::size_t> JobMemory::Collect(const Load& load, char* buffer,
                                            const std::atomic<bool>& stop) {
  const auto known = table();
  std::vector<bool> is_there(load.extents.size(), false), has_home(load.extents.size(), false);
  std::map<std::int32_t, std::vector<std::size_t>> of_home;  // by how far behind this node
  for (std::size_t i = 0; !stop_ && known != nullptr && i < load.extents.size(); ++i) {
    const std::int32_t home = known->homes[static_cast<std::size_t>(load.origins[i].chunk)];
    if (home == kNowhere) continue;
    has_home[i] = true;
    const auto nodes = known->client.nodes();
    of_home[(home - known->self + nodes) % nodes].push_back(i);
  }
  for (const auto& [distance, numbers] : of_home) {
    std::vector<ChunkRange> ranges;
    for (const std::size_t i : numbers) {
      const Extent& extent = load.extents[i];
      const Origin& origin = load.origins[i];
      ranges.push_back({origin.chunk, origin.place, origin.place + extent.bytes,
                        buffer + extent.place});
    }
    if (distance == 0) {
      for (const ChunkRange& range : ranges) Want(range.chunk);
      for (ChunkRange& range : ranges) range.is_there = ReadHere(range, stop);
    } else {
      known->client.Fetch((known->self + distance) % known->client.nodes(), ranges, stop);
    }
    for (std::size_t k = 0; k < numbers.size(); ++k) {
      const std::size_t i = numbers[k];
      is_there[i] = ranges[k].is_there &&
                    (load.records.empty() || IsGood(load.records[i], buffer));
      if (distance == 0 || !is_there[i]) continue;
      ++counters_.peer_requests;
      counters_.peer_bytes += load.extents[i].bytes;
    }
  }
  std::vector<std::size_t> missing;
  for (std::size_t i = 0; i < load.extents.size(); ++i) {
    if (is_there[i]) continue;
    missing.push_back(i);
    if (has_home[i] && !stop) counters_.fallback_bytes += load.extents[i].bytes;
  }
  return missing;
}

bool JobMemory::ReadHere(const ChunkRange& range, const std::atomic<bool>& stop) {
  return chunks_.Await(range.chunk, stop) == KeptChunks::State::kKept &&
         chunks_.Read(range.chunk, range.begin, range.end - range.begin, range.to);
}

void JobMemory::WantAll() {
  for (std::int64_t chunk = 0; chunk < chunks_.count(); ++chunk) Want(chunk);
}

void JobMemory::Want(std::int64_t chunk) {
  if (!chunks_.Claim(chunk)) return;
  AddEvent({EventKind::kWanted, chunk, ""});
  if (stop_) chunks_.Release(chunk);  // perhaps nobody waits for events any more
}

void JobMemory::AddEvent(Event event) {
  std::lock_guard<std::mutex> lock(mutex_);
  // Of what is wanted there may be much: what is to be said does not wait for it.
  events_.insert(event.kind == EventKind::kWanted ? events_.end() : events_.begin(),
                 std::move(event));
  has_event_.notify_one();
}

JobMemory::Event JobMemory::Wait() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    has_event_.wait(lock, [this] { return stop_ || !events_.empty(); });
    if (stop_) return {EventKind::kStop, 0, ""};
    Event event = std::move(events_.front());
    events_.pop_front();
    // A chunk may have got another home since it was wanted.
    if (event.kind != EventKind::kWanted ||
        chunks_.state(event.number) == KeptChunks::State::kReading) {
      return event;
    }
  }
}

void JobMemory::Fill(const Load& load) try {
  std::vector<char> buffer(static_cast<std::size_t>(load.bytes));
  Damages damages{};
  for (const Extent& extent : load.extents) read_(extent, buffer.data(), damages);
  Keep(load, stop_ ? nullptr : buffer.data(), !damages.empty());
} catch (const std::bad_alloc&) {
  Refuse(load.chunk);
}

void JobMemory::Stop() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (stop_.exchange(true)) return;
    has_event_.notify_all();
  }
  chunks_.OnChange(nullptr);
  std::unique_ptr<ChunkServer> server;
  {
    std::lock_guard<std::mutex> lock(server_mutex_);
    server.swap(server_);
  }
  server.reset();  // without the lock: its thread may be about to take it
  chunks_.Close();
  std::lock_guard<std::mutex> lock(mutex_);
  table_.reset();
}

void JobMemory::Forget() {
  close(chunks_.file().number());
  if (server_ != nullptr) close(server_->listener().number());
}

}  // namespace io
}  // namespace horovod_opt
