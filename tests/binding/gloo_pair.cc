// Whoever reaches the port of a Gloo connection: what he may send, and what becomes of it. Prints
// for each case what the rank says; a sanitizer looks on. Arguments: a seed and a number of rounds.
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#define protected public  // what of a message has come
#include <gloo/transport/tcp/pair.h>
#undef protected

#include <gloo/common/linux.cc>
#include <gloo/transport/address.cc>
#include <gloo/transport/buffer.cc>
#include <gloo/transport/context.cc>
#include <gloo/transport/device.cc>
#include <gloo/transport/pair.cc>
#include <gloo/transport/tcp/address.cc>
#include <gloo/transport/tcp/buffer.cc>
#include <gloo/transport/tcp/context.cc>
#include <gloo/transport/tcp/device.cc>
#include <gloo/transport/tcp/loop.cc>
#include <gloo/transport/tcp/pair.cc>
#include <gloo/transport/tcp/unbound_buffer.cc>
#include <gloo/transport/unbound_buffer.cc>

namespace {

namespace tcp = gloo::transport::tcp;
using tcp::Op;

constexpr std::size_t kGuard = 512;  // bytes
constexpr char kUntouched = 0x55;
constexpr std::chrono::seconds kHang(60);

void Expect(bool condition, const char* what) {
  if (condition) return;
  std::printf("failed %s\n", what);
  std::_Exit(1);
}

template <class Happened>
void Await(const Happened& happened, const char* what) {
  const auto end = std::chrono::steady_clock::now() + kHang;
  while (!happened()) {
    Expect(std::chrono::steady_clock::now() < end, what);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

// Memory for what is received, between memory that nothing may be written to.
class Guarded {
 public:
  explicit Guarded(std::size_t size) : size_(size), all_(size + 2 * kGuard, kUntouched) {}

  char* data() { return all_.data() + kGuard; }
  std::size_t size() const { return size_; }
  bool IsIntact() const {
    const auto is_untouched = [](char byte) { return byte == kUntouched; };
    return std::all_of(all_.begin(), all_.begin() + kGuard, is_untouched) &&
           std::all_of(all_.end() - kGuard, all_.end(), is_untouched);
  }

 private:
  const std::size_t size_;
  std::vector<char> all_;
};

std::shared_ptr<gloo::transport::Device> TheDevice() {
  static const auto device = [] {
    tcp::attr attr("127.0.0.1");
    attr.opt_sleeps = true;
    return tcp::CreateDevice(attr);
  }();
  return device;
}

// A rank that waits for its peer.
class Rank {
 public:
  Rank() : context_(TheDevice()->createContext(0, 2)) {
    context_->setTimeout(std::chrono::milliseconds(kHang));
    pair_ = static_cast<tcp::Pair*>(context_->createPair(1).get());
    const tcp::Address own(pair_->address().bytes());
    address_ = own.getSockaddr();
    token_ = own.getSeq();
    // Whose address is greater connects.
    auto greatest = address_;
    reinterpret_cast<sockaddr_in&>(greatest).sin_port = 0xffff;
    connecting_ = std::thread([this, greatest] {
      try {
        pair_->connect(tcp::Address(greatest).bytes());
      } catch (const std::exception& error) {
        error_ = error.what();
      }
    });
  }
  ~Rank() {
    if (connecting_.joinable()) connecting_.join();
  }

  // How its connection came about; empty: well.
  std::string Connected() {
    if (connecting_.joinable()) connecting_.join();
    return error_;
  }
  gloo::transport::Context& context() { return *context_; }
  tcp::Pair& pair() { return *pair_; }
  const sockaddr_storage& address() const { return address_; }
  tcp::sequence_number_t token() const { return token_; }

 private:
  std::shared_ptr<gloo::transport::Context> context_;
  tcp::Pair* pair_;
  sockaddr_storage address_;
  tcp::sequence_number_t token_;
  std::string error_;
  std::thread connecting_;
};

class Connection {
 public:
  explicit Connection(const Rank& rank) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    const auto* const address = reinterpret_cast<const sockaddr*>(&rank.address());
    Expect(connect(socket_, address, sizeof(sockaddr_in)) == 0, "connect");
  }
  ~Connection() { Close(); }

  // The rank may have closed it.
  void Send(const void* data, std::size_t size) const {
    static_cast<void>(!::send(socket_, data, size, MSG_NOSIGNAL));
  }
  void Reset() {
    const linger at_once{1, 0};
    setsockopt(socket_, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    Close();
  }
  void Close() {
    if (socket_ >= 0) close(std::exchange(socket_, -1));
  }
  void ReadToTheEnd() const {
    std::vector<char> bytes(1 << 16);
    while (recv(socket_, bytes.data(), bytes.size(), 0) > 0) {
    }
  }
  // The rank has closed it.
  bool IsOver() const {
    char byte;
    const ssize_t length = recv(socket_, &byte, 1, MSG_DONTWAIT);
    return length == 0 || (length < 0 && errno == ECONNRESET);
  }

 private:
  int socket_;
};

// Who knows the pair's token.
std::unique_ptr<Connection> ConnectAsPeer(Rank& rank) {
  auto connection = std::make_unique<Connection>(rank);
  const tcp::sequence_number_t token = rank.token();
  if (token != tcp::Address::kSequenceNumberUnset) connection->Send(&token, sizeof(token));
  Expect(rank.Connected().empty(), "the peer is not let in");
  return connection;
}

decltype(Op::preamble) Preamble(Op::Opcode opcode, std::size_t slot, std::size_t length,
                                std::size_t roffset = 0) {
  decltype(Op::preamble) preamble;
  const bool sends = opcode == Op::SEND_BUFFER || opcode == Op::SEND_UNBOUND_BUFFER;
  preamble.nbytes = sizeof(preamble) + (sends ? length : 0);
  preamble.opcode = opcode;
  preamble.slot = slot;
  preamble.length = length;
  preamble.roffset = roffset;
  return preamble;
}

std::string Outcome(const std::function<void()>& wait) {
  try {
    wait();
  } catch (const std::exception& error) {
    std::string text = error.what();
    std::replace(text.begin(), text.end(), '\n', ' ');
    return text;
  }
  return "received";
}

// --- cases ---

// The offset lies before the buffer; the sum of offset and length is within.
std::string WrappedSum() {
  Rank rank;
  Guarded memory(64);
  const auto buffer = rank.pair().createRecvBuffer(7, memory.data(), memory.size());
  const auto peer = ConnectAsPeer(rank);
  const auto preamble =
      Preamble(Op::SEND_BUFFER, 7, 48, static_cast<std::size_t>(-std::int64_t{32}));
  peer->Send(&preamble, sizeof(preamble));
  peer->Send(std::string(48, 'x').data(), 48);
  const std::string outcome = Outcome([&] { buffer->waitRecv(); });
  return (memory.IsIntact() ? "intact, " : "overwritten, ") + outcome;
}

// More than the rank has asked for: by one slot, one byte, one message.
std::string NotAskedFor(std::size_t slot, std::size_t length, int messages) {
  Rank rank;
  const auto peer = ConnectAsPeer(rank);
  Guarded first(32), second(32);
  const auto buffer = rank.context().createUnboundBuffer(first.data(), first.size());
  buffer->recv(1, 5);
  for (int i = 0; i < messages; ++i) {
    const auto preamble = Preamble(Op::SEND_UNBOUND_BUFFER, slot, length);
    peer->Send(&preamble, sizeof(preamble));
    peer->Send(std::string(length, 'x').data(), length);
  }
  std::string outcome = Outcome([&] { buffer->waitRecv(); });
  if (outcome == "received") {
    outcome = Outcome([&] {
      const auto next = rank.context().createUnboundBuffer(second.data(), second.size());
      next->recv(1, 6);
      next->waitRecv();
    });
  }
  return (first.IsIntact() && second.IsIntact() ? "intact, " : "overwritten, ") + outcome;
}

std::string NoPreamble() {
  Rank rank;
  Guarded memory(32);
  const auto buffer = rank.pair().createRecvBuffer(7, memory.data(), memory.size());
  const auto peer = ConnectAsPeer(rank);
  const std::string text = "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: somebody\r\n\r\n";
  peer->Send(text.data(), text.size());
  return Outcome([&] { buffer->waitRecv(); });
}

// A message for a buffer that is gone when the rest of it comes.
std::string BufferIsGone() {
  Rank rank;
  auto memory = std::make_unique<Guarded>(4096);
  auto buffer = rank.pair().createRecvBuffer(7, memory->data(), memory->size());
  const auto peer = ConnectAsPeer(rank);
  const auto preamble = Preamble(Op::SEND_BUFFER, 7, memory->size());
  const std::string data(memory->size(), 'x');
  peer->Send(&preamble, sizeof(preamble));
  peer->Send(data.data(), 1);
  const auto read = [&] {
    std::lock_guard<std::mutex> lock(rank.pair().m_);
    return rank.pair().rx_.nread;
  };
  Await([&] { return read() == sizeof(preamble) + 1; }, "the beginning has not come");
  buffer.reset();
  memory.reset();
  peer->Send(data.data(), data.size() - 1);
  // The rank cannot read on, and goes on with what comes next.
  Guarded other(4096);
  buffer = rank.pair().createRecvBuffer(7, other.data(), other.size());
  return Outcome([&] { buffer->waitRecv(); });
}

// A message that the socket could not take, whose memory is gone when the peer reads.
std::string MessageIsGivenUp() {
  Rank rank;
  Guarded memory(8);
  const auto buffer = rank.pair().createRecvBuffer(8, memory.data(), memory.size());
  auto message = std::make_unique<std::vector<char>>(std::size_t{64} << 20);
  auto sender = rank.pair().createSendBuffer(7, message->data(), message->size());
  const auto peer = ConnectAsPeer(rank);
  sender->send(0, message->size());
  sender.reset();
  message.reset();
  peer->ReadToTheEnd();
  return Outcome([&] { buffer->waitRecv(); });
}

std::string Announcements(Op::Opcode opcode) {
  Rank rank;
  Guarded memory(32);
  const auto buffer = rank.pair().createRecvBuffer(7, memory.data(), memory.size());
  const auto peer = ConnectAsPeer(rank);
  std::vector<decltype(Op::preamble)> many;
  for (std::size_t slot = 0; slot < 10000; ++slot) many.push_back(Preamble(opcode, slot, 8));
  peer->Send(many.data(), many.size() * sizeof(many[0]));
  peer->Close();
  return Outcome([&] { buffer->waitRecv(); });
}

// They say nothing, something else, or end; then the peer comes.
std::string Strangers() {
  Rank rank;
  std::vector<std::unique_ptr<Connection>> strangers;
  const auto next = [&]() -> Connection& {
    strangers.push_back(std::make_unique<Connection>(rank));
    return *strangers.back();
  };
  next().Reset();
  next().Close();
  tcp::sequence_number_t wrong = rank.token() ^ 1;
  next().Send(&wrong, sizeof(wrong));
  next().Send(&wrong, 3);
  for (int i = 0; i < 40; ++i) next();
  const auto over = [&] {
    return std::count_if(strangers.begin() + 2, strangers.end(),
                         [](const auto& stranger) { return stranger->IsOver(); });
  };
  Await([&] { return over() >= 34; }, "strangers stay");
  Guarded memory(8);
  const auto buffer = rank.pair().createRecvBuffer(7, memory.data(), memory.size());
  const auto peer = ConnectAsPeer(rank);
  Await([&] { return over() == 42; }, "strangers stay after the peer has come");
  const auto preamble = Preamble(Op::SEND_BUFFER, 7, 8);
  peer->Send(&preamble, sizeof(preamble));
  peer->Send("12345678", 8);
  const std::string outcome = Outcome([&] { buffer->waitRecv(); });
  return outcome + " " + std::string(memory.data(), 8);
}

// Messages drawn at random: in every other round right ones, else most are wrong in one thing.
class Draw {
 public:
  explicit Draw(unsigned seed) : random_(seed) {}

  void Round(bool right) {
    Rank rank;
    std::vector<Guarded> bound, unbound;
    std::vector<std::unique_ptr<gloo::transport::Buffer>> buffers;
    std::vector<std::unique_ptr<gloo::transport::UnboundBuffer>> receives;
    for (int i = 0; i < kBuffers; ++i) bound.emplace_back(Below(300));
    for (int i = 0; i < kBuffers; ++i) unbound.emplace_back(Below(300));
    for (int i = 0; i < kBuffers; ++i) {
      buffers.push_back(rank.pair().createRecvBuffer(i, bound[i].data(), bound[i].size()));
    }
    const auto peer = ConnectAsPeer(rank);
    for (int i = 0; i < kBuffers; ++i) {
      receives.push_back(rank.context().createUnboundBuffer(unbound[i].data(), unbound[i].size()));
      receives.back()->recv(1, kFirstSlot + i);
    }
    const std::string bytes = right ? Right(bound, unbound) : Wrong(bound, unbound);
    for (std::size_t begin = 0, size; begin < bytes.size(); begin += size) {
      size = std::min<std::size_t>(1 + Below(200), bytes.size() - begin);
      peer->Send(bytes.data() + begin, size);
    }
    if (!right) peer->Close();
    for (auto& buffer : buffers) Count(Outcome([&] { buffer->waitRecv(); }));
    for (auto& receive : receives) Count(Outcome([&] { receive->waitRecv(); }));
    for (const auto* memory : {&bound, &unbound}) {
      for (const Guarded& one : *memory) Expect(one.IsIntact(), "memory is overwritten");
    }
  }

  int received = 0, refused = 0, ended = 0;

 private:
  static constexpr int kBuffers = 3, kFirstSlot = 100;

  std::size_t Below(std::size_t end) { return random_() % end; }

  std::size_t Odd(std::size_t size) {
    const std::size_t values[] = {0,
                                  1,
                                  size - 1,
                                  size + 1,
                                  -size,
                                  ~std::size_t{0},
                                  std::size_t{1} << 31,
                                  std::size_t{1} << 32,
                                  std::size_t{1} << 63,
                                  -(std::size_t{1} + Below(kGuard))};
    return values[Below(std::size(values))];
  }

  // One for each buffer, in any order.
  std::string Right(const std::vector<Guarded>& bound, const std::vector<Guarded>& unbound) {
    std::vector<std::string> messages;
    for (int i = 0; i < kBuffers; ++i) {
      for (const bool is_bound : {true, false}) {
        const std::size_t size = (is_bound ? bound : unbound)[i].size();
        const auto preamble = is_bound ? Preamble(Op::SEND_BUFFER, i, size)
                                       : Preamble(Op::SEND_UNBOUND_BUFFER, kFirstSlot + i, size);
        messages.emplace_back(reinterpret_cast<const char*>(&preamble), sizeof(preamble));
        messages.back().append(size, 'x');
      }
    }
    std::shuffle(messages.begin(), messages.end(), random_);
    std::string bytes;
    for (const std::string& message : messages) bytes += message;
    return bytes;
  }

  std::string Wrong(const std::vector<Guarded>& bound, const std::vector<Guarded>& unbound) {
    std::string bytes;
    for (std::size_t i = 0, count = 1 + Below(4); i < count; ++i) {
      const auto opcode = static_cast<Op::Opcode>(Below(4));
      const std::size_t number = Below(kBuffers);
      const std::size_t size = (opcode == Op::SEND_BUFFER ? bound : unbound)[number].size();
      const bool is_bound = opcode == Op::SEND_BUFFER;
      auto preamble = Preamble(opcode, is_bound ? number : kFirstSlot + number, size);
      if (is_bound && Below(2) == 0) {
        // What a wrapped sum hides: an offset before the buffer, a length that ends in it.
        const std::size_t before = 1 + Below(kGuard);
        preamble.roffset = -before;
        preamble.length = std::min(before + Below(size + 1), std::size_t{kGuard});
        preamble.nbytes = sizeof(preamble) + preamble.length;
      }
      const std::size_t payload = preamble.nbytes - sizeof(preamble);
      std::size_t* const fields[] = {&preamble.nbytes, &preamble.opcode,  &preamble.slot,
                                     &preamble.length, &preamble.roffset, &preamble.offset};
      if (Below(3) == 0) *fields[Below(std::size(fields))] = Odd(size);
      // A buffer that there is not yet is waited for, so another slot is one that never is.
      if (preamble.opcode == Op::SEND_BUFFER && preamble.slot >= kBuffers) {
        preamble.slot = std::size_t{1} << (32 + Below(32));
      }
      bytes.append(reinterpret_cast<const char*>(&preamble), sizeof(preamble));
      bytes.append(payload, 'x');
    }
    return bytes;
  }

  void Count(const std::string& outcome) {
    const bool is_refusal = outcome.find("peer [") != std::string::npos;
    ++(outcome == "received" ? received : is_refusal ? refused : ended);
  }

  std::minstd_rand random_;
};

}  // namespace

int main(int, char** arguments) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  std::printf("wrapped %s\n", WrappedSum().c_str());
  std::printf("slot %s\n", NotAskedFor(4, 32, 1).c_str());
  std::printf("length %s\n", NotAskedFor(5, 33, 1).c_str());
  std::printf("twice %s\n", NotAskedFor(5, 32, 2).c_str());
  std::printf("text %s\n", NoPreamble().c_str());
  std::printf("gone %s\n", BufferIsGone().c_str());
  std::printf("given-up %s\n", MessageIsGivenUp().c_str());
  std::printf("sends %s\n", Announcements(Op::NOTIFY_SEND_READY).c_str());
  std::printf("receives %s\n", Announcements(Op::NOTIFY_RECV_READY).c_str());
  std::printf("strangers %s\n", Strangers().c_str());
  Draw draw(static_cast<unsigned>(std::atoi(arguments[1])));
  for (int round = std::atoi(arguments[2]); round > 0; --round) draw.Round(round % 2 == 0);
  std::printf("drawn received %d refused %d ended %d\n", draw.received, draw.refused, draw.ended);
}
