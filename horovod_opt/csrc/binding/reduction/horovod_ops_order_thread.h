// Total order of what Horovod's own operations perform (horovod_ops_gpu.h): the thread of a group's
// leader that agrees on it with the other leaders. Nothing else needs an order.
#pragma once

#include <atomic>
#include <string>
#include <thread>

#include "horovod_opt/csrc/binding/reduction/node_memory.h"
#include "horovod_opt/csrc/core/counters/path_counters.h"
#include "horovod_opt/csrc/core/network/word_allreduce.h"
#include "horovod_opt/csrc/core/network/groups.h"
#include "horovod_opt/csrc/core/network/progress_engine.h"
#include "horovod_opt/csrc/core/reduction/horovod_ops_order.h"

namespace horovod_opt {

class HorovodOpsOrderThread {
 public:
  // `engine`: between the leaders.
  HorovodOpsOrderThread(NodeMemory& node, ProgressEngine& engine, const Groups& groups,
                        PathCounters& counters);
  // Ends the thread, without the other leaders if Finish() was not called.
  ~HorovodOpsOrderThread();
  HorovodOpsOrderThread(const HorovodOpsOrderThread&) = delete;
  HorovodOpsOrderThread& operator=(const HorovodOpsOrderThread&) = delete;

  // Ends the threads of all leaders after the same entry. Collective over the leaders.
  void Finish();

  // Why the thread has ended before Finish(); empty: it has not.
  std::string Failure() const { return failed_ ? failure_ : ""; }

 private:
  void Run();

  ProgressEngine& engine_;
  BitwiseAndAllreduce and_;
  PathCounters& counters_;
  HorovodOpsOrder order_;
  std::atomic<bool> failed_{false};
  std::string failure_;  // written before failed_ is set
  std::thread thread_;
};

}  // namespace horovod_opt
