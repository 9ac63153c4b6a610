// Read-ahead: the reader's threads, which read chunks into the node cache before ranks need them.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "horovod_opt/csrc/io/node_cache/chunk_source.h"
#include "horovod_opt/csrc/io/node_cache/load_check.h"
#include "horovod_opt/csrc/io/files/open_files.h"
#include "horovod_opt/csrc/io/node_cache/read_extent.h"
#include "horovod_opt/csrc/io/node_cache/node_cache.h"
#include "horovod_opt/csrc/io/node_cache/chunk_buffers.h"

namespace horovod_opt {
namespace io {

class Loader {
 public:
  // Whether these bytes of an open file need not be read.
  using Cached = std::function<bool(int file, std::int64_t offset, std::int64_t bytes)>;

  // Of `read` see ExtentReader; `cached` may be empty, `source` null. What a thread throws fails the node cache.
  // The threads have the cores of the thread that calls this, and sleep whenever there is nothing
  // to read or no room for it.
  Loader(NodeCache& cache, FileTable files, int threads, ExtentReader::Read read,
         Cached cached = {}, std::shared_ptr<ChunkSource> source = nullptr);
  // Ends the threads, after what they are just reading.
  ~Loader();

  // Announces loads, without extents: throws what LoadCheck throws, and none of them is announced.
  void Check(const std::vector<Load>& loads);

  // The next loads. Waits while many are not begun yet. Throws what LoadCheck throws, then none of
  // them is added. False once the node cache has ended.
  bool Add(std::vector<Load> loads);

 private:
  struct NumberedLoad {
    std::int64_t buffer;
    Load load;
  };
  struct LiveLoad {
    std::int64_t number, buffer;
  };

  void Run();
  bool NextToRead(NumberedLoad& next);
  bool TryBegin(NumberedLoad& next);
  std::size_t EntryOf(std::int64_t load) const;
  void FreeWhatIsOver(std::int64_t lowest_step);
  void Read(const NumberedLoad& next);
  void ReadFromStorage(const NumberedLoad& next);
  void ReadExtent(const NumberedLoad& next, const Extent& extent);
  bool IsCached(const Load& load);
  void Pop();

  NodeCache& cache_;
  OpenFiles files_;
  ExtentReader read_;
  const Cached cached_;
  const std::shared_ptr<ChunkSource> source_;

  std::mutex queue_mutex_;
  std::condition_variable queue_changed_;
  LoadCheck announcement_check_, addition_check_;
  std::deque<Load> queue_;  // not begun
  std::int64_t next_ = 0;   // the number of a load that has none
  bool ended_ = false;

  std::mutex turn_;  // for what follows: one thread begins a load, in their order
  std::vector<bool> has_load_;                  // entries whose load is live
  std::multimap<std::int64_t, LiveLoad> live_;  // by last step
  ChunkBuffers buffers_;

  std::vector<std::thread> threads_;
};

}  // namespace io
}  // namespace horovod_opt
