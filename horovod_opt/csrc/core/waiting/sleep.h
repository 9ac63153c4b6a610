#pragma once

#include <chrono>

namespace horovod_opt {

// Sleeps at least `length`, signals or not, and returns how long it really was; zero and less
// return at once. Linux adds the thread's timer slack (50 us by default, PR_SET_TIMERSLACK), in
// which it gathers timers that are due at about the same time, and the time until the thread runs
// again: a sleep of 20 us lasts some 75 to 90 us.
std::chrono::nanoseconds SleepFor(std::chrono::nanoseconds length);

}  // namespace horovod_opt
