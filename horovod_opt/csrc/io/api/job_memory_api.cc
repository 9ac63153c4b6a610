// The C functions of the job's memory.

#include <cstdint>
#include <cstring>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "horovod_opt/csrc/core/network/tcp_rendezvous.h"
#include "horovod_opt/csrc/io/api/handles.h"
#include "horovod_opt/csrc/io/kept/job_memory.h"
#include "horovod_opt_io_abi.h"

namespace io = horovod_opt::io;

HioJobMemory* hio_memory_create(int64_t chunks, const int64_t* chunk_bytes, const char* folder,
                                const void* fingerprint, const char* root, int64_t files,
                                const void* names, const int64_t* ends, const int64_t* bytes,
                                const int64_t* mtime_ns) {
  return io::Guarded<HioJobMemory*>(nullptr, [&] {
    io::Fingerprint own;
    std::memcpy(own.data(), fingerprint, own.size());
    return new HioJobMemory{std::make_shared<io::JobMemory>(
        std::vector<std::int64_t>(chunk_bytes, chunk_bytes + chunks),
        folder == nullptr ? "" : folder, own,
        io::FileTable{root, files, static_cast<const char*>(names), ends, bytes, mtime_ns},
        io::JobMemory::Options())};
  });
}

int hio_memory_serve(HioJobMemory* memory, const char* host, const char* secret) {
  return io::Guarded(int{HIO_FAILED},
                     [&] { return std::stoi(memory->memory->Serve(host, secret)); });
}

int hio_memory_set_homes(HioJobMemory* memory, const int32_t* homes, int self, int64_t nodes,
                         const char* addresses) {
  return io::Guarded(int{HIO_FAILED}, [&] {
    std::vector<io::PeerNode> peers(static_cast<std::size_t>(nodes));
    std::istringstream lines(addresses);
    for (io::PeerNode& peer : peers) lines >> peer.host >> peer.port >> peer.secret;
    memory->memory->SetHomes(
        std::vector<std::int32_t>(homes, homes + memory->memory->chunks().count()), self,
        std::move(peers));
    return int{HIO_OK};
  });
}

int hio_memory_wait(HioJobMemory* memory, HioMemoryNotice* notice) {
  return io::Guarded(int{HIO_FAILED}, [&] {
    static thread_local io::JobMemory::Event event;
    event = memory->memory->Wait();
    int kind = HIO_STOPPED;
    switch (event.kind) {
      case io::JobMemory::EventKind::kStop:
        break;
      case io::JobMemory::EventKind::kWanted:
        kind = HIO_WANTED;
        break;
      case io::JobMemory::EventKind::kLost:
        kind = HIO_LOST;
        break;
      case io::JobMemory::EventKind::kNoRoom:
        kind = HIO_NO_ROOM;
        break;
    }
    *notice = {kind, event.number, event.why.c_str()};
    return int{HIO_OK};
  });
}

int hio_memory_fill(HioJobMemory* memory, const HioLoads* loads) {
  return io::Guarded(int{HIO_FAILED}, [&] {
    memory->memory->Fill(io::LoadOf(*loads, 0));
    return int{HIO_OK};
  });
}

int hio_memory_want_all(HioJobMemory* memory) {
  return io::Guarded(int{HIO_FAILED}, [&] {
    memory->memory->WantAll();
    return int{HIO_OK};
  });
}

void hio_memory_refuse(HioJobMemory* memory, int64_t chunk) { memory->memory->Refuse(chunk); }

void hio_memory_counters(const HioJobMemory* memory, HioMemoryCounters* counters) {
  const io::JobMemory::Counters& now = memory->memory->counters();
  const io::Counters& storage = memory->memory->storage_counters();
  *counters = {memory->memory->chunks().kept_bytes(),
               now.peer_bytes,
               now.peer_requests,
               now.served_bytes,
               now.fallback_bytes,
               storage.bytes_read,
               storage.requests};
}

void hio_memory_stop(HioJobMemory* memory) { memory->memory->Stop(); }

void hio_memory_free(HioJobMemory* memory) {
  memory->memory->Stop();
  delete memory;
}

void hio_memory_forget(HioJobMemory* memory) { memory->memory->Forget(); }

const char* hio_own_address(const char* interfaces) {
  return io::Guarded<const char*>(nullptr, [&] {
    static thread_local std::string address;
    address = horovod_opt::OwnAddress(interfaces);
    return address.c_str();
  });
}
