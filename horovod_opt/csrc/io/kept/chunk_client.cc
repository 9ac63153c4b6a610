#include "horovod_opt/csrc/io/kept/chunk_client.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace horovod_opt {
namespace io {
namespace {

using Clock = std::chrono::steady_clock;
using system_call::MillisecondsUntil;

constexpr std::chrono::milliseconds kLook(100);  // how often `stop` is looked at

// The texts say why a node is lost.
struct NodeLost : std::runtime_error {
  using std::runtime_error::runtime_error;
};
struct ConnectionEnded : NodeLost {
  using NodeLost::NodeLost;
};
struct WaitStopped {};

std::string TextOfError(int error) { return std::generic_category().message(error); }

Descriptor Connect(const PeerNode& node) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(node.host.c_str(), node.port.c_str(), &hints, &found);
  if (error != 0) throw NodeLost("'" + node.host + "' is no address: " + gai_strerror(error));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> address(found, freeaddrinfo);
  Descriptor made(socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (made.number() < 0) throw NodeLost("no socket: " + TextOfError(errno));
  if (connect(made.number(), address->ai_addr, address->ai_addrlen) != 0 && errno != EINPROGRESS) {
    throw NodeLost("cannot connect: " + TextOfError(errno));
  }
  const int yes = 1;
  setsockopt(made.number(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
  return made;
}

}  // namespace

Nonce DrawNonce() {
  Nonce nonce;
  if (getrandom(nonce.data(), nonce.size(), 0) != static_cast<ssize_t>(nonce.size())) {
    system_call::Fail("getrandom");
  }
  return nonce;
}

// To one node; proven. Calls throw NodeLost or WaitStopped, behind which it is of no use.
class ChunkClient::Connection {
 public:
  Connection(const PeerNode& node, std::chrono::milliseconds patience,
             const std::atomic<bool>& stop)
      : socket_(Connect(node)), patience_(patience), stop_(&stop) {
    Greeting greeting;
    Receive(&greeting, sizeof(greeting));
    if (greeting.magic != kPeerMagic) throw NodeLost("what answers there is no horovod-opt");
    const ClientProof own{DrawNonce(), {}};
    const ClientProof proof{own.nonce, ClientTag(node.secret, greeting.nonce, own.nonce)};
    Send(&proof, sizeof(proof));
    ServerProof answer;
    Receive(&answer, sizeof(answer));
    if (!AreEqual(answer.tag, ServerTag(node.secret, greeting.nonce, own.nonce))) {
      throw NodeLost("what answers there does not know this job's secret");
    }
  }

  // `has_answered`: whether anything has come.
  void Fetch(const Fingerprint& fingerprint, std::vector<ChunkRange>& ranges,
             const std::atomic<bool>& stop, bool& has_answered) {
    stop_ = &stop;
    std::size_t asked = 0;
    for (std::size_t taken = 0; taken < ranges.size(); ++taken) {
      if (asked < ranges.size() && asked - taken <= kMostAsked / 2) {
        const std::size_t end = std::min(taken + kMostAsked, ranges.size());
        std::vector<ChunkRequest> requests;
        for (; asked < end; ++asked) {
          const ChunkRange& range = ranges[asked];
          requests.push_back({fingerprint, range.chunk, range.begin, range.end});
        }
        Send(requests.data(), requests.size() * sizeof(ChunkRequest));
      }
      ranges[taken].is_there = Take(ranges[taken], has_answered);
    }
  }

 private:
  bool Take(const ChunkRange& range, bool& has_answered) {
    ChunkAnswer answer;
    do {
      Receive(&answer, sizeof(answer));
      has_answered = true;
      if (answer.kind == AnswerKind::kClosing) throw NodeLost("");
      if (answer.kind == AnswerKind::kOtherIndex) {
        throw NodeLost("it has another index, or other chunks");
      }
      if (answer.chunk != range.chunk || answer.begin != range.begin || answer.end != range.end) {
        throw NodeLost("it answers what nobody has asked for");
      }
    } while (answer.kind == AnswerKind::kStillReading);
    switch (answer.kind) {
      case AnswerKind::kBytes:
        Receive(range.to, static_cast<std::size_t>(range.end - range.begin));
        return true;
      case AnswerKind::kNotHere:
      case AnswerKind::kDamaged:
        return false;
      default:
        throw NodeLost("it gives an answer that does not exist");
    }
  }

  void Send(const void* data, std::size_t bytes) {
    const char* from = static_cast<const char*>(data);
    while (bytes > 0) {
      const ssize_t count = send(socket_.number(), from, bytes, MSG_NOSIGNAL);
      if (count < 0 && (errno == EAGAIN || errno == ENOTCONN)) {
        Await(POLLOUT);
      } else if (count < 0 && errno != EINTR) {
        throw ConnectionEnded("its connection has ended: " + TextOfError(errno));
      } else if (count > 0) {
        from += count;
        bytes -= static_cast<std::size_t>(count);
      }
    }
  }

  void Receive(void* data, std::size_t bytes) {
    char* to = static_cast<char*>(data);
    while (bytes > 0) {
      const ssize_t count = recv(socket_.number(), to, bytes, 0);
      if (count == 0) throw ConnectionEnded("it has closed its connection");
      if (count < 0 && errno == EAGAIN) {
        Await(POLLIN);
      } else if (count < 0 && errno != EINTR) {
        throw ConnectionEnded("its connection has ended: " + TextOfError(errno));
      } else if (count > 0) {
        to += count;
        bytes -= static_cast<std::size_t>(count);
      }
    }
  }

  void Await(short events) {
    const auto deadline = Clock::now() + patience_;
    for (;;) {
      if (stop_->load()) throw WaitStopped();
      const auto now = Clock::now();
      if (now >= deadline) {
        throw NodeLost("it has said nothing for " + std::to_string(patience_.count()) + " ms");
      }
      pollfd entry{socket_.number(), events, 0};
      const int ready = poll(&entry, 1, MillisecondsUntil(std::min(deadline, now + kLook)));
      if (ready > 0) return;
      if (ready < 0 && errno != EINTR) throw NodeLost("poll: " + TextOfError(errno));
    }
  }

  const Descriptor socket_;
  const std::chrono::milliseconds patience_;
  const std::atomic<bool>* stop_;
};

ChunkClient::ChunkClient(std::vector<PeerNode> nodes, const Fingerprint& fingerprint,
                         OnLost on_lost, Options options)
    : nodes_(std::move(nodes)),
      fingerprint_(fingerprint),
      on_lost_(std::move(on_lost)),
      options_(options),
      is_lost_(nodes_.size()) {}

ChunkClient::~ChunkClient() = default;

ChunkClient::Result ChunkClient::Fetch(int node, std::vector<ChunkRange>& ranges,
                                       const std::atomic<bool>& stop) {
  const PeerNode& peer = nodes_[static_cast<std::size_t>(node)];
  while (!is_lost(node)) {
    std::unique_ptr<Connection> connection = Take(node);
    const bool is_used = connection != nullptr;
    bool has_answered = false;
    try {
      if (!is_used) connection = std::make_unique<Connection>(peer, options_.patience, stop);
      connection->Fetch(fingerprint_, ranges, stop, has_answered);
      GiveBack(node, std::move(connection));
      return Result::kAnswered;
    } catch (const WaitStopped&) {
      GiveBack(node, nullptr);
      return Result::kStopped;
    } catch (const ConnectionEnded& ended) {
      GiveBack(node, nullptr);
      // A server with too many connections closes one that nobody uses just now.
      if (!is_used || has_answered) Lose(node, ended.what());
    } catch (const std::exception& error) {
      GiveBack(node, nullptr);
      Lose(node, error.what());
    }
  }
  return Result::kLost;
}

// Null: a new one may be made. There are no more in use than threads, so one of the others makes
// room.
std::unique_ptr<ChunkClient::Connection> ChunkClient::Take(int node) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto known = std::find_if(idle_.begin(), idle_.end(),
                                  [node](const Idle& idle) { return idle.node == node; });
  if (known != idle_.end()) {
    std::unique_ptr<Connection> connection = std::move(known->connection);
    idle_.erase(known);
    return connection;
  }
  if (open_ >= options_.most_connections && !idle_.empty()) {
    idle_.pop_back();
    --open_;
  }
  ++open_;
  return nullptr;
}

void ChunkClient::GiveBack(int node, std::unique_ptr<Connection> connection) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (connection == nullptr || is_lost(node)) {
    --open_;
  } else {
    idle_.push_front({node, std::move(connection)});
  }
}

void ChunkClient::Lose(int node, const std::string& why) {
  if (is_lost_[static_cast<std::size_t>(node)].exchange(true)) return;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    for (auto it = idle_.begin(); it != idle_.end();) {
      if (it->node == node) {
        it = idle_.erase(it);
        --open_;
      } else {
        ++it;
      }
    }
  }
  on_lost_(node, why);
}

}  // namespace io
}  // namespace horovod_opt
