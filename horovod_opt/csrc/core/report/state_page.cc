#include "horovod_opt/csrc/core/report/state_page.h"

#include <algorithm>
#include <cstdio>

namespace horovod_opt {
namespace {

constexpr std::size_t kNames = 6;

// Names come from users: they must not look like two fields or two lines.
std::string OneField(std::string text) {
  std::replace_if(text.begin(), text.end(), [](unsigned char c) { return c < ' '; }, ' ');
  return text;
}

}  // namespace

void StatePage::Line(int depth, const std::string& text) {
  const std::string line = OneField(text);
  text_ += std::string(static_cast<std::size_t>(2 * depth), ' ') + line + '\n';
  message_ += "line\t" + std::to_string(depth) + '\t' + line + '\n';
}

void StatePage::Fact(const std::vector<std::string>& fields) {
  message_ += "fact";
  for (const std::string& field : fields) message_ += '\t' + OneField(field);
  message_ += '\n';
}

std::string StatePage::Age(Clock::time_point since) const {
  const double seconds = std::chrono::duration<double>(now_ - since).count();
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f s", std::max(seconds, 0.0));
  return text;
}

std::string StatePage::Milliseconds(Clock::time_point since) const {
  const auto age = std::chrono::duration_cast<std::chrono::milliseconds>(now_ - since);
  return std::to_string(std::max<std::int64_t>(age.count(), 0));
}

std::string StatePage::Names(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kNames); ++i) {
    text += (i == 0 ? "'" : ", '") + names[i] + "'";
  }
  if (names.size() > kNames) text += " and " + std::to_string(names.size() - kNames) + " more";
  return text;
}

void StatePage::Held(const std::string& what) {
  const std::string patience = std::to_string(kPatience.count()) + " ms";
  Line(0, "the lock of " + what + " is held for longer than " + patience +
              " by another thread: nothing is told of it");
  Fact({"locked", what});
}

std::string StatePage::Text() const { return text_; }

}  // namespace horovod_opt
