// Ranks that meet after each step, on nodes that keep chunks for each other: no node waits in a
// circle, wherever a thread is held up.
#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "horovod_opt/csrc/io/files/crc32c.h"
#include "horovod_opt/csrc/io/kept/job_memory.h"
#include "horovod_opt/csrc/io/node_cache/gather.h"
#include "horovod_opt/csrc/io/node_cache/loader.h"
#include "tests/native/io/test_files.h"
#include "tests/native/waiting/await.h"

namespace horovod_opt {
namespace io {
namespace job_steps_test {

constexpr std::int64_t kRecord = 700, kRecords = 4, kChunk = kRecords * kRecord;  // of a chunk
constexpr std::int64_t kChunks = 12, kWindow = 2, kSteps = 2, kEpochs = 3;  // steps of a window
constexpr int kNodes = 3, kLocal = 2, kRanks = kNodes * kLocal;
const std::string kHost = "127.0.0.1", kSecret = "a secret of the job";

[[noreturn]] void EndIn(const char* where) {
  std::fprintf(stderr, "a circle: nothing goes on %s\n", where);
  std::abort();  // threads wait for each other
}

// Where all ranks meet, as in a collective operation.
class MeetingPoint {
 public:
  void Meet() {
    std::unique_lock<std::mutex> lock(mutex_);
    const int round = round_;
    if (++here_ == kRanks) {
      here_ = 0;
      ++round_;
      changed_.notify_all();
    } else if (!changed_.wait_for(lock, kHang, [&] { return round_ != round; })) {
      EndIn("where ranks meet");
    }
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int here_ = 0, round_ = 0;
};

// Threads stand still, most of them shortly; one in a hundred times long enough for all others to
// go on until they wait for this one.
void StandStill(std::mt19937& random) {
  const unsigned drawn = random() % 1000;
  if (drawn < 10) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  if (drawn < 300) std::this_thread::sleep_for(std::chrono::microseconds(drawn));
}

// A record that a rank takes, by which load of its node it comes, what that says that it is, and
// where the record lies in it.
struct Taken {
  std::int64_t chunk, record, load, mark, place;
};

// Who takes what in which step, of random windows. The records of a window go to all ranks, or
// those of each chunk to the ranks of a node, which then needs all of it.
struct Plan {
  explicit Plan(const TestFiles& files, std::mt19937& random)
      : steps(kEpochs * kChunks / kWindow * kSteps), loads(kNodes) {
    for (auto& step : steps) step.resize(kRanks);
    std::vector<std::int64_t> chunks(kChunks);
    for (std::int64_t i = 0; i < kChunks; ++i) chunks[static_cast<std::size_t>(i)] = i;
    std::int64_t first = 0;
    for (int epoch = 0; epoch < kEpochs; ++epoch) {
      std::shuffle(chunks.begin(), chunks.end(), random);
      for (std::size_t i = 0; i < chunks.size(); i += kWindow, first += kSteps) {
        const bool deals_job = random() % 2 == 0;
        for (std::size_t j = i; j < i + kWindow; ++j) {
          Deal(files, chunks[j], first, deals_job ? -1 : static_cast<int>(random() % kNodes),
               random);
        }
      }
    }
  }

  // The same samples, read as what each rank takes in a window's steps, of whichever chunks.
  void ReadParcels(const TestFiles& files) {
    loads.assign(kNodes, {});
    for (std::size_t first = 0; first < steps.size(); first += kSteps) {
      for (std::size_t rank = 0; rank < kRanks; ++rank) {
        std::vector<Load>& of_node = loads[rank / kLocal];
        const auto number = static_cast<std::int64_t>(of_node.size());
        Load load{static_cast<std::int64_t>(first), static_cast<std::int64_t>(first) + kSteps - 1,
                  0, {}};
        load.is_parcel = true;
        load.chunk = (std::int64_t{1} << 40) + number;
        for (std::size_t step = first; step < first + kSteps; ++step) {
          for (Taken& taken : steps[step][rank]) {
            const std::int64_t place = taken.record * kRecord;
            taken = {taken.chunk, taken.record, number, load.chunk, load.bytes};
            const char* const data = files.contents[0].data() + taken.chunk * kChunk + place;
            load.extents.push_back({0, taken.chunk * kChunk + place, kRecord, load.bytes});
            load.records.push_back({load.bytes, kRecord, Crc32c(0, data, kRecord)});
            load.origins.push_back({taken.chunk, place});
            load.bytes += kRecord;
          }
        }
        of_node.push_back(std::move(load));
      }
    }
  }

