#include "horovod_opt/csrc/binding/topo/order_thread.h"

#include <pthread.h>

#include <exception>

namespace horovod_opt {

OrderThread::OrderThread(NodeMemory& node, CrossNodes& cross, PathCounters& counters)
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
  cross_.Close();
  Finish();
}

void OrderThread::Finish() {
  order_.Finish();
  thread_.join();
}

void OrderThread::Run() {
  pthread_setname_np(pthread_self(), "hvd-order");
  counters_.BeginThread();
  try {
    if (!order_.Run()) failure_ = cross_.problem();
  } catch (const std::exception& problem) {
    failure_ = problem.what();
  }
  failed_ = !failure_.empty();
  counters_.EndThread();
}

}  // namespace horovod_opt
