// Gloo's reduce-scatter over a transport that takes its time: a message may stay in the memory of
// its sender until that waits for it, or until nothing else can happen. Messages from one rank to
// another keep their order. Arguments: a seed and a number of rounds. Prints for each number of
// ranks how many results were wrong, and how many messages lost their memory before they had left.
#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <random>
#include <set>
#include <stdexcept>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include <gloo/algorithm.cc>
#include <gloo/context.cc>
#include <gloo/reduce_scatter.h>
#include <gloo/transport/address.cc>
#include <gloo/transport/buffer.cc>
#include <gloo/transport/context.cc>
#include <gloo/transport/device.cc>
#include <gloo/transport/pair.cc>
#include <gloo/transport/unbound_buffer.cc>

namespace {

constexpr int kMostRanks = 9;
constexpr char kLost = 0x5a;

void Expect(bool condition, const char* what) {
  if (condition) return;
  std::printf("failed %s\n", what);
  std::_Exit(1);
}

class SlowBuffer;

struct Message {
  SlowBuffer* sender;  // null: is gone
  int slot;
  const char* data;
  std::size_t bytes, offset;
  bool is_late = false;
};

// What is under way between all ranks, each of which is a thread.
class Network {
 public:
  Network(int ranks, std::uint32_t seed) : random_(seed), running_(ranks) {}

  void Register(int from, int to, int slot, SlowBuffer* buffer);
  void Send(int from, int to, Message message);
  void Forget(int from, int to, int slot, SlowBuffer* buffer);
  void Await(SlowBuffer* buffer);
  void End();

  int unsent() const { return unsent_; }

 private:
  using Route = std::pair<int, int>;

  void Stop();
  void DeliverWhatIsInTime(const Route& route);
  bool DeliverFirst(const Route& route);
  void Complete(SlowBuffer* buffer);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::mt19937 random_;
  int running_;  // ranks that neither wait nor have ended
  int unsent_ = 0;
  std::set<SlowBuffer*> awaited_;
  std::map<Route, std::deque<Message>> under_way_;
  std::map<std::tuple<int, int, int>, SlowBuffer*> receivers_;
};

class SlowBuffer : public gloo::transport::Buffer {
 public:
  SlowBuffer(Network& network, int from, int to, int slot, void* data, std::size_t bytes)
      : Buffer(slot, data, bytes), network_(network), from_(from), to_(to) {}
  ~SlowBuffer() override { network_.Forget(from_, to_, slot_, this); }

  void send(std::size_t offset, std::size_t length, std::size_t there) override {
    Expect(offset + length <= size_, "a message within its memory");
    network_.Send(from_, to_, {this, slot_, data() + offset, length, there});
  }
  void waitRecv() override { network_.Await(this); }
  void waitSend() override { network_.Await(this); }

  char* data() const { return static_cast<char*>(ptr_); }
  std::size_t bytes() const { return size_; }

  int completions = 0;

 private:
  Network& network_;
  const int from_, to_;
};

void Network::Register(int from, int to, int slot, SlowBuffer* buffer) {
  std::lock_guard<std::mutex> lock(mutex_);
  receivers_[{from, to, slot}] = buffer;
  DeliverWhatIsInTime({from, to});
}

void Network::Send(int from, int to, Message message) {
  std::lock_guard<std::mutex> lock(mutex_);
  message.is_late = random_() % 3 == 0;
  under_way_[{from, to}].push_back(message);
  DeliverWhatIsInTime({from, to});
}

void Network::Forget(int from, int to, int slot, SlowBuffer* buffer) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto receiver = receivers_.find({from, to, slot});
  if (receiver != receivers_.end() && receiver->second == buffer) receivers_.erase(receiver);
  for (Message& message : under_way_[{from, to}]) {
    if (message.sender != buffer) continue;
    message.sender = nullptr;
    ++unsent_;
  }
}

void Network::Await(SlowBuffer* buffer) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (buffer->completions == 0) {
    awaited_.insert(buffer);
    Stop();
    changed_.wait(lock, [&] { return buffer->completions > 0; });
  }
  --buffer->completions;
}

void Network::End() {
  std::lock_guard<std::mutex> lock(mutex_);
  Stop();
}

// Whoever is the last to stop delivers, in an order drawn at random, until another can go on.
void Network::Stop() {
  --running_;
  while (running_ == 0) {
    std::vector<Route> routes;
    for (const auto& entry : under_way_) {
      if (!entry.second.empty()) routes.push_back(entry.first);
    }
    std::shuffle(routes.begin(), routes.end(), random_);
    const auto delivered = std::find_if(routes.begin(), routes.end(),
                                        [this](const Route& route) { return DeliverFirst(route); });
    if (delivered == routes.end()) {
      Expect(awaited_.empty(), "ranks that wait for what is sent");
      return;  // all have ended
    }
    DeliverWhatIsInTime(*delivered);
  }
}

void Network::DeliverWhatIsInTime(const Route& route) {
  const std::deque<Message>& messages = under_way_[route];
  while (!messages.empty() && !messages.front().is_late && DeliverFirst(route)) {
  }
}

// False if nobody has registered for it.
bool Network::DeliverFirst(const Route& route) {
  std::deque<Message>& messages = under_way_[route];
  const Message message = messages.front();
  const auto receiver = receivers_.find({route.first, route.second, message.slot});
  if (receiver == receivers_.end()) return false;
  SlowBuffer* const to = receiver->second;
  Expect(message.offset + message.bytes <= to->bytes(), "a message that fits");
  if (message.sender != nullptr) {
    std::memcpy(to->data() + message.offset, message.data, message.bytes);
    Complete(message.sender);
  } else {
    std::memset(to->data() + message.offset, kLost, message.bytes);
  }
  Complete(to);
  messages.pop_front();
  return true;
}

