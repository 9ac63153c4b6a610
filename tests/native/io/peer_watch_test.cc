#include "horovod_opt/csrc/io/node_cache/peer_watch.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "tests/native/shared_memory/child.h"
#include "tests/native/waiting/await.h"

namespace horovod_opt {
namespace io {
namespace peer_watch_test {

using namespace std::chrono_literals;

TEST(PeerWatch, SeesThatAProcessWasKilled) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  Child peer([&] {
    close(ends[0]);
    pause();
    return 0;
  });
  close(ends[1]);
  const Descriptor own(ends[0]);
  std::atomic<int> ended{0};
  const PeerWatch watch(own.number(), [&] { ++ended; });
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(ended, 0);
  peer.Kill();
  EXPECT_TRUE(Await([&] { return ended == 1; }));
}

TEST(PeerWatch, EndsBeforeItsPeer) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  const Descriptor own(ends[0]), peer(ends[1]);
  std::atomic<int> ended{0};
  { const PeerWatch watch(own.number(), [&] { ++ended; }); }
  EXPECT_EQ(ended, 0);
}

}  // namespace peer_watch_test
}  // namespace io
}  // namespace horovod_opt
