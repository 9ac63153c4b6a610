#include "horovod_opt/csrc/io/files/request_bytes.h"

#include <sys/sysmacros.h>

#include <fstream>

namespace horovod_opt {
namespace io {

std::int64_t RequestBytes(dev_t device, const std::string& folder) {
  if (major(device) != 0) return 0;
  std::ifstream said(folder + "/0:" + std::to_string(minor(device)) + "/read_ahead_kb");
  std::int64_t kib = 0;
  return said >> kib ? kib * 1024 : 0;
}

}  // namespace io
}  // namespace horovod_opt
