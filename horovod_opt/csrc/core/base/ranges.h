#pragma once

#include <string>
#include <vector>

namespace horovod_opt {

// Sorted, distinct numbers as people write them: "0, 2-5". "none" if empty.
std::string Ranges(const std::vector<int>& numbers);

// The same after the noun in singular or plural: "rank 3", "ranks 0, 2-5".
std::string Ranges(const std::string& noun, const std::vector<int>& numbers);

}  // namespace horovod_opt
