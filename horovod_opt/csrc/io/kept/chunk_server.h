// Serves the chunks that a node keeps to other nodes.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "horovod_opt/csrc/core/base/file_descriptor.h"
#include "horovod_opt/csrc/io/kept/kept_chunks.h"
#include "horovod_opt/csrc/io/kept/peer_frames.h"

namespace horovod_opt {
namespace io {

// One thread, asleep in epoll_wait(2) while nobody asks. It waits for no rank and for no storage: a
// chunk that is missing is `want`ed, and who has asked for it hears now and then that it is still
// being read.
//
// Invariants:
//   (1) who has not proven that it knows the secret gets a greeting and no more; there are at most
//       `most_unproven` of them, the oldest gives way, none stays longer than `unproven_time`;
//   (2) how much is sent, and from where, comes from the table of chunks: a frame chooses a part of
//       it, and one that is none closes the connection. Nothing is allocated by what a frame says;
//   (3) an event reaches the client that it was of, or nobody: events carry numbers that no other
//       client has had, for a descriptor that is closed may be another client's at once.
class ChunkServer {
 public:
  struct Options {
    std::size_t most_unproven = 64, most_proven = 256;
    std::chrono::milliseconds unproven_time = std::chrono::seconds(5);
    std::chrono::milliseconds still_reading = std::chrono::seconds(1);
  };
  // Has a chunk read that was missing.
  using Want = std::function<void(std::int64_t chunk)>;

  // Listens at this numeric address. Throws std::exception. `served` counts bytes.
  ChunkServer(KeptChunks& chunks, const Fingerprint& fingerprint, const std::string& host,
              std::string secret, Want want, std::atomic<std::int64_t>& served, Options options);
  // Says to all clients that nothing is kept any more.
  ~ChunkServer();

  const std::string& port() const { return port_; }
  const Descriptor& listener() const { return listener_; }
  // Some chunk has been read: answers may be due.
  void Wake();

 private:
  using Clock = std::chrono::steady_clock;
  struct Client;

  void Run();
  bool Register(const Descriptor& source, std::uint64_t number, std::uint32_t events);
  int MillisecondsToSleep() const;
  void Accept();
  void MakeRoom(bool is_proven, std::size_t most);
  bool Hear(Client& client);
  bool TakeFrame(Client& client);
  bool Prove(Client& client);
  bool Answer(Client& client);
  bool Send(Client& client);
  void Say(Client& client, AnswerKind kind);
  void LookAgain();
  void Watch(Client& client);

  KeptChunks& chunks_;
  const Fingerprint fingerprint_;
  const std::string secret_;
  const Want want_;
  std::atomic<std::int64_t>& served_;
  const Options options_;
  std::string port_;
  Descriptor listener_, events_, wakeups_;
  std::atomic<bool> stop_{false};
  std::map<std::uint64_t, std::unique_ptr<Client>> clients_;  // by number
  std::uint64_t next_number_;
  bool rests_ = false;  // there was no room for a connection
  std::thread thread_;
};

}  // namespace io
}  // namespace horovod_opt
