// TCP keep-alive: whether the machine at the other end of a connection still answers. That of a
// process that is late, or stopped, does, for as long as it takes; where a firewall or a failed
// switch drops what comes, nobody does, and no error tells.
//
// TCP_USER_TIMEOUT is left alone: it would also end a connection whose other end acknowledges
// everything and reads nothing, as that of a stopped process with full buffers.
#pragma once

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace horovod_opt {

// While nothing is under way the kernel itself asks the other end, three times in the second half
// of `silence`, and ends the connection with ETIMEDOUT if there was no answer.
inline void KeepAlive(int socket, std::chrono::seconds silence) {
  constexpr int kProbes = 3, kLongest = 32767;  // seconds, tcp(7)
  const auto seconds = static_cast<int>(std::clamp<std::int64_t>(silence.count(), 1, kLongest));
  const int yes = 1, idle = std::max(1, seconds / 2), interval = std::max(1, idle / kProbes);
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &kProbes, sizeof(kProbes));
  setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof(yes));
}

// Of a connection kept alive: the kernel has repeated data, or asked for room for more, in vain,
// and has heard nothing for `silence`. Two attempts, since it asks a stopped process less and less
// often, so that an answer may be older than that when the next question is on its way.
inline bool IsSilent(int socket, std::chrono::milliseconds silence) {
  constexpr int kAttempts = 2;
  tcp_info info{};
  socklen_t length = sizeof(info);
  if (getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return false;
  return info.tcpi_retransmits + info.tcpi_probes >= kAttempts &&
         std::chrono::milliseconds(info.tcpi_last_ack_recv) >= silence;
}

}  // namespace horovod_opt
