// The reader's threads against the invariants of node_cache/load_check.h.
#include "horovod_opt/csrc/io/node_cache/loader.h"

#include <algorithm>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "horovod_opt/csrc/io/files/crc32c.h"
#include "horovod_opt/csrc/io/node_cache/gather.h"
#include "tests/native/io/test_files.h"
#include "tests/native/reduction/node_ranks.h"
#include "tests/native/waiting/await.h"

namespace horovod_opt {
namespace io {
namespace loader_test {

using namespace std::chrono_literals;

constexpr std::int64_t kChunk = 3000;  // bytes

// Chunk c of file 0 for these steps.
Load ChunkLoad(std::int64_t chunk, std::int64_t first, std::int64_t last) {
  return {first, last, kChunk, {{0, chunk * kChunk, kChunk, 0}}};
}

class LoaderTest : public testing::Test {
 protected:
  void Start(std::int64_t ranks, std::int64_t chunks, int threads = 3,
             ExtentReader::Read read = pread, Loader::Cached cached = {}) {
    cache_ = std::make_unique<NodeCache>(
        NodeCacheMemory::Create({ranks, 8, kChunk, chunks * kChunk, 0}));
    cached_ = std::make_unique<CachedRecords>(data_.Table(), cache_->memory().header().counters,
                                              cache_->ended_here());
    loader_ = std::make_unique<Loader>(*cache_, data_.Table(), threads, std::move(read),
                                       std::move(cached));
  }

  // Takes the chunk of a load and compares it.
  GatherResult Take(std::int64_t rank, std::int64_t step, std::int64_t load, std::int64_t chunk,
                    std::chrono::nanoseconds longest = kHang) {
    const std::string expected =
        data_.contents[0].substr(static_cast<std::size_t>(chunk * kChunk), kChunk);
    const std::uint32_t checksum = Crc32c(0, expected.data(), kChunk);
    std::string out(kChunk, '\0');
    const std::int64_t zero = 0, size = kChunk, offset = chunk * kChunk;
    const std::int32_t file = 0;
    Status status = 1;
    std::int64_t begin = 0;
    const GatherResult result =
        Gather(*cache_, *cached_, rank, step,
               {1, &load, &zero, &size, &checksum, &file, &offset, out.data(), &zero, &status, 0},
               begin, longest);
    if (result == GatherResult::kAll) {
      EXPECT_EQ(status, kGood);
      EXPECT_EQ(out, expected);
    }
    return result;
  }

  // Takes steps `from` to count - 1, step i being load and chunk i, two records of each.
  GatherResult TakeSteps(std::int64_t count, HioProgress& progress, std::string& out,
                     std::chrono::nanoseconds longest = kHang) {
    std::vector<std::int64_t> ends, loads, places, sizes, out_places;
    std::vector<std::uint32_t> checksums;
    for (std::int64_t step = 0; step < count; ++step) {
      for (const std::int64_t place : {std::int64_t{0}, kChunk / 2}) {
        loads.push_back(step);
        places.push_back(place);
        sizes.push_back(kChunk / 2);
        out_places.push_back(step * kChunk + place);
        checksums.push_back(Crc32c(
            0, &data_.contents[0][static_cast<std::size_t>(step * kChunk + place)], kChunk / 2));
      }
      ends.push_back(2 * (step + 1));
    }
    checksums[2] ^= 1;  // of step 1
    statuses_.assign(loads.size(), 1);
    const std::int64_t origin = progress.steps * kChunk;
    out.assign(static_cast<std::size_t>(count * kChunk - origin), '\0');
    const std::vector<std::int32_t> files(loads.size(), 0);
    return GatherSteps(*cache_, *cached_, 0, {0, count, ends.data()},
                       {0, loads.data(), places.data(), sizes.data(), checksums.data(),
                        files.data(), out_places.data(), out.data(), out_places.data(),
                        statuses_.data(), origin},
                       progress, longest);
  }

  std::int64_t Loaded() { return cache_->memory().header().counters.loads; }

  void ExpectLoaded(std::int64_t loads) {
    EXPECT_TRUE(Await([&] { return Loaded() >= loads; }));
    std::this_thread::sleep_for(20ms);  // time to load more all the same
    EXPECT_EQ(Loaded(), loads);
  }

