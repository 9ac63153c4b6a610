#include "horovod_opt/csrc/core/base/ranges.h"

namespace horovod_opt {

std::string Ranges(const std::vector<int>& numbers) {
  if (numbers.empty()) return "none";
  std::string text;
  for (std::size_t begin = 0, end; begin < numbers.size(); begin = end) {
    end = begin + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    if (!text.empty()) text += ", ";
    text += std::to_string(numbers[begin]);
    if (end - begin > 1) text += "-" + std::to_string(numbers[end - 1]);
  }
  return text;
}

std::string Ranges(const std::string& noun, const std::vector<int>& numbers) {
  return noun + (numbers.size() == 1 ? " " : "s ") + Ranges(numbers);
}

}  // namespace horovod_opt
