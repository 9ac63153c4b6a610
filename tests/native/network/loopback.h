// Messages between members that are threads of a test, delivered in any order that is allowed.
#pragma once

#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <stdexcept>
#include <tuple>
#include <vector>

#include "horovod_opt/csrc/core/network/transport.h"

namespace horovod_opt {

class Loopback {
 public:
  // One member's end.
  class End : public Transport {
   public:
    End(Loopback& net, int self, unsigned seed, bool must_stay = false)
        : net_(net), self_(self), must_stay_(must_stay), random_(seed) {}

    void Send(int to, int channel, const void* data, std::int64_t bytes,
              Operation& operation) override {
      std::lock_guard<std::mutex> lock(net_.mutex_);
      net_.used_.insert(channel);
      const char* const begin = static_cast<const char*>(data);
      operation.done = false;
      net_.queues_[{self_, to, channel}].push_back({{begin, begin + bytes}, false});
      sending_.push_back({&operation, {self_, to, channel}, net_.sent_[{self_, to, channel}]++});
      net_.changed_.notify_all();
    }

    void Receive(int from, int channel, void* data, std::int64_t capacity,
                 Operation& operation) override {
      {
        std::lock_guard<std::mutex> lock(net_.mutex_);
        net_.used_.insert(channel);
      }
      operation.done = false;
      receives_.push_back({from, channel, static_cast<char*>(data), capacity, &operation});
    }

    // Ends few of what could be ended, at random.
    void Progress(Clock::time_point deadline) override {
      std::unique_lock<std::mutex> lock(net_.mutex_);
      for (;;) {
        if (net_.broken_) throw std::runtime_error("broken");
        bool any = false, more = false;
        for (std::size_t i = 0; i < receives_.size(); ++i) {
          const PostedReceive receive = receives_[i];
          bool first = true;  // of its channel
          for (std::size_t j = 0; j < i; ++j) {
            if (receives_[j].from == receive.from && receives_[j].channel == receive.channel)
              first = false;
          }
          auto& queue = net_.queues_[{receive.from, self_, receive.channel}];
          if (!first || queue.empty()) continue;
          if (random_() % 3 == 0) {
            more = true;
            continue;
          }
          const std::vector<char> message = std::move(queue.front().data);
          queue.pop_front();
          ++net_.received_[{receive.from, self_, receive.channel}];
          receive.operation->bytes = static_cast<std::int64_t>(message.size());
          std::memcpy(
              receive.data, message.data(),
              std::min<std::size_t>(message.size(), static_cast<std::size_t>(receive.capacity)));
          receive.operation->done = true;
          receives_.erase(receives_.begin() + static_cast<std::ptrdiff_t>(i--));
          any = true;
        }
        // Some messages are on their way until they are received, others no longer than this.
        for (std::size_t i = 0; i < sending_.size(); ++i) {
          const bool received = net_.received_[sending_[i].channel] > sending_[i].number;
          if (!received && random_() % 2 == 0) {
            more = more || !rendezvous;
            if (rendezvous) continue;
          }
          if (rendezvous && !received) continue;
          sending_[i].operation->done = true;
          sending_.erase(sending_.begin() + static_cast<std::ptrdiff_t>(i--));
          any = true;
        }
        if (any) net_.changed_.notify_all();
        if (any || woken_) {
          woken_ = false;
          return;
        }
        if (more) continue;
        if (deadline == Clock::time_point::max()) {
          net_.changed_.wait(lock);
        } else if (net_.changed_.wait_until(lock, deadline) == std::cv_status::timeout) {
          return;
        }
      }
    }

    void Wake() override {
      std::lock_guard<std::mutex> lock(net_.mutex_);
      woken_ = true;
      net_.changed_.notify_all();
    }

    bool MustStay() const override {
      return must_stay_ && !(receives_.empty() && sending_.empty());
    }

    bool rendezvous = false;  // a message is sent only when it is received

   private:
    struct PostedReceive {
      int from, channel;
      char* data;
      std::int64_t capacity;
      Operation* operation;
    };
    struct Sending {
      Operation* operation;
      std::tuple<int, int, int> channel;
      int number;
    };

    Loopback& net_;
    const int self_;
    const bool must_stay_;
    std::minstd_rand random_;
    std::vector<PostedReceive> receives_;
    std::vector<Sending> sending_;
    bool woken_ = false;
  };

  // On which anything has ever begun.
  std::size_t Channels() {
    std::lock_guard<std::mutex> lock(mutex_);
    return used_.size();
  }

  void Break() {
    std::lock_guard<std::mutex> lock(mutex_);
    broken_ = true;
    changed_.notify_all();
  }

  // Messages that nobody has received.
  std::size_t Left() {
    std::lock_guard<std::mutex> lock(mutex_);
    std::size_t count = 0;
    for (const auto& [channel, queue] : queues_) count += queue.size();
    return count;
  }

 private:
  struct Message {
    std::vector<char> data;
    bool unused;
  };
  using Channel = std::tuple<int, int, int>;  // from, to, channel

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Channel, std::deque<Message>> queues_;
  std::map<Channel, int> sent_, received_;
  std::set<int> used_;
  bool broken_ = false;
};

}  // namespace horovod_opt
