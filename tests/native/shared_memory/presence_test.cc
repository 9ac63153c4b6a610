#include "horovod_opt/csrc/core/shared_memory/presence.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <thread>
#include <vector>

namespace horovod_opt {
namespace presence_test {

constexpr int kRanks = 3;

class PresenceTest : public testing::Test {
 protected:
  PresenceTest()
      : memory_(mmap(nullptr, Presence::Bytes(kRanks), PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {}
  ~PresenceTest() override { munmap(memory_, Presence::Bytes(kRanks)); }

  // A process in which `rank` enters; it ends by `end`, when it is told to.
  struct Peer {
    pid_t pid;
    int entered, go;
  };
  Peer Start(int rank, const std::function<void(Presence&)>& end) {
    int entered[2], go[2];
    EXPECT_EQ(pipe(entered), 0);
    EXPECT_EQ(pipe(go), 0);
    const pid_t pid = fork();
    if (pid == 0) {
      Presence presence(memory_, rank, kRanks);
      presence.Enter();
      char byte = 0;
      if (write(entered[1], &byte, 1) != 1 || read(go[0], &byte, 1) != 1) _exit(3);
      end(presence);
      pause();
    }
    char byte;
    EXPECT_EQ(read(entered[0], &byte, 1), 1);
    return {pid, entered[0], go[1]};
  }
  void Go(const Peer& peer) { EXPECT_EQ(write(peer.go, "", 1), 1); }
  void Reap(const Peer& peer) {
    kill(peer.pid, SIGKILL);
    waitpid(peer.pid, nullptr, 0);
  }

  void* const memory_;
};

TEST_F(PresenceTest, WhoIsThereIsNotMissing) {
  Presence own(memory_, 0, kRanks);
  own.Enter();
  const auto stay = [](Presence&) {};
  const Peer first = Start(1, stay), second = Start(2, stay);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(own.Missing(), -1);
  Reap(first);
  Reap(second);
  own.Close();
}

TEST_F(PresenceTest, WhoIsKilledExitsOrLeavesIsMissingForEverybody) {
  const std::function<void(Presence&)> ends[] = {
      [](Presence&) { kill(getpid(), SIGKILL); },
      [](Presence&) { _exit(0); },
      [](Presence& presence) { presence.Close(); },
  };
  for (const auto& end : ends) {
    Presence own(memory_, 0, kRanks);
    own.Enter();
    const Peer peer = Start(1, [](Presence& presence) { _exit(presence.Missing()); });
    const Peer gone = Start(2, end);
    EXPECT_EQ(own.Missing(), -1);
    Go(gone);
    while (own.Missing() == -1) usleep(1000);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(own.Missing(), 2);
    Go(peer);
    int status = 0;
    waitpid(peer.pid, &status, 0);
    EXPECT_EQ(WEXITSTATUS(status), 2);
    Reap(gone);
    own.Close();
  }
}

TEST_F(PresenceTest, AThreadThatEndsIsMissingThoughItsProcessGoesOn) {
  Presence own(memory_, 0, kRanks);
  own.Enter();
  Presence(memory_, 1, kRanks).Enter();  // by this thread, too
  std::thread([this] { Presence(memory_, 2, kRanks).Enter(); }).join();
  EXPECT_EQ(own.Missing(), 2);
}

TEST_F(PresenceTest, AForkedChildTakesNobodysPlace) {
  Presence own(memory_, 0, kRanks), peer(memory_, 1, kRanks), third(memory_, 2, kRanks);
  own.Enter();
  peer.Enter();
  third.Enter();
  const pid_t pid = fork();
  if (pid == 0) _exit(0);
  waitpid(pid, nullptr, 0);
  std::thread([&] { EXPECT_EQ(own.Missing(), -1); }).join();
  for (Presence* presence : {&own, &peer, &third}) presence->Close();
}

}  // namespace presence_test
}  // namespace horovod_opt
