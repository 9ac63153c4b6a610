#include "horovod_opt/csrc/core/agreement/settings_agreement.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <sstream>
#include <utility>

#include "horovod_opt/csrc/core/base/rank_texts.h"

namespace horovod_opt {
namespace {

const char kErrorTag[] = "error\n";
const char kRemedy[] =
    "Set the same value on every rank; horovodrun passes the environment of the shell it is "
    "launched from.";
const char kBuild[] = "horovod-opt";  // the name of a line that is no setting
const char kBuildRemedy[] =
    "Install the same build of horovod-opt on every node: layouts of memory and plans depend on "
    "it.";

// Text -> the ranks that have it, in the order of first appearance.
class RanksByText {
 public:
  void Add(const std::string& text, int rank) {
    const auto [entry, is_new] = index_.emplace(text, entries_.size());
    if (is_new) entries_.emplace_back(text, std::vector<int>());
    entries_[entry->second].second.push_back(rank);
  }
  const std::vector<std::pair<std::string, std::vector<int>>>& Entries() const { return entries_; }

 private:
  std::map<std::string, std::size_t> index_;
  std::vector<std::pair<std::string, std::vector<int>>> entries_;
};

bool IsError(const std::string& row) { return row.rfind(kErrorTag, 0) == 0; }

std::string Errors(const std::vector<std::string>& rows) {
  RanksByText errors;
  std::size_t failed = 0;
  for (std::size_t rank = 0; rank < rows.size(); ++rank) {
    if (!IsError(rows[rank])) continue;
    errors.Add(rows[rank].substr(sizeof(kErrorTag) - 1), static_cast<int>(rank));
    ++failed;
  }
  if (failed == 0) return "";
  if (failed == rows.size() && errors.Entries().size() == 1) return errors.Entries()[0].first;
  std::string text;
  for (const auto& [message, ranks] : errors.Entries()) {
    text += "On " + Ranges("rank", ranks) + ": " + message + "\n";
  }
  return text + kRemedy;
}

std::string Differences(const std::vector<std::string>& rows) {
  std::vector<std::map<std::string, std::string>> settings(rows.size());
  std::vector<std::string> names;
  for (std::size_t rank = 0; rank < rows.size(); ++rank) {
    std::istringstream lines(rows[rank]);
    for (std::string line; std::getline(lines, line);) {
      const std::size_t equals = std::min(line.find('='), line.size());
      const std::string name = line.substr(0, equals);
      settings[rank][name] = line.substr(equals);
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  }
  std::string text, remedies;
  for (const std::string& name : names) {
    RanksByText values;
    for (std::size_t rank = 0; rank < rows.size(); ++rank) {
      const auto value = settings[rank].find(name);
      values.Add(value == settings[rank].end() ? " is unknown" : value->second,
                 static_cast<int>(rank));
    }
    if (values.Entries().size() == 1) continue;
    text += "The ranks disagree: ";
    const char* separator = "";
    for (const auto& [value, ranks] : values.Entries()) {
      text += separator + name + value + " on " + Ranges("rank", ranks);
      separator = "; ";
    }
    text += ".\n";
    const char* const remedy = name == kBuild ? kBuildRemedy : kRemedy;
    if (remedies.find(remedy) == std::string::npos)
      remedies += (remedies.empty() ? "" : "\n") + std::string(remedy);
  }
  return text + remedies;
}

}  // namespace

std::string SettingsDisagreement(const std::vector<std::string>& rows) {
  std::string errors = Errors(rows);
  return errors.empty() ? Differences(rows) : errors;
}

}  // namespace horovod_opt