void Network::Complete(SlowBuffer* buffer) {
  ++buffer->completions;
  if (awaited_.erase(buffer) != 0) ++running_;
  changed_.notify_all();
}

class SlowPair : public gloo::transport::Pair {
 public:
  SlowPair(Network& network, int self, int peer) : network_(network), self_(self), peer_(peer) {}

  std::unique_ptr<gloo::transport::Buffer> createSendBuffer(int slot, void* data,
                                                            std::size_t bytes) override {
    return std::make_unique<SlowBuffer>(network_, self_, peer_, slot, data, bytes);
  }
  std::unique_ptr<gloo::transport::Buffer> createRecvBuffer(int slot, void* data,
                                                            std::size_t bytes) override {
    auto buffer = std::make_unique<SlowBuffer>(network_, peer_, self_, slot, data, bytes);
    network_.Register(peer_, self_, slot, buffer.get());
    return buffer;
  }

  const gloo::transport::Address& address() const override { throw std::logic_error("address"); }
  void connect(const std::vector<char>&) override {}
  void close() override {}
  void setSync(bool, bool) override {}
  void send(gloo::transport::UnboundBuffer*, std::uint64_t, std::size_t, std::size_t) override {
    throw std::logic_error("send");
  }
  void recv(gloo::transport::UnboundBuffer*, std::uint64_t, std::size_t, std::size_t) override {
    throw std::logic_error("recv");
  }

 private:
  Network& network_;
  const int self_, peer_;
};

class SlowTransport : public gloo::transport::Context {
 public:
  SlowTransport(Network& network, int self, int ranks)
      : gloo::transport::Context(self, ranks), network_(network) {
    for (int peer = 0; peer < ranks; ++peer) createPair(peer);
  }

  std::unique_ptr<gloo::transport::Pair>& createPair(int peer) override {
    return pairs_[peer] = std::make_unique<SlowPair>(network_, rank, peer);
  }
  std::unique_ptr<gloo::transport::UnboundBuffer> createUnboundBuffer(void*,
                                                                      std::size_t) override {
    throw std::logic_error("createUnboundBuffer");
  }

 private:
  Network& network_;
};

class SlowContext : public gloo::Context {
 public:
  SlowContext(Network& network, int self, int ranks) : gloo::Context(self, ranks) {
    transportContext_ = std::make_shared<SlowTransport>(network, self, ranks);
  }
};

// Of each rank, for as many tensors: as Horovod divides their rows among the ranks.
std::vector<int> DrawCounts(std::mt19937& random, int ranks) {
  std::vector<int> counts(ranks);
  for (unsigned tensor = 0; tensor <= random() % 3; ++tensor) {
    const int rows = static_cast<int>(random() % 40) + (tensor == 0), row = random() % 5 + 1;
    for (int rank = 0; rank < ranks; ++rank) {
      counts[rank] += (rows / ranks + (rank < rows % ranks)) * row;
    }
  }
  return counts;
}

template <class Element>
Element Given(int rank, int place) {
  return static_cast<Element>((rank + 1) * (place % 7 + 1) % 13);
}

// Of the places that are `rank`'s, how many are not the sum.
template <class Element>
int CountWrong(const std::vector<Element>& data, const std::vector<int>& counts, int rank) {
  const int begin = std::accumulate(counts.begin(), counts.begin() + rank, 0);
  int wrong = 0;
  for (int place = 0; place < counts[rank]; ++place) {
    Element sum = 0;
    for (std::size_t other = 0; other < counts.size(); ++other) {
      sum += Given<Element>(static_cast<int>(other), begin + place);
    }
    wrong += data[place] != sum;
  }
  return wrong;
}

struct Verdict {
  int wrong = 0, unsent = 0;
};

template <class Element>
Verdict RunRound(int ranks, std::mt19937& random) {
  Network network(ranks, random());
  const std::vector<int> counts = DrawCounts(random, ranks);
  const int total = std::accumulate(counts.begin(), counts.end(), 0);
  std::vector<int> wrong(ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      std::vector<Element> data(total);
      for (int place = 0; place < total; ++place) data[place] = Given<Element>(rank, place);
      const auto context = std::make_shared<SlowContext>(network, rank, ranks);
      {
        gloo::ReduceScatterHalvingDoubling<Element> algorithm(context, {data.data()}, total,
                                                              counts);
        algorithm.run();
      }
      wrong[rank] = CountWrong(data, counts, rank);
      network.End();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return {std::accumulate(wrong.begin(), wrong.end(), 0), network.unsent()};
}

}  // namespace

int main(int, char** arguments) {
  std::mt19937 random(static_cast<std::uint32_t>(std::atol(arguments[1])));
  for (int ranks = 2; ranks <= kMostRanks; ++ranks) {
    Verdict all;
    for (int round = std::atoi(arguments[2]); round > 0; --round) {
      const auto run = round % 2 == 0 ? &RunRound<std::int32_t> : &RunRound<double>;
      const Verdict verdict = run(ranks, random);
      all.wrong += verdict.wrong;
      all.unsent += verdict.unsent;
    }
    std::printf("%d %d %d\n", ranks, all.wrong, all.unsent);
  }
}
