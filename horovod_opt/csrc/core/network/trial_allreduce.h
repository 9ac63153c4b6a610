// Whether messages between the members of a reduction arrive at all, before anything depends on it:
// a firewall, a container without the right to read another process's memory, an MPI whose
// interface is wrong.
#pragma once

#include <chrono>

#include "horovod_opt/csrc/core/network/transport.h"

namespace horovod_opt {

// Adds up little several times and then much, as buckets are. Collective over the members. How long
// it took at best: it is done a few times, as a machine may be busy with something else. Throws
// std::runtime_error if it does not end within `patience`, or the sums are wrong.
std::chrono::nanoseconds TryExchange(Transport& transport, int members, int self,
                                     std::chrono::milliseconds patience);

}  // namespace horovod_opt
