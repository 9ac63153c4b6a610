#include "horovod_opt/csrc/io/kept/chunk_server.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/sendfile.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace horovod_opt {
namespace io {
namespace {

using system_call::Fail;
using system_call::MillisecondsUntil;

constexpr int kServerBacklog = 1024;
constexpr int kEventsAtOnce = 64;
// Of events; clients have those behind.
constexpr std::uint64_t kListener = 0, kWakeups = 1, kFirstClient = 2;
constexpr std::chrono::milliseconds kRest(50);  // nothing tells that there is room again
constexpr std::size_t kLargestFrame = std::max(sizeof(ClientProof), sizeof(ChunkRequest));
// Bytes that one client gets before another one's turn.
constexpr std::int64_t kTurn = std::int64_t{1} << 20;

Descriptor Listen(const std::string& host, std::string& port) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), "0", &hints, &found);
  if (error != 0) throw std::runtime_error("'" + host + "' is no address: " + gai_strerror(error));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> address(found, freeaddrinfo);
  Descriptor made(socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (made.number() < 0 || bind(made.number(), address->ai_addr, address->ai_addrlen) != 0 ||
      listen(made.number(), kServerBacklog) != 0) {
    Fail("cannot listen at " + host);
  }
  sockaddr_storage own{};
  socklen_t length = sizeof(own);
  char name[NI_MAXSERV];
  if (getsockname(made.number(), reinterpret_cast<sockaddr*>(&own), &length) != 0 ||
      getnameinfo(reinterpret_cast<sockaddr*>(&own), length, nullptr, 0, name, sizeof(name),
                  NI_NUMERICSERV) != 0) {
    Fail("getsockname");
  }
  port = name;
  return made;
}

}  // namespace

struct ChunkServer::Client {
  std::uint64_t number;
  Descriptor socket;
  Clock::time_point since;  // when it came, was heard last, or was told that we still read
  Nonce nonce;
  bool is_proven = false;
  char frame[kLargestFrame];
  std::size_t received = 0;  // of it
  ChunkRequest request{};
  bool waits = false;                // for a chunk
  std::string unsent;                // frames, and then
  std::int64_t place = 0, left = 0;  // bytes of the file

  bool is_sending() const { return !unsent.empty() || left > 0; }
  std::size_t frame_bytes() const { return is_proven ? sizeof(ChunkRequest) : sizeof(ClientProof); }
};

ChunkServer::ChunkServer(KeptChunks& chunks, const Fingerprint& fingerprint,
                         const std::string& host, std::string secret, Want want,
                         std::atomic<std::int64_t>& served, Options options)
    : chunks_(chunks),
      fingerprint_(fingerprint),
      secret_(std::move(secret)),
      want_(std::move(want)),
      served_(served),
      options_(options),
      listener_(Listen(host, port_)),
      events_(epoll_create1(EPOLL_CLOEXEC)),
      wakeups_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      next_number_(kFirstClient) {
  if (events_.number() < 0 || wakeups_.number() < 0 || !Register(listener_, kListener, EPOLLIN) ||
      !Register(wakeups_, kWakeups, EPOLLIN)) {
    Fail("epoll");
  }
  thread_ = std::thread([this] { Run(); });
  pthread_setname_np(thread_.native_handle(), "hio-serve");
}

ChunkServer::~ChunkServer() {
  stop_ = true;
  Wake();
  thread_.join();
}

void ChunkServer::Wake() { eventfd_write(wakeups_.number(), 1); }

