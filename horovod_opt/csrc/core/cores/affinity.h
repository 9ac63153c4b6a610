// What the kernel's scheduler is told of threads: CPU affinity (sched_setaffinity(2)) and time
// slices (sched_setattr(2)). Errors are std::system_error.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "horovod_opt/csrc/core/cores/partition.h"

namespace horovod_opt {

// The CPUs, sorted, that a thread of this node may run on; tid 0 is the calling thread. After
// PinProcess this is no longer what the launcher gave the process.
std::vector<int> AllowedCpus(pid_t tid = 0);

// CPU -> physical core for every CPU that is online, from <root>/cpu<N>/topology. SMT siblings
// have the same core; cores of one package are numbered consecutively. Empty where the kernel
// tells nothing.
std::map<int, int> ReadCores(const std::string& root = "/sys/devices/system/cpu");

// Lets thread `tid` run on `cpus` only.
void Pin(pid_t tid, const std::vector<int>& cpus);

// The same; false if the thread has ended.
bool PinIfAlive(pid_t tid, const std::vector<int>& cpus);

// Pins the background thread to cpus.background and every other thread of the process to
// cpus.rest. When it returns, every thread has its mask, those created meanwhile included; from
// then on new threads inherit `rest`, except those that the background thread creates, which
// share its core. Threads may start and end throughout, but the background thread must create
// none meanwhile. Takes a few walks over the threads; up to `patience` if some thread never
// sleeps, and then a thread whose creation takes even longer (some 50 us are usual, but CPU and
// memory may be contended) may be missed. A thread that later sets its own mask keeps that.
void PinProcess(pid_t background_tid, const RankCpus& cpus,
                std::chrono::milliseconds patience = std::chrono::milliseconds(200));

// The calling thread runs for a short time whenever it wakes, 0.1 ms at most, before threads that
// want to run for longer: Linux 6.12 and later let a thread ask for its slice without any rights.
// Elsewhere nothing changes. Two ranks on two cores, whose frameworks' threads spin before they
// sleep: 20 dependent allreduces took 15 % less time.
void AskForShortSlice();

}  // namespace horovod_opt