  std::vector<std::vector<std::vector<Taken>>> steps;  // by step and rank
  std::vector<std::vector<Load>> loads;                // by node

 private:
  void Deal(const TestFiles& files, std::int64_t chunk, std::int64_t first, int node,
            std::mt19937& random) {
    std::vector<std::vector<std::int64_t>> records(kNodes);
    for (std::int64_t record = 0; record < kRecords; ++record) {
      const auto rank = node < 0 ? random() % kRanks : node * kLocal + random() % kLocal;
      const auto of_node = rank / kLocal;
      steps[static_cast<std::size_t>(first) + random() % kSteps][rank].push_back(
          {chunk, record, static_cast<std::int64_t>(loads[of_node].size()), chunk,
           record * kRecord});
      records[of_node].push_back(record);
    }
    for (std::size_t to = 0; to < kNodes; ++to) {
      if (records[to].empty()) continue;
      Load load{first, first + kSteps - 1, kChunk, {}};
      load.chunk = chunk;
      load.is_whole = static_cast<std::int64_t>(records[to].size()) == kRecords;
      for (const std::int64_t record : records[to]) {
        const std::int64_t place = record * kRecord;
        load.extents.push_back({0, chunk * kChunk + place, kRecord, place});
        load.records.push_back(
            {place, kRecord, Crc32c(0, files.contents[0].data() + chunk * kChunk + place, kRecord)});
      }
      loads[to].push_back(std::move(load));
    }
  }
};

// A node's reader, with room for what one window needs, and its part of the job's memory.
class StepsNode {
 public:
  StepsNode(const TestFiles& files, unsigned seed)
      : files_(files),
        random_(seed),
        memory(std::make_shared<JobMemory>(std::vector<std::int64_t>(kChunks, kChunk), "",
                                           Fingerprint{1}, files.Table(), Patient())),
        cache(NodeCacheMemory::Create({kLocal, std::max<std::int64_t>(kWindow, kLocal),
                                       kWindow * kChunk, kWindow * kChunk, 0})),
        cached_(files.Table(), cache.memory().header().counters, cache.ended_here()) {
    filler_ = std::thread([this] { Fill(); });
  }
  ~StepsNode() {
    memory->Stop();
    filler_.join();
    feeder_.join();
    loader_.reset();
  }

  void Start(std::vector<Load> loads, int threads) {
    const auto pread_late = [this](int file, void* to, std::size_t bytes, off_t offset) {
      Pause();
      return pread(file, to, bytes, offset);
    };
    loader_ = std::make_unique<Loader>(cache, files_.Table(), threads, pread_late,
                                       Loader::Cached{}, memory);
    feeder_ = std::thread([this, loads = std::move(loads)] {
      for (const Load& load : loads) EXPECT_TRUE(loader_->Add({load}));
    });
  }

  void Take(std::int64_t rank, std::int64_t step, const Taken& taken) {
    const char* const expected =
        files_.contents[0].data() + taken.chunk * kChunk + taken.record * kRecord;
    const std::uint32_t checksum = Crc32c(0, expected, kRecord);
    std::string out(kRecord, '\0');
    const std::int64_t size = kRecord, zero = 0;
    const std::int64_t offset = taken.chunk * kChunk + taken.record * kRecord;
    const std::int32_t file = 0;
    Status status = 1;
    std::int64_t begin = 0;
    const GatherResult result = Gather(cache, cached_, rank, step,
                                       {1, &taken.load, &taken.place, &size, &checksum, &file,
                                        &offset, out.data(), &zero, &status, 0, &taken.mark},
                                       begin, kHang);
    if (result != GatherResult::kAll) EndIn("where a rank takes records");
    EXPECT_EQ(status, kGood);
    EXPECT_EQ(out, std::string(expected, kRecord));
  }

 private:
  const TestFiles& files_;
  std::mutex mutex_;
  std::mt19937 random_;

 public:
  const std::shared_ptr<JobMemory> memory;
  NodeCache cache;

