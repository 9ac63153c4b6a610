#include "horovod_opt/csrc/core/counters/thread_usage.h"

#include <errno.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>
#include <system_error>

namespace horovod_opt {
namespace {

using std::chrono::nanoseconds;

std::string ReadTaskFile(pid_t tid, const std::string& name) {
  std::ifstream file("/proc/self/task/" + std::to_string(tid) + "/" + name);
  std::ostringstream text;
  text << file.rdbuf();
  if (text.str().empty()) {
    throw std::system_error(ESRCH, std::generic_category(), "thread " + std::to_string(tid));
  }
  return text.str();
}

// What follows "<key>:" in /proc/.../status.
std::int64_t StatusNumber(const std::string& status, const std::string& key) {
  const std::size_t line = status.find("\n" + key + ":");
  return line == std::string::npos ? 0 : std::stoll(status.substr(line + key.size() + 2));
}

nanoseconds Time(const timeval& time) {
  return std::chrono::seconds(time.tv_sec) + std::chrono::microseconds(time.tv_usec);
}

ThreadUsage ReadUsage(int who) {
  rusage usage;
  getrusage(who, &usage);
  return {Time(usage.ru_utime), Time(usage.ru_stime), usage.ru_nvcsw, usage.ru_nivcsw};
}

}  // namespace

ThreadUsage ReadThreadUsage(pid_t tid) {
  // proc(5): the name, field 2, is in parentheses and may hold spaces and parentheses itself; user
  // and system time are fields 14 and 15.
  const std::string stat = ReadTaskFile(tid, "stat");
  std::istringstream fields(stat.substr(stat.rfind(')') + 1));
  std::string skipped;
  for (int field = 3; field < 14; ++field) fields >> skipped;
  std::int64_t user_ticks = 0;
  std::int64_t system_ticks = 0;
  fields >> user_ticks >> system_ticks;

  const std::string status = ReadTaskFile(tid, "status");
  const nanoseconds tick = nanoseconds(std::chrono::seconds(1)) / sysconf(_SC_CLK_TCK);
  return {user_ticks * tick, system_ticks * tick, StatusNumber(status, "voluntary_ctxt_switches"),
          StatusNumber(status, "nonvoluntary_ctxt_switches")};
}

ThreadUsage ReadOwnThreadUsage() { return ReadUsage(RUSAGE_THREAD); }

ThreadUsage ReadProcessUsage() { return ReadUsage(RUSAGE_SELF); }

}  // namespace horovod_opt
