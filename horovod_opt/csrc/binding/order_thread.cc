#include "order_thread.h"

#include <pthread.h>

namespace horovod_opt {

OrderThread::OrderThread(NodeMemory& node, CrossNodes& cross, LaneCounters& counters)
    : cross_(cross),
      counters_(counters),
      order_(node.ready(), node.order(),
             [this](std::vector<std::uint64_t>& words) {
               counters_.AddAgreement();
               return cross_.And(words);
             }),
      thread_(&OrderThread::Run, this) {}

OrderThread::~OrderThread() {
  if (!thread_.joinable()) return;
  cross_.Abandon();
  Finish();
}

void OrderThread::Finish() {
  order_.End();
  thread_.join();
}

void OrderThread::Run() {
  pthread_setname_np(pthread_self(), "hvd-order");
  counters_.BeginThread();
  failed_ = !order_.Run();
  counters_.EndThread();
}

}  // namespace horovod_opt