 private:
  static JobMemory::Options Patient() {
    JobMemory::Options options;
    options.client.patience = kHang;
    options.server.still_reading = std::chrono::milliseconds(5);
    return options;
  }
  void Pause() {
    std::unique_lock<std::mutex> lock(mutex_);
    std::mt19937 own(static_cast<unsigned>(random_()));
    lock.unlock();
    StandStill(own);
  }
  // What `hio-keep` does: it reads a chunk that is wanted, and waits for nothing else.
  void Fill() {
    for (;;) {
      const JobMemory::Event event = memory->Wait();
      if (event.kind == JobMemory::EventKind::kStop) return;
      if (event.kind != JobMemory::EventKind::kWanted) continue;
      Pause();
      const std::int64_t offset = event.number * kChunk;
      Load load{0, 0, kChunk, {{0, offset, kChunk, 0}}};
      load.chunk = event.number;
      load.records.push_back({0, kChunk, Crc32c(0, files_.contents[0].data() + offset, kChunk)});
      memory->Fill(load);
    }
  }

  CachedRecords cached_;
  std::unique_ptr<Loader> loader_;
  std::thread filler_, feeder_;
};

// Each node has room for one window only, so that its loads wait for its ranks, which wait for
// those of other nodes, which wait for chunks of this one.
void RunJobs(bool reads_parcels) {
  const TestFiles files(1, kChunks * kChunk);
  for (unsigned seed = 0; seed < 12; ++seed) {
    std::mt19937 random(seed);
    Plan plan(files, random);
    if (reads_parcels) plan.ReadParcels(files);
    std::vector<std::int32_t> homes;
    for (std::int64_t i = 0; i < kChunks; ++i) {
      const auto home = static_cast<int>(random() % (kNodes + 1));
      homes.push_back(home == kNodes ? JobMemory::kNowhere : home);
    }
    std::vector<std::unique_ptr<StepsNode>> nodes;
    std::vector<PeerNode> peers;
    for (unsigned node = 0; node < kNodes; ++node) {
      nodes.push_back(std::make_unique<StepsNode>(files, 100 * seed + node));
      peers.push_back({kHost, nodes.back()->memory->Serve(kHost, kSecret), kSecret});
    }
    for (int node = 0; node < kNodes; ++node) {
      JobMemory& memory = *nodes[static_cast<std::size_t>(node)]->memory;
      memory.SetHomes(homes, node, peers);
      if (reads_parcels && seed % 2 == 0) memory.WantAll();
    }
    for (std::size_t node = 0; node < kNodes; ++node) {
      nodes[node]->Start(plan.loads[node], 1 + static_cast<int>(seed % 3));
    }
    MeetingPoint point;
    std::vector<std::thread> ranks;
    for (std::size_t rank = 0; rank < kRanks; ++rank) {
      ranks.emplace_back([&, rank, own = std::mt19937(1000 * seed + static_cast<unsigned>(rank))]()
                             mutable {
        StepsNode& node = *nodes[rank / kLocal];
        const auto local = static_cast<std::int64_t>(rank % kLocal);
        for (std::size_t step = 0; step < plan.steps.size(); ++step) {
          StandStill(own);
          for (const Taken& taken : plan.steps[step][rank]) {
            node.Take(local, static_cast<std::int64_t>(step), taken);
          }
          point.Meet();  // only then is the step done: memory stays taken while it waits
          StandStill(own);
          node.cache.Done(local, static_cast<std::int64_t>(step));
        }
        node.cache.Leave(local);
      });
    }
    for (std::thread& rank : ranks) rank.join();
    std::int64_t kept = 0, fallback = 0;
    for (const auto& node : nodes) {
      kept += node->memory->chunks().kept_bytes();
      fallback += node->memory->counters().fallback_bytes;
    }
    EXPECT_EQ(kept, kChunk * std::count_if(homes.begin(), homes.end(), [](std::int32_t home) {
      return home != JobMemory::kNowhere;
    }));
    EXPECT_EQ(fallback, 0);
  }
}

TEST(JobStepsTest, NoNodeWaitsInACircle) { RunJobs(false); }

TEST(JobStepsTest, NorWhereParcelsWaitForSeveralHomes) { RunJobs(true); }

}  // namespace job_steps_test
}  // namespace io
}  // namespace horovod_opt
