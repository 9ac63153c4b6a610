// StreamEnds on a fake GPU of five calls: record, wait, copy, allreduce (in place, here doubling) and
// query. Its streams are queues, which it works through in any order that events allow, Horovod's
// as late as it can. Memory goes back to the stream it is from, and is written anew at once.
#include "horovod_opt/csrc/core/reduction/stream_ends.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

namespace horovod_opt {
namespace stream_ends_test {

constexpr int kHorovods = 0;  // stream; those of the training have other numbers
constexpr int kBuffer = 0;    // cell; the others are the training's

struct FakeGpu {
  using Stream = int;
  struct Recorded {
    int asked = 0, done = 0;  // how often
  };
  using Event = std::shared_ptr<Recorded>;
  static thread_local Stream current;
  static FakeGpu* gpu;
  static Stream Current(int) { return current; }
  static void Wait(Stream stream, const Event& event) {
    if (stream == gpu->deaf) return;
    gpu->Put(stream, [event, number = event->asked] { return event->done >= number; });
  }

  void Put(Stream stream, std::function<bool()> work) {
    std::lock_guard<std::mutex> guard(mutex);
    streams[stream].push_back(std::move(work));
  }
  void Record(Stream stream, const Event& event) {
    ++event->asked;
    Put(stream, [event, number = event->asked] {
      event->done = number;
      return true;
    });
  }
  void Write(Stream stream, int cell, int value) {
    Put(stream, [this, cell, value] {
      cells[cell] = value;
      return true;
    });
  }
  void Copy(Stream stream, int from, int to) {
    Put(stream, [this, from, to] {
      cells[to] = cells[from];
      return true;
    });
  }
  void Allreduce(Stream stream, int cell) {
    Put(stream, [this, cell] {
      cells[cell] *= 2;
      return true;
    });
  }
  bool Query(const Event& event) {
    std::lock_guard<std::mutex> guard(mutex);
    return event->done >= event->asked;
  }
  // One step; Horovod's only if no other is possible. False: there is none.
  bool Run() {
    std::lock_guard<std::mutex> guard(mutex);
    std::vector<Stream> order;
    for (const auto& [stream, queue] : streams) {
      if (!queue.empty() && stream != kHorovods) order.push_back(stream);
    }
    std::shuffle(order.begin(), order.end(), random);
    if (!streams[kHorovods].empty()) order.push_back(kHorovods);
    for (Stream stream : order) {
      if (!streams[stream].front()()) continue;
      streams[stream].pop_front();
      return true;
    }
    return false;
  }

  // Of the caching allocator: cells that are free, by the stream they are from.
  int Allocate(Stream stream) {
    std::lock_guard<std::mutex> guard(mutex);
    auto& pool = pools[stream];
    if (pool.empty()) {
      cells.push_back(0);
      return static_cast<int>(cells.size()) - 1;
    }
    const int cell = pool.back();
    pool.pop_back();
    return cell;
  }
  void Free(Stream stream, int cell) {
    std::lock_guard<std::mutex> guard(mutex);
    pools[stream].push_back(cell);
  }

  std::mutex mutex;
  std::mt19937 random{1};
  std::map<Stream, std::deque<std::function<bool()>>> streams;
  std::map<Stream, std::vector<int>> pools;
  std::deque<int> cells{0};
  Stream deaf = -1;  // it does not wait
};
thread_local int FakeGpu::current = 1;
FakeGpu* FakeGpu::gpu = nullptr;

// As upstream: data is there when `ready` is; the fusion buffer is Horovod's own.
FakeGpu::Event Reduce(FakeGpu& gpu, const FakeGpu::Event& ready, int input, int output) {
  FakeGpu::Wait(kHorovods, ready);
  gpu.Copy(kHorovods, input, kBuffer);
  gpu.Allreduce(kHorovods, kBuffer);
  gpu.Copy(kHorovods, kBuffer, output);
  auto over = std::make_shared<FakeGpu::Recorded>();
  gpu.Record(kHorovods, over);
  return over;
}

class StreamEndsOnGpu : public testing::Test {
 protected:
  StreamEndsOnGpu() { FakeGpu::gpu = &gpu_; }
  ~StreamEndsOnGpu() override { FakeGpu::current = 1; }

