// What nodes say to each other to get chunks from each other's memory: frames of fixed sizes, in
// the byte order of the machine, which the first one tells.
//
// Who connects is the client. Both prove that they know the server's secret, which the job's ranks
// tell each other otherwise: an HMAC over the other one's nonce. Behind that the client asks, and
// gets an answer to each of its requests, in their order.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "horovod_opt/csrc/io/kept/hmac_sha256.h"

namespace horovod_opt {
namespace io {

constexpr std::uint64_t kPeerMagic = 0x31706f6968766f68;  // "hovhiop1"

using Nonce = std::array<unsigned char, 32>;
using Fingerprint =
    std::array<unsigned char, 16>;  // of the index, and of how it is cut into chunks

struct Greeting {  // the server's first
  std::uint64_t magic;
  Nonce nonce;
};

struct ClientProof {
  Nonce nonce;
  Digest tag;
};

struct ServerProof {
  Digest tag;
};

// Bytes `begin` to `end` - 1 of a chunk as it comes in a chunk buffer.
struct ChunkRequest {
  Fingerprint fingerprint;
  std::int64_t chunk, begin, end;
};

enum class AnswerKind : std::int64_t {
  kBytes = 1,         // they follow: end - begin
  kNotHere = 2,       // it is not this node's to keep
  kDamaged = 3,       // it cannot be kept
  kStillReading = 4,  // another answer follows
  kOtherIndex = 5,    // the last
  kClosing = 6,       // the last, perhaps to no request: the node keeps nothing any more
};

struct ChunkAnswer {
  AnswerKind kind;
  std::int64_t chunk, begin, end;  // of the request
};

// A request is sent before the one before it is answered, but not more: they fit into any socket's
// buffer, so that no client waits to send while its server does.
constexpr std::size_t kMostAsked = 64;

static_assert(sizeof(Greeting) == 40 && sizeof(ClientProof) == 64 && sizeof(ServerProof) == 32 &&
                  sizeof(ChunkRequest) == 40 && sizeof(ChunkAnswer) == 32,
              "frames have no gaps");

// What the tags are of. The sides' texts differ, so that no answer proves anything when sent back.
inline Digest ClientTag(const std::string& secret, const Nonce& server, const Nonce& client) {
  return HmacSha256(secret, "client" + std::string(server.begin(), server.end()) +
                                std::string(client.begin(), client.end()));
}

inline Digest ServerTag(const std::string& secret, const Nonce& server, const Nonce& client) {
  return HmacSha256(secret, "server" + std::string(client.begin(), client.end()) +
                                std::string(server.begin(), server.end()));
}

// Throws std::system_error.
Nonce DrawNonce();

}  // namespace io
}  // namespace horovod_opt
