// Messages over TCP.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "horovod_opt/csrc/core/network/groups.h"
#include "horovod_opt/csrc/core/network/transport.h"

namespace horovod {
namespace common {
class Controller;
}
}  // namespace horovod

namespace horovod_opt {

// As ConnectGroups(). `address`: of this rank for the others; what it throws is an error. They wait
// for each other for `patience` at most.
std::unique_ptr<Transport> ConnectWithTcp(horovod::common::Controller& controller,
                                          const Groups& groups,
                                          const std::function<std::string()>& address,
                                          std::chrono::milliseconds patience, std::string& error);

}  // namespace horovod_opt