  // Calls on one stream, awaits on another, and uses the memory that is free then. Returns what the
  // training has seen as sums of 1, 2, 3 and so on; nobody waits on the host.
  std::vector<int> Train(int call, int await) {
    std::vector<int> results;
    for (int value = 1; value <= 5; ++value) {
      FakeGpu::current = call;
      const int input = gpu_.Allocate(call), output = gpu_.Allocate(call);
      gpu_.Write(call, input, value);
      ends_.Begin(value, 0);
      auto ready = std::make_shared<FakeGpu::Recorded>();
      gpu_.Record(call, ready);
      ends_.Add(value, Reduce(gpu_, ready, input, output));
      FakeGpu::current = await;
      ends_.Await(value);
      results.push_back(gpu_.Allocate(await + 100));
      gpu_.Copy(await, output, results.back());
      // The result is used up on the stream that it was copied on, as PyTorch's own rule wants it.
      auto used = std::make_shared<FakeGpu::Recorded>();
      gpu_.Record(await, used);
      FakeGpu::Wait(call, used);
      gpu_.Free(call, input);
      gpu_.Write(call, gpu_.Allocate(call), -1);
      gpu_.Free(call, output);
    }
    while (gpu_.Run()) {
    }
    for (int& cell : results) cell = gpu_.cells[cell];
    return results;
  }