  TestFiles data_{1, 200 * kChunk};
  std::unique_ptr<NodeCache> cache_;
  std::unique_ptr<CachedRecords> cached_;
  std::unique_ptr<Loader> loader_;
  std::vector<Status> statuses_;
};

TEST_F(LoaderTest, StepsThatAreThereAreTakenTogether) {
  Start(1, 3);
  ASSERT_TRUE(loader_->Add({ChunkLoad(0, 0, 0), ChunkLoad(1, 1, 1), ChunkLoad(2, 2, 2)}));
  ExpectLoaded(3);
  HioProgress progress{};
  std::string out;
  // Step 3 is not there: nobody waits for it.
  EXPECT_EQ(TakeSteps(4, progress, out), GatherResult::kAll);
  EXPECT_EQ(progress.steps, 3);
  EXPECT_EQ(progress.records, 6);
  EXPECT_EQ(progress.bad, 1);
  EXPECT_EQ(statuses_, (std::vector<Status>{0, 0, kChecksum, 0, 0, 0, 1, 1}));
  EXPECT_EQ(out.substr(0, 3 * kChunk), data_.contents[0].substr(0, 3 * kChunk));
  EXPECT_EQ(cache_->memory().rank(0).cursor, 3);  // they are done
  EXPECT_EQ(cache_->memory().rank(0).records, 6);
  EXPECT_EQ(TakeSteps(4, progress, out, 20ms), GatherResult::kTimeout);
  EXPECT_EQ(progress.steps, 3);
  ASSERT_TRUE(loader_->Add({ChunkLoad(3, 3, 3)}));
  EXPECT_EQ(TakeSteps(4, progress, out), GatherResult::kAll);
  EXPECT_EQ(progress.steps, 4);
  EXPECT_EQ(out, data_.contents[0].substr(3 * kChunk, kChunk));
  progress = {1, 2, 0};
  EXPECT_EQ(TakeSteps(2, progress, out), GatherResult::kOver);
}

// With room for one chunk, the next step comes only when the one before it is done.
TEST_F(LoaderTest, StepsTakenTogetherNeverWaitForEachOther) {
  Start(1, 1);
  std::vector<Load> loads;
  for (std::int64_t i = 0; i < 50; ++i) loads.push_back(ChunkLoad(i, i, i));
  ASSERT_TRUE(loader_->Add(loads));
  HioProgress progress{};
  std::string out;
  while (progress.steps < 50) ASSERT_EQ(TakeSteps(50, progress, out), GatherResult::kAll);
  EXPECT_EQ(progress.bad, 1);
}

// (1)
TEST_F(LoaderTest, LoadsBeginInTheirOrder) {
  std::mutex mutex;
  std::vector<off_t> began;
  Start(1, 1, 4, [&](int file, void* to, size_t bytes, off_t offset) {
    {
      std::lock_guard<std::mutex> lock(mutex);
      began.push_back(offset);
    }
    return pread(file, to, bytes, offset);
  });
  std::vector<Load> loads;
  for (std::int64_t i = 0; i < 100; ++i) loads.push_back(ChunkLoad(199 - i, i, i));
  ASSERT_TRUE(loader_->Add(loads));
  for (std::int64_t i = 0; i < 100; ++i) {
    ASSERT_EQ(Take(0, i, i, 199 - i), GatherResult::kAll);
    cache_->Done(0, i);
  }
  ASSERT_EQ(began.size(), 100u);
  EXPECT_TRUE(std::is_sorted(began.rbegin(), began.rend()));
}

// (2)
TEST_F(LoaderTest, AChunkIsFreedWhenAllRanksHaveEndedItsLastStep) {
  Start(2, 2);
  ASSERT_TRUE(loader_->Add({ChunkLoad(0, 0, 1), ChunkLoad(1, 1, 1), ChunkLoad(2, 2, 2)}));
  ExpectLoaded(2);
  cache_->Done(0, 0);
  cache_->Done(0, 1);
  cache_->Done(1, 0);
  ExpectLoaded(2);
  EXPECT_EQ(Take(1, 1, 0, 0), GatherResult::kAll);  // the slow rank still needs it
  cache_->Done(1, 1);
  ExpectLoaded(3);
  EXPECT_EQ(Take(1, 2, 0, 0), GatherResult::kOver);
  EXPECT_EQ(Take(1, 1, 2, 2), GatherResult::kOver);
  EXPECT_EQ(Take(1, 2, 2, 2), GatherResult::kAll);
}

// (3), where the first rank of a step does not wait for the others, with no byte to spare.
TEST_F(LoaderTest, RanksThatRunFreeNeverStandStill) {
  std::mt19937 random(5);
  for (int round = 0; round < 20; ++round) {
    const std::int64_t ranks = 1 + random() % 3;
    std::vector<Load> loads;
    std::int64_t first = 0, most = 0;
    for (int i = 0; i < 80; ++i) {
      first += random() % 2;
      loads.push_back(ChunkLoad(random() % 200, first, first + random() % 4));
    }
    for (const Load& load : loads) {
      most = std::max(most, std::count_if(loads.begin(), loads.end(), [&](const Load& other_load) {
                        return other_load.first <= load.first && other_load.last >= load.first;
                      }));
    }
    cached_ = nullptr;
    cache_ = nullptr;
    if (most > 8) continue;  // chunk buffers
    // In every third round all is read, in the others some chunks are in the page cache.
    Start(ranks, most, 3, pread, [round](int, std::int64_t offset, std::int64_t) {
      return offset / kChunk % 3 < round % 3;
    });
    ASSERT_TRUE(loader_->Add(loads));
    std::vector<std::thread> threads;
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] {
        for (std::int64_t step = 0; step <= loads.back().first + 3; ++step) {
          for (std::size_t i = loads.size(); i-- > 0;) {  // the last first
            if (loads[i].first > step || loads[i].last < step) continue;
            ASSERT_EQ(
                Take(rank, step, static_cast<std::int64_t>(i), loads[i].extents[0].offset / kChunk),
                GatherResult::kAll);
          }
          cache_->Done(rank, step);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_LE(cache_->memory().header().counters.most_live_bytes, most * kChunk);
    loader_.reset();
  }
}

TEST_F(LoaderTest, WhatIsInThePageCacheIsNotRead) {
  Start(2, 2, 3, pread, [](int, std::int64_t offset, std::int64_t) { return offset > 0; });
  ASSERT_TRUE(loader_->Add({ChunkLoad(0, 0, 0), ChunkLoad(1, 0, 1), ChunkLoad(2, 1, 2)}));
  ExpectLoaded(2);  // the third one has no room, though the second one takes none
  EXPECT_EQ(Take(0, 0, 0, 0), GatherResult::kAll);
  EXPECT_EQ(Take(0, 0, 1, 1), GatherResult::kAll);
  EXPECT_EQ(cache_->memory().header().counters.bytes_read, kChunk);
  EXPECT_EQ(cache_->memory().header().counters.cached_bytes, kChunk);
  EXPECT_EQ(cache_->memory().rank(0).records, 2);
  EXPECT_EQ(cache_->memory().rank(0).cached, 1);
  cache_->Done(0, 0);
  cache_->Done(1, 0);
  ExpectLoaded(3);
  EXPECT_EQ(Take(1, 1, 2, 2), GatherResult::kAll);
  cache_->SkipTo(0, 3);
  cache_->SkipTo(1, 3);
  ASSERT_TRUE(loader_->Add({ChunkLoad(0, 3, 3)}));  // which finds what was there before freed
  ExpectLoaded(4);
  EXPECT_EQ(Take(0, 1, 2, 2), GatherResult::kOver);
}

TEST_F(LoaderTest, WhatAThreadThrowsEndsTheCacheWithItsText) {
  Start(1, 2, 2, pread, [](int, std::int64_t, std::int64_t) -> bool {
    throw std::runtime_error("no answer");
  });
  loader_->Add({ChunkLoad(0, 0, 0)});
  EXPECT_EQ(Take(0, 0, 0, 0), GatherResult::kEnded);
  EXPECT_EQ(cache_->end(), End::kFailed);
  EXPECT_EQ(cache_->failure(), "no answer");
}

TEST_F(LoaderTest, WhatNobodyNeedsAnyLongerIsNotRead) {
  Start(2, 2);
  std::vector<Load> loads;
  for (std::int64_t i = 0; i < 100; ++i) loads.push_back(ChunkLoad(i, i, i));
  cache_->SkipTo(0, 90);
  ASSERT_TRUE(loader_->Add(loads));
  ExpectLoaded(2);
  cache_->Leave(1);
  ExpectLoaded(4);
  EXPECT_EQ(cache_->memory().header().counters.skipped_loads, 88);
  EXPECT_EQ(Take(0, 90, 90, 90), GatherResult::kAll);
  EXPECT_EQ(Take(0, 90, 50, 50), GatherResult::kOver);
}

// Its chunk buffer must not be given to another load while a thread still writes into it.
TEST_F(LoaderTest, WhatIsSkippedWhileItIsReadKeepsItsBuffer) {
  std::atomic<bool> go{false}, reading{false};
  Start(1, 1, 2, [&](int file, void* to, size_t bytes, off_t offset) {
    if (offset == 0) {
      reading = true;
      while (!go) std::this_thread::sleep_for(1ms);
    }
    return pread(file, to, bytes, offset);
  });
  ASSERT_TRUE(loader_->Add({ChunkLoad(0, 0, 0), ChunkLoad(1, 1, 1)}));
  while (!reading) std::this_thread::sleep_for(1ms);
  cache_->SkipTo(0, 1);
  EXPECT_EQ(Take(0, 1, 1, 1, 50ms), GatherResult::kTimeout);
  go = true;
  EXPECT_EQ(Take(0, 1, 1, 1), GatherResult::kAll);
}

// The reader reads ahead up to a load that would have the same entry of the table, and no further.
TEST_F(LoaderTest, AChunkThatIsNeededForLongKeepsItsEntry) {
  Start(1, 4);
  const std::int64_t entries = cache_->memory().entries();
  std::vector<Load> loads = {ChunkLoad(0, 0, entries)};
  for (std::int64_t i = 1; i < entries; ++i) loads.push_back(ChunkLoad(i % 200, i, i));
  loads.push_back(ChunkLoad(7, entries + 1, entries + 1));
  ASSERT_TRUE(loader_->Add(loads));
  for (std::int64_t i = 1; i < entries; ++i) {
    ASSERT_EQ(Take(0, i, i, i % 200), GatherResult::kAll);
    cache_->SkipTo(0, i + 1);
  }
  ExpectLoaded(entries);
  EXPECT_EQ(Take(0, entries, 0, 0), GatherResult::kAll);
  cache_->SkipTo(0, entries + 1);
  EXPECT_EQ(Take(0, entries + 1, entries, 7), GatherResult::kAll);
}

TEST_F(LoaderTest, WrongLoadsAreRefusedAndTheRestGoesOn) {
  Start(1, 2);
  Load elsewhere = ChunkLoad(0, 0, 0);
  elsewhere.extents[0].file = 1;
  EXPECT_THROW(loader_->Add({ChunkLoad(0, 0, 0), elsewhere}), std::invalid_argument);
  EXPECT_THROW(loader_->Add({ChunkLoad(0, 0, 0), ChunkLoad(1, 0, 0), ChunkLoad(2, 0, 0)}),
               std::invalid_argument);
  ASSERT_TRUE(loader_->Add({ChunkLoad(3, 0, 0)}));
  EXPECT_EQ(Take(0, 0, 0, 3), GatherResult::kAll);
  const std::vector<Load> same = {ChunkLoad(0, 5, 5)};
  loader_->Check(same);
  loader_->Check(same);
  EXPECT_THROW(loader_->Check({ChunkLoad(0, 5, 5), ChunkLoad(0, 4, 4)}), std::invalid_argument);
}

TEST_F(LoaderTest, TheEndIsSoonWhoeverWaits) {
  Start(1, 1);
  std::atomic<std::int64_t> added{0};
  Sleeper feeder([&] {
    for (std::int64_t step = 0; loader_->Add({ChunkLoad(0, step, step)}); ++step) ++added;
  });
  Sleeper rank([this] {
    EXPECT_EQ(Take(0, 0, 100, 0), GatherResult::kEnded);
    EXPECT_EQ(cache_->end(), End::kRankDied);
  });
  EXPECT_TRUE(Await([&] { return added > 100; }));
  feeder.AwaitSleep();  // its queue is full
  rank.AwaitSleep();
  cache_->EndForAll(End::kRankDied, 0);
  feeder.Join();
  rank.Join();
  const auto began = EventCount::Clock::now();
  loader_.reset();
  EXPECT_LT(EventCount::Clock::now() - began, kHang);
}

}  // namespace loader_test
}  // namespace io
}  // namespace horovod_opt
