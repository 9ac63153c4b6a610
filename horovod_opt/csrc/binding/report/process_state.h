// The state dump of this process, as long as upstream's background thread lives: the socket
// (core/report/state_socket.h) on which `horovod-opt doctor --pid` asks for it.
#pragma once

#include "horovod_opt/csrc/binding/report/performed_response.h"

namespace horovod {
namespace common {
struct HorovodGlobalState;
}
}  // namespace horovod

namespace horovod_opt {

// --- the background thread ---
// As its first and last act. Where there can be no socket, nobody can ask; nothing else changes.
void OpenStateSocket();
void CloseStateSocket();
// The ranks can talk, and cannot any more: afterwards nothing of `horovod` is looked at.
void TellRanksConnect(horovod::common::HorovodGlobalState& horovod);
void TellRanksPart();

PerformedResponse& CurrentResponse();

// In a forked child, which is no rank.
void LeaveStateSocketToParent();

}  // namespace horovod_opt
