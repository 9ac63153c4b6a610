// TCP transport, by epoll(7): messages over connections of their own, one to each neighbour. Waits
// sleep in the kernel, for all neighbours at once; a connection is read whatever it brings, so that
// no message waits behind another one that nobody has asked for yet.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "horovod_opt/csrc/core/base/file_descriptor.h"
#include "horovod_opt/csrc/core/network/transport.h"

namespace horovod_opt {

class TcpTransport : public Transport {
 public:
  struct Options {
    // How long a neighbour's machine may leave unanswered what it is sent before the neighbour
    // counts as lost; zero: as long as the kernel waits. Its process may be late for any time.
    std::chrono::seconds silence{30};
    std::string setting;  // by which users choose it, for errors
    std::function<std::string(int member)> name = [](int member) {
      return "group " + std::to_string(member);
    };
  };

  // Connected ones, by neighbour, nonblocking. Throws std::system_error.
  TcpTransport(std::map<int, Descriptor> sockets, Options options);
  explicit TcpTransport(std::map<int, Descriptor> sockets)
      : TcpTransport(std::move(sockets), Options()) {}
  ~TcpTransport() override;

  void Send(int to, int channel, const void* data, std::int64_t bytes,
            Operation& operation) override;
  void Receive(int from, int channel, void* data, std::int64_t capacity,
               Operation& operation) override;
  void Progress(Clock::time_point deadline) override;
  void Wake() override;
  bool CanSignal() const override { return true; }
  void Signal(std::uint64_t number) override;
  void Listen(std::function<void(std::uint64_t number)> on_signal) override;
  void DumpState(StatePage& page) const override;
  bool MustStay() const override { return false; }

 private:
  struct Frame;
  struct Neighbour;

  Neighbour& NeighbourOf(int member);
  void Add(int member, Descriptor socket);
  void Flush(Neighbour& neighbour);
  void Read(Neighbour& neighbour);
  // Finds a place for the message whose frame has come.
  void BeginMessage(Neighbour& neighbour);
  void EndMessage(Neighbour& neighbour);
  // Loses those that have not answered for too long.
  void FindSilent();
  // The connection has ended; `why` counts the first time. Throws if somebody waits for it.
  void Lose(Neighbour& neighbour, const std::string& why);
  // Why a neighbour is lost after an error of its socket.
  std::string Reason(int error) const;
  std::string Silence() const;

  const Options options_;
  Descriptor epoll_, wake_, timer_;
  std::function<void(std::uint64_t number)> on_signal_ = [](std::uint64_t) {};
  std::map<int, std::unique_ptr<Neighbour>> neighbours_;
};

}  // namespace horovod_opt
