#include "horovod_opt/csrc/binding/reduction/horovod_ops_order_thread.h"

#include <pthread.h>

#include <algorithm>
#include <exception>

#include "horovod_opt/csrc/binding/reduction/horovod_ops_gpu.h"
#include "horovod_opt/csrc/core/network/nonblocking_allreduce.h"

namespace horovod_opt {

HorovodOpsOrderThread::HorovodOpsOrderThread(NodeMemory& node, ProgressEngine& engine,
                                             const Groups& groups, PathCounters& counters)
    : engine_(engine),
      and_(engine, static_cast<int>(groups.cross.size()), groups.group,
           ReadyQueue::kRoundId * NonblockingAllreduce::kChannels),
      counters_(counters),
      order_(node.ready(), node.order(),
             [this](std::vector<std::uint64_t>& words) {
               // The last word says whether a rank has come to its end, which is no bucket.
               const auto is_ready = [](std::uint64_t word) { return word != 0; };
               if (std::any_of(words.begin(), words.end() - 1, is_ready)) counters_.AddAgreement();
               return and_(words);
             }),
      thread_(&HorovodOpsOrderThread::Run, this) {}

HorovodOpsOrderThread::~HorovodOpsOrderThread() {
  if (!thread_.joinable()) return;
  and_.Close();
  Finish();
}

void HorovodOpsOrderThread::Finish() {
  order_.Close();
  thread_.join();
}

void HorovodOpsOrderThread::Run() {
  pthread_setname_np(pthread_self(), "hvd-order");
  counters_.BeginThread();
  try {
    if (!order_.Run()) failure_ = engine_.Failure();
  } catch (const std::exception& problem) {
    failure_ = problem.what();
  }
  failed_ = !failure_.empty();
  counters_.EndThread();
}

}  // namespace horovod_opt
