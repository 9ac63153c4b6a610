// Agreement on settings: which differ between the ranks, and what all of them say then.
#pragma once

#include <string>
#include <vector>

namespace horovod_opt {

// rows[r] is what rank r has: its settings as lines "NAME=value\n", its build as "horovod-opt=...", or "error\n<message>" if it
// could not read them. Returns "" if all ranks have the same settings, otherwise the message that
// every rank raises, so that all of them fail alike and none waits for the others: which settings
// differ, the values, the ranks, and what to do.
std::string SettingsDisagreement(const std::vector<std::string>& rows);

}  // namespace horovod_opt