void ChunkServer::Run() {
  epoll_event ready[kEventsAtOnce];
  while (!stop_) {
    const int count = epoll_wait(events_.number(), ready, kEventsAtOnce, MillisecondsToSleep());
    if (rests_) {
      rests_ = false;
      Register(listener_, kListener, EPOLLIN);
    }
    for (int i = 0; i < count; ++i) {
      const std::uint64_t number = ready[i].data.u64;
      if (number == kWakeups) {
        eventfd_t wakeups;
        eventfd_read(wakeups_.number(), &wakeups);
      } else if (number == kListener) {
        Accept();
      } else if (const auto client = clients_.find(number); client != clients_.end()) {
        const bool is_gone = (ready[i].events & (EPOLLERR | EPOLLHUP | EPOLLRDHUP)) != 0;
        if (is_gone || !Hear(*client->second)) clients_.erase(number);
      }
    }
    LookAgain();
  }
  for (const auto& [number, client] : clients_) {
    if (!client->is_proven || client->is_sending()) continue;
    const ChunkAnswer closing{AnswerKind::kClosing, 0, 0, 0};
    send(client->socket.number(), &closing, sizeof(closing), MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  clients_.clear();
}

bool ChunkServer::Register(const Descriptor& source, std::uint64_t number, std::uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = number;
  return epoll_ctl(events_.number(), EPOLL_CTL_ADD, source.number(), &event) == 0;
}

int ChunkServer::MillisecondsToSleep() const {
  Clock::time_point next = rests_ ? Clock::now() + kRest : Clock::time_point::max();
  for (const auto& [number, client] : clients_) {
    if (!client->is_proven) next = std::min(next, client->since + options_.unproven_time);
    if (client->waits) next = std::min(next, client->since + options_.still_reading);
  }
  return MillisecondsUntil(next);
}

void ChunkServer::Accept() {
  Descriptor socket(accept4(listener_.number(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (socket.number() < 0) {
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      // The next connection would wake this thread again and again.
      epoll_ctl(events_.number(), EPOLL_CTL_DEL, listener_.number(), nullptr);
      rests_ = true;
    }
    return;
  }
  MakeRoom(false, options_.most_unproven);
  const int yes = 1;
  setsockopt(socket.number(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
  auto client = std::make_unique<Client>();
  client->number = next_number_++;
  client->socket = std::move(socket);
  client->since = Clock::now();
  client->nonce = DrawNonce();
  const Greeting greeting{kPeerMagic, client->nonce};
  client->unsent.assign(reinterpret_cast<const char*>(&greeting), sizeof(greeting));
  if (!Register(client->socket, client->number, 0)) return;
  Client& added = *(clients_[client->number] = std::move(client));
  if (!Send(added)) clients_.erase(added.number);
}

// The one that was heard last the longest ago gives way, unless it is waiting or being sent to.
void ChunkServer::MakeRoom(bool is_proven, std::size_t most) {
  std::size_t count = 0;
  const Client* oldest = nullptr;
  for (const auto& [number, client] : clients_) {
    if (client->is_proven != is_proven) continue;
    ++count;
    if (is_proven && (client->waits || client->is_sending())) continue;
    if (oldest == nullptr || client->since < oldest->since) oldest = client.get();
  }
  if (count >= most && oldest != nullptr) clients_.erase(oldest->number);
}

// False: it is to be dropped.
bool ChunkServer::Hear(Client& client) {
  if (client.is_sending()) return Send(client);
  while (!client.is_sending() && !client.waits) {
    const ssize_t count = recv(client.socket.number(), client.frame + client.received,
                               client.frame_bytes() - client.received, 0);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) break;
    if (count <= 0) return false;
    client.received += static_cast<std::size_t>(count);
    if (client.received == client.frame_bytes() && !TakeFrame(client)) return false;
  }
  Watch(client);
  return true;
}

bool ChunkServer::TakeFrame(Client& client) {
  client.received = 0;
  if (!client.is_proven) return Prove(client);
  std::memcpy(&client.request, client.frame, sizeof(client.request));
  client.since = Clock::now();
  return Answer(client);
}

bool ChunkServer::Prove(Client& client) {
  ClientProof proof;
  std::memcpy(&proof, client.frame, sizeof(proof));
  if (!AreEqual(proof.tag, ClientTag(secret_, client.nonce, proof.nonce))) return false;
  MakeRoom(true, options_.most_proven);
  client.is_proven = true;
  client.since = Clock::now();
  const ServerProof own{ServerTag(secret_, client.nonce, proof.nonce)};
  client.unsent.append(reinterpret_cast<const char*>(&own), sizeof(own));
  return Send(client);
}

bool ChunkServer::Answer(Client& client) {
  const ChunkRequest& request = client.request;
  client.waits = false;
  if (request.fingerprint != fingerprint_) {
    Say(client, AnswerKind::kOtherIndex);
    Send(client);
    return false;
  }
  // Invariant 2.
  if (request.chunk < 0 || request.chunk >= chunks_.count() || request.begin < 0 ||
      request.begin >= request.end || request.end > chunks_.bytes(request.chunk)) {
    return false;
  }
  KeptChunks::State state = chunks_.state(request.chunk);
  if (state == KeptChunks::State::kMissing) {
    want_(request.chunk);
    state = chunks_.state(request.chunk);
    if (state == KeptChunks::State::kMissing)
      state = KeptChunks::State::kElsewhere;  // nobody reads
  }
  switch (state) {
    case KeptChunks::State::kReading:
      client.waits = true;
      return true;
    case KeptChunks::State::kKept:
      client.place = chunks_.place(request.chunk) + request.begin;
      client.left = request.end - request.begin;
      Say(client, AnswerKind::kBytes);
      break;
    case KeptChunks::State::kMissing:
    case KeptChunks::State::kElsewhere:
      Say(client, AnswerKind::kNotHere);
      break;
    case KeptChunks::State::kRefused:
      Say(client, AnswerKind::kDamaged);
      break;
  }
  return Send(client);
}

void ChunkServer::Say(Client& client, AnswerKind kind) {
  const ChunkRequest& request = client.request;
  const ChunkAnswer answer{kind, request.chunk, request.begin, request.end};
  client.unsent.append(reinterpret_cast<const char*>(&answer), sizeof(answer));
}

bool ChunkServer::Send(Client& client) {
  const int socket = client.socket.number();
  while (!client.unsent.empty()) {
    const ssize_t count = send(socket, client.unsent.data(), client.unsent.size(),
                               MSG_NOSIGNAL | (client.left > 0 ? MSG_MORE : 0));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) break;
    if (count <= 0) return false;
    client.unsent.erase(0, static_cast<std::size_t>(count));
  }
  std::int64_t turn = kTurn;
  while (client.unsent.empty() && client.left > 0 && turn > 0) {
    off_t place = client.place;
    const ssize_t count = sendfile(socket, chunks_.file().number(), &place,
                                   static_cast<std::size_t>(std::min(client.left, turn)));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) break;
    if (count <= 0) return false;  // the file has been closed, or cannot be read
    client.place += count;
    client.left -= count;
    turn -= count;
    served_ += count;
  }
  Watch(client);
  return true;
}

// Those that wait for a chunk, and those that do not prove anything.
void ChunkServer::LookAgain() {
  const auto now = Clock::now();
  std::vector<std::uint64_t> gone;
  for (const auto& [number, client] : clients_) {
    if (!client->is_proven && now >= client->since + options_.unproven_time) gone.push_back(number);
    if (!client->waits) continue;
    const KeptChunks::State state = chunks_.state(client->request.chunk);
    if (state != KeptChunks::State::kReading) {
      if (!Answer(*client)) gone.push_back(number);
    } else if (now >= client->since + options_.still_reading) {
      client->since = now;
      Say(*client, AnswerKind::kStillReading);
      if (!Send(*client)) gone.push_back(number);
    }
  }
  for (const std::uint64_t number : gone) clients_.erase(number);
}

void ChunkServer::Watch(Client& client) {
  epoll_event event{};
  event.events = EPOLLRDHUP;
  if (client.is_sending()) {
    event.events |= EPOLLOUT;
  } else if (!client.waits) {
    event.events |= EPOLLIN;
  }
  event.data.u64 = client.number;
  epoll_ctl(events_.number(), EPOLL_CTL_MOD, client.socket.number(), &event);
}

}  // namespace io
}  // namespace horovod_opt
