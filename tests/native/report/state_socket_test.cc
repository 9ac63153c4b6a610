// Who is told the state of a process, and what becomes of the thread that tells it.
#include "horovod_opt/csrc/core/report/state_socket.h"

#include <dirent.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <fstream>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "horovod_opt/csrc/core/base/unix_socket.h"
#include "tests/native/shared_memory/child.h"
#include "tests/native/waiting/await.h"

namespace horovod_opt {
namespace state_socket_test {

Descriptor Connect(const std::string& name) {
  Descriptor socket(unix_socket::New(SOCK_STREAM));
  const bool connected = unix_socket::AtName(name, [&](const sockaddr* address, socklen_t length) {
    return connect(socket.number(), address, length);
  });
  return connected ? std::move(socket) : Descriptor();
}

// "no socket" if nobody listens.
std::string Ask(const std::string& name) {
  const Descriptor socket = Connect(name);
  if (socket.number() < 0) return "no socket";
  std::string answer;
  for (;;) {
    pollfd event{socket.number(), POLLIN, 0};
    if (poll(&event, 1, 60'000) <= 0) return answer + "hangs";
    char part[4096];
    const ssize_t length = read(socket.number(), part, sizeof(part));
    if (length <= 0) return answer;
    answer.append(part, static_cast<std::size_t>(length));
  }
}

// Of this process with the name of the socket's, by their numbers.
std::vector<std::string> Threads() {
  std::vector<std::string> threads;
  DIR* const folder = opendir("/proc/self/task");
  while (const dirent* const entry = readdir(folder)) {
    std::ifstream file("/proc/self/task/" + std::string(entry->d_name) + "/comm");
    std::string name;
    if (std::getline(file, name) && name == "horovod-state") threads.push_back(entry->d_name);
  }
  closedir(folder);
  return threads;
}

TEST(StateSocket, TellsTheStateEachTime) {
  std::atomic<int> asked{0};
  const StateSocket socket([&] { return "state " + std::to_string(++asked); });
  EXPECT_EQ(Ask(socket.name()), "state 1");
  EXPECT_EQ(Ask(socket.name()), "state 2");
}

TEST(StateSocket, TellsAsMuchAsThereIs) {
  const std::string much(5'000'000, 'x');
  const StateSocket socket([&] { return much; });
  EXPECT_EQ(Ask(socket.name()), much);
}

TEST(StateSocket, SeveralInAProcess) {
  const StateSocket first([] { return "first"; }), second([] { return "second"; });
  EXPECT_NE(first.name(), second.name());
  EXPECT_EQ(Ask(second.name()), "second");
  EXPECT_EQ(Ask(first.name()), "first");
}

TEST(StateSocket, AnotherUserIsToldNothing) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can be another user";
  std::atomic<int> asked{0};
  const StateSocket socket([&] {
    ++asked;
    return "secret";
  });
  Child stranger([&] {
    if (setuid(kNobody) != 0) return 1;
    return Ask(socket.name()).empty() ? 0 : 2;
  });
  EXPECT_EQ(stranger.Status(), 0);
  EXPECT_EQ(asked, 0);
}

TEST(StateSocket, RootIsToldTheStateOfAnotherUser) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can be another user";
  Signal listens, end;
  int name[2];
  ASSERT_EQ(pipe(name), 0);
  Child user([&] {
    if (setuid(kNobody) != 0) return 1;
    const StateSocket socket([] { return "a user's"; });
    const auto bytes = static_cast<ssize_t>(socket.name().size());
    if (write(name[1], socket.name().data(), socket.name().size()) != bytes) return 2;
    listens.Send();
    end.Wait();
    return 0;
  });
  listens.Wait();
  char text[256];
  const ssize_t length = read(name[0], text, sizeof(text));
  EXPECT_EQ(Ask(std::string(text, static_cast<std::size_t>(length))), "a user's");
  end.Send();
  EXPECT_EQ(user.Status(), 0);
}

TEST(StateSocket, WhoDoesNotReadHoldsUpNobodyForLong) {
  const StateSocket socket([] { return std::string(5'000'000, 'x'); });
  const Descriptor silent = Connect(socket.name());
  EXPECT_EQ(Ask(socket.name()).size(), 5'000'000u);
}

TEST(StateSocket, WhoGoesAtOnceEndsNothing) {
  const StateSocket socket([] { return std::string(5'000'000, 'x'); });
  for (int i = 0; i < 10; ++i) Connect(socket.name());
  EXPECT_EQ(Ask(socket.name()).size(), 5'000'000u);
}

TEST(StateSocket, GoesWithItsThread) {
  std::string name;
  {
    const StateSocket socket([] { return "x"; });
    name = socket.name();
    EXPECT_TRUE(Await([] { return Threads().size() == 1; }));
  }
  EXPECT_EQ(Ask(name), "no socket");
  EXPECT_TRUE(Await([] { return Threads().empty(); }));
}

TEST(StateSocket, EndsWhileSomebodyWaits) {
  std::mutex mutex;
  std::condition_variable changed;
  bool asked = false;
  auto socket = std::make_unique<StateSocket>([&] {
    std::lock_guard<std::mutex> lock(mutex);
    asked = true;
    changed.notify_all();
    return std::string(5'000'000, 'x');
  });
  const Descriptor silent = Connect(socket->name());
  {
    std::unique_lock<std::mutex> lock(mutex);
    EXPECT_TRUE(changed.wait_for(lock, kHang, [&] { return asked; }));
  }
  socket.reset();
}

// Framework threads expect signals, this one does not.
TEST(StateSocket, TakesNoSignals) {
  const StateSocket socket([] {
    sigset_t blocked;
    pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
    return std::string(sigismember(&blocked, SIGINT) && sigismember(&blocked, SIGUSR1) ? "none"
                                                                                       : "some");
  });
  sigset_t own;
  pthread_sigmask(SIG_SETMASK, nullptr, &own);
  EXPECT_FALSE(sigismember(&own, SIGINT));
  EXPECT_EQ(Ask(socket.name()), "none");
}

TEST(StateSocket, IdleNeverWakes) {
  const StateSocket socket([] { return "x"; });
  ASSERT_TRUE(Await([] { return Threads().size() == 1; }));
  EXPECT_EQ(Ask(socket.name()), "x");
  const std::string task = "/proc/self/task/" + Threads()[0] + "/status";
  const auto switches = [&] {
    std::ifstream file(task);
    std::string text;
    for (std::string line; std::getline(file, line);) {
      if (line.find("voluntary_ctxt_switches") == 0) text = line;
    }
    return text;
  };
  // It sleeps again some time after it has answered.
  std::string before;
  ASSERT_TRUE(Await([&] {
    const std::string last = std::exchange(before, switches());
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    return last == before;
  }));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_EQ(switches(), before);
}

// A child that lives on keeps no socket open on which nobody answers.
TEST(StateSocket, AForkedChildLeavesItToItsParent) {
  auto socket = std::make_unique<StateSocket>([] { return "x"; });
  const std::string name = socket->name();
  Signal left, end;
  Child child([&] {
    socket->LeaveToParent();
    socket.reset();
    left.Send();
    end.Wait();
    return 0;
  });
  left.Wait();
  EXPECT_EQ(Ask(name), "x");
  socket.reset();
  EXPECT_EQ(Ask(name), "no socket");
  end.Send();
  EXPECT_EQ(child.Status(), 0);
}

}  // namespace state_socket_test
}  // namespace horovod_opt
