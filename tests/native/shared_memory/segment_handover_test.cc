#include "horovod_opt/csrc/core/shared_memory/segment_handover.h"

#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cstring>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "horovod_opt/csrc/core/shared_memory/shared_segment.h"
#include "tests/native/shared_memory/child.h"

namespace horovod_opt {
namespace segment_handover_test {

constexpr std::size_t kBytes = 10000;

// Whether `action` ends by an exception whose text contains `text`.
template <class Action>
bool Fails(const Action& action, const std::string& text) {
  try {
    action();
  } catch (const std::exception& error) {
    const bool says = std::string(error.what()).find(text) != std::string::npos;
    if (!says) ADD_FAILURE() << error.what();
    return says;
  }
  return false;
}

std::vector<std::string> Words(const SegmentGiver& giver) {
  std::istringstream text(giver.address());
  return {std::istream_iterator<std::string>(text), {}};
}

bool Same(const Descriptor& file, const Descriptor& copy) {
  struct stat first{}, second{};
  return fstat(file.number(), &first) == 0 && fstat(copy.number(), &second) == 0 &&
         first.st_ino == second.st_ino && first.st_dev == second.st_dev;
}

std::set<std::string> Names(const char* folder) {
  std::set<std::string> names;
  DIR* const open = opendir(folder);
  if (open == nullptr) return names;
  while (const dirent* entry = readdir(open)) names.insert(entry->d_name);
  closedir(open);
  return names;
}

// Somebody who can read the socket's name in /proc/net/unix and knows nothing else.
class Stranger {
 public:
  explicit Stranger(const std::string& name) : socket_(socket(AF_UNIX, SOCK_SEQPACKET, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    name.copy(address.sun_path + 1, sizeof(address.sun_path) - 1);
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    connected_ = connect(socket_.number(), reinterpret_cast<sockaddr*>(&address), length) == 0;
  }

  bool connected() const { return connected_; }
  void Say(const std::string& text) {
    EXPECT_EQ(send(socket_.number(), text.data(), text.size(), 0),
              static_cast<ssize_t>(text.size()));
  }
  std::string Hear() {
    char text[100];
    const ssize_t length = recv(socket_.number(), text, sizeof(text), 0);
    return length <= 0 ? "" : std::string(text, static_cast<std::size_t>(length));
  }

 private:
  Descriptor socket_;
  bool connected_;
};

TEST(SegmentHandover, GivesToAllWhoAsk) {
  const Descriptor file = NewSegmentFile(kBytes);
  SegmentGiver giver;
  std::vector<std::unique_ptr<SegmentTaker>> takers;
  for (int i = 0; i < 20; ++i) takers.push_back(std::make_unique<SegmentTaker>(giver.address()));
  giver.Give(file, 20);
  for (const auto& taker : takers) {
    const Descriptor copy = taker->Take();
    EXPECT_TRUE(Same(copy, file));
    EXPECT_NE(fcntl(copy.number(), F_GETFD) & FD_CLOEXEC, 0);
  }
}

TEST(SegmentHandover, EveryGiverHasAnAddressOfItsOwn) {
  std::set<std::string> words;
  const SegmentGiver first, second;
  for (const auto* giver : {&first, &second}) {
    for (const std::string& word : Words(*giver)) words.insert(word);
  }
  EXPECT_EQ(words.size(), 6u);
}

TEST(SegmentHandover, LeavesNoDescriptorOpen) {
  const auto before = Names("/proc/self/fd");
  {
    const Descriptor file = NewSegmentFile(kBytes);
    SegmentGiver giver;
    SegmentTaker taker(giver.address());
    giver.Give(file, 1);
    taker.Take();
  }
  EXPECT_EQ(Names("/proc/self/fd"), before);
}

TEST(SegmentHandover, AStrangerHoldsUpNobodyAndGetsNothing) {
  const Descriptor file = NewSegmentFile(kBytes);
  SegmentGiver giver;
  const auto words = Words(giver);
  Stranger silent(words[0]), wrong(words[0]), close(words[0]), lengthy(words[0]);
  ASSERT_TRUE(silent.connected());
  wrong.Say(std::string(words[1].size(), '0'));
  close.Say(words[1].substr(1));
  lengthy.Say(words[1] + "0");
  SegmentTaker taker(giver.address());
  giver.Give(file, 1);
  EXPECT_TRUE(Same(taker.Take(), file));
  for (Stranger* stranger : {&silent, &wrong, &close, &lengthy}) EXPECT_EQ(stranger->Hear(), "");
}

TEST(SegmentHandover, ManyStrangersHoldUpNobody) {
  SegmentGiver giver;
  std::vector<std::unique_ptr<Stranger>> strangers;
  for (int i = 0; i < 200; ++i) strangers.push_back(std::make_unique<Stranger>(Words(giver)[0]));
  SegmentTaker taker(giver.address());
  giver.Give(NewSegmentFile(kBytes), 1);
  taker.Take();
}

TEST(SegmentHandover, WhoAsksWithAnotherSecretIsNoTaker) {
  SegmentGiver giver;
  const auto words = Words(giver);
  SegmentTaker taker(words[0] + " " + words[2] + " " + words[2]);
  EXPECT_TRUE(Fails([&] { giver.Give(NewSegmentFile(kBytes), 1); }, "only 0 asked"));
  EXPECT_TRUE(Fails([&] { taker.Take(); }, words[0] + " was closed"));
}

TEST(SegmentHandover, WhoAnswersWithAnotherSecretIsNoGiver) {
  SegmentGiver giver;
  const auto words = Words(giver);
  SegmentTaker taker(words[0] + " " + words[1] + " " + words[1]);
  giver.Give(NewSegmentFile(kBytes), 1);
  const auto before = Names("/proc/self/fd");
  EXPECT_TRUE(Fails([&] { taker.Take(); }, "wrong answer"));
  EXPECT_EQ(Names("/proc/self/fd"), before);  // what came with it is closed
}

TEST(SegmentHandover, AnotherUserDoesNotGetIt) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to become another user";
  const Descriptor file = NewSegmentFile(kBytes);
  SegmentGiver giver;
  const auto words = Words(giver);
  const Signal question, answer;
  Child taker_process([&] {
    // Knows all secrets, and does not mind that the giver is somebody else.
    if (setuid(kNobody) != 0) return 1;
    Stranger stranger(words[0]);
    if (!stranger.connected()) return 2;
    stranger.Say(words[1]);
    if (!question.Send() || !answer.Wait()) return 3;
    return stranger.Hear().empty() ? 0 : 4;
  });
  ASSERT_TRUE(question.Wait());
  SegmentTaker taker(giver.address());
  giver.Give(file, 1);
  EXPECT_TRUE(Same(taker.Take(), file));
  answer.Send();
  EXPECT_EQ(taker_process.Status(), 0);
}

TEST(SegmentHandover, NothingIsTakenFromAnotherUser) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to become another user";
  ASSERT_EQ(seteuid(kNobody), 0);
  const SegmentGiver giver;
  ASSERT_EQ(seteuid(0), 0);
  EXPECT_TRUE(Fails([&] { SegmentTaker taker(giver.address()); },
                    "belongs to user " + std::to_string(kNobody) + ", not 0"));
}

TEST(SegmentHandover, NobodyListens) {
  std::string address;
  {
    const SegmentGiver giver;
    address = giver.address();
  }
  EXPECT_TRUE(Fails([&] { SegmentTaker taker(address); }, "need a network namespace in common"));
}

TEST(SegmentHandover, ATakerThatDoesNotAskIsAnError) {
  SegmentGiver giver;
  SegmentTaker taker(giver.address());
  EXPECT_TRUE(Fails([&] { giver.Give(NewSegmentFile(kBytes), 2); }, "of 2 processes"));
}

TEST(SegmentHandover, ATakerThatDiesBeforeItAsksIsAnError) {
  SegmentGiver giver;
  EXPECT_EQ(Child([&] { return Stranger(Words(giver)[0]).connected() ? 0 : 1; }).Status(), 0);
  EXPECT_TRUE(Fails([&] { giver.Give(NewSegmentFile(kBytes), 1); }, "only 0 asked"));
}

TEST(SegmentHandover, ATakerThatDiesAfterItHasAskedIsAnError) {
  SegmentGiver giver;
  Child taker([&] {
    SegmentTaker asks(giver.address());
    return raise(SIGKILL);
  });
  EXPECT_EQ(taker.Status(), -1);
  EXPECT_TRUE(Fails([&] { giver.Give(NewSegmentFile(kBytes), 1); }, "cannot hand"));
}

TEST(SegmentHandover, AGiverThatDiesBeforeItGivesIsAnError) {
  auto giver = std::make_unique<SegmentGiver>();
  const std::string name = Words(*giver)[0];
  SegmentTaker taker(giver->address());
  giver.reset();
  EXPECT_TRUE(Fails([&] { taker.Take(); }, name));
}

TEST(SegmentHandover, AGiverThatHasNotGivenIsNotWaitedFor) {
  const SegmentGiver giver;
  SegmentTaker taker(giver.address());
  EXPECT_TRUE(Fails([&] { taker.Take(); }, "no shared memory came"));
}

TEST(SegmentHandover, AKilledGiverLeavesNothingBehind) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const Descriptor reads(ends[0]), writes(ends[1]);
  Child child([&] {
    const Descriptor file = NewSegmentFile(kBytes);
    const SharedSegment segment = SharedSegment::Map(file, kBytes);
    const SegmentGiver giver;
    const std::string& address = giver.address();
    if (write(writes.number(), address.data(), address.size()) < 0) return 1;
    pause();
    return 0;
  });
  char text[200];
  const ssize_t length = read(reads.number(), text, sizeof(text));
  ASSERT_GT(length, 0);
  const std::string address(text, static_cast<std::size_t>(length));
  const std::string name = address.substr(0, address.find(' '));
  EXPECT_TRUE(Stranger(name).connected());
  const std::string pid = std::to_string(child.pid());
  child.Kill();
  EXPECT_FALSE(Stranger(name).connected());
  for (const std::string& name : Names("/dev/shm")) {
    EXPECT_TRUE(name.find("horovod") == std::string::npos || name.find(pid) == std::string::npos)
        << name;
  }
}

// As the ranks of a node do it, each in a process.
TEST(SegmentHandover, ProcessesShareMemory) {
  constexpr int kTakers = 3;
  const Descriptor file = NewSegmentFile(kBytes);
  const SharedSegment segment = SharedSegment::Map(file, kBytes);
  SegmentGiver giver;
  const Signal question, answer;
  std::vector<Child> children;
  for (int i = 1; i <= kTakers; ++i) {
    children.emplace_back([&, i] {
      SegmentTaker taker(giver.address());
      if (!question.Send() || !answer.Wait()) return 1;
      const SharedSegment own = SharedSegment::Map(taker.Take(), kBytes);
      static_cast<char*>(own.data())[i] = static_cast<char>(i);
      return 0;
    });
  }
  for (int i = 0; i < kTakers; ++i) ASSERT_TRUE(question.Wait());
  giver.Give(file, kTakers);
  for (int i = 0; i < kTakers; ++i) answer.Send();
  for (Child& child : children) EXPECT_EQ(child.Status(), 0);
  for (int i = 1; i <= kTakers; ++i) EXPECT_EQ(static_cast<char*>(segment.data())[i], i);
}

}  // namespace segment_handover_test
}  // namespace horovod_opt