  FakeGpu gpu_;
  StreamEnds<FakeGpu> ends_;
};

const std::vector<int> kSums{2, 4, 6, 8, 10};

TEST_F(StreamEndsOnGpu, TheStreamOfWhoAwaitsWaits) { EXPECT_EQ(Train(1, 1), kSums); }

TEST_F(StreamEndsOnGpu, AnotherStreamThanThatOfTheCallMayAwait) { EXPECT_EQ(Train(1, 2), kSums); }

// Rule 1: without it the sums are not there yet.
TEST_F(StreamEndsOnGpu, WithoutTheWaitTheSumIsNotThere) {
  gpu_.deaf = 2;
  EXPECT_NE(Train(1, 2), kSums);
}

// Rule 2: without it what is next in the memory of the input is reduced.
TEST_F(StreamEndsOnGpu, TheStreamThatTheMemoryIsFromWaitsToo) {
  for (const bool waits : {true, false}) {
    FakeGpu gpu;
    FakeGpu::gpu = &gpu;
    StreamEnds<FakeGpu> ends;
    if (!waits) gpu.deaf = 1;
    FakeGpu::current = 1;
    const int input = gpu.Allocate(1), output = gpu.Allocate(3);
    gpu.Write(1, input, 7);
    while (gpu.Run()) {
    }
    ends.Begin(1, 0);
    ends.Add(1, Reduce(gpu, std::make_shared<FakeGpu::Recorded>(), input, output));
    FakeGpu::current = 2;
    ends.Await(1);
    gpu.Free(1, input);
    ASSERT_EQ(gpu.Allocate(1), input);
    gpu.Write(1, input, -1);
    while (gpu.Run()) {
    }
    EXPECT_EQ(gpu.cells[output], waits ? 14 : -2);
  }
}

// Rule 1: until the handle is awaited, the stream of the call does what comes next.
TEST_F(StreamEndsOnGpu, NothingWaitsBeforeTheHandleIsAwaited) {
  const int input = gpu_.Allocate(1), output = gpu_.Allocate(1), next = gpu_.Allocate(1);
  ends_.Begin(1, 0);
  const FakeGpu::Event over = Reduce(gpu_, std::make_shared<FakeGpu::Recorded>(), input, output);
  ends_.Add(1, over);
  gpu_.Write(1, next, 5);
  ASSERT_TRUE(gpu_.Run());
  EXPECT_EQ(gpu_.cells[next], 5);
  EXPECT_FALSE(gpu_.Query(over));
}

TEST_F(StreamEndsOnGpu, AHandleMayHaveSeveralEventsOrNone) {
  const auto first = std::make_shared<FakeGpu::Recorded>(),
             second = std::make_shared<FakeGpu::Recorded>();
  ends_.Begin(1, 0);
  ends_.Await(1);  // the host has waited
  EXPECT_TRUE(gpu_.streams[1].empty());
  ends_.Begin(2, 0);
  ends_.Add(2, first);
  ends_.Add(2, second);
  ends_.Await(2);
  EXPECT_EQ(gpu_.streams[1].size(), 2u);
  ends_.Await(2);
  ends_.Await(3);  // in main memory
  ends_.Begin(4, 0);
  ends_.Clear();  // a shutdown
  ends_.Add(4, first);
  ends_.Await(4);
  EXPECT_EQ(gpu_.streams[1].size(), 2u);
}

// Horovod's thread is fast or slow, and so is the GPU; some threads train.
TEST_F(StreamEndsOnGpu, ThreadsInAnyOrder) {
  constexpr int kThreads = 3, kRounds = 200;
  std::mutex mutex;
  std::condition_variable news;
  std::deque<std::function<void()>> calls;
  std::vector<bool> done(kThreads * kRounds, false);
  std::atomic<bool> over{false};
  std::thread horovod([&] {
    std::unique_lock<std::mutex> lock(mutex);
    while (true) {
      news.wait(lock, [&] { return over || !calls.empty(); });
      if (calls.empty()) return;
      auto call = std::move(calls.front());
      calls.pop_front();
      lock.unlock();
      call();
      lock.lock();
    }
  });
  std::thread device([&] {
    while (!over) {
      if (!gpu_.Run()) std::this_thread::yield();
    }
    while (gpu_.Run()) {
    }
  });
  std::vector<std::vector<std::pair<int, int>>> results(kThreads);  // cell, expected
  std::vector<std::thread> training;
  for (int number = 0; number < kThreads; ++number) {
    training.emplace_back([&, number] {
      FakeGpu::current = 1 + number;
      for (int round = 0; round < kRounds; ++round) {
        const int handle = number * kRounds + round, value = 10 + handle;
        const int stream = FakeGpu::current;
        const int input = gpu_.Allocate(stream), output = gpu_.Allocate(stream);
        gpu_.Write(stream, input, value);
        ends_.Begin(handle, 0);
        auto ready = std::make_shared<FakeGpu::Recorded>();
        gpu_.Record(stream, ready);
        std::unique_lock<std::mutex> lock(mutex);
        calls.push_back([&, handle, ready, input, output] {
          ends_.Add(handle, Reduce(gpu_, ready, input, output));
          std::lock_guard<std::mutex> guard(mutex);
          done[handle] = true;
          news.notify_all();
        });
        news.notify_all();
        news.wait(lock, [&] { return done[handle]; });
        lock.unlock();
        ends_.Await(handle);
        results[number].emplace_back(gpu_.Allocate(100 + stream), 2 * value);
        gpu_.Copy(stream, output, results[number].back().first);
        gpu_.Free(stream, input);
        gpu_.Write(stream, gpu_.Allocate(stream), -1);
        gpu_.Free(stream, output);
      }
    });
  }
  for (std::thread& thread : training) thread.join();
  {
    std::lock_guard<std::mutex> guard(mutex);
    over = true;
    news.notify_all();
  }
  horovod.join();
  device.join();
  for (const auto& of_thread : results) {
    for (const auto& [cell, expected] : of_thread) ASSERT_EQ(gpu_.cells[cell], expected);
  }
}

}  // namespace stream_ends_test
}  // namespace horovod_opt
