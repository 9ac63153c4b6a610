// Texts that many ranks have alike, each held once.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace horovod_opt {

class SharedText {
 public:
  SharedText() : SharedText(std::string()) {}
  SharedText(std::string text)  // NOLINT: a text is one that nobody shares yet
      : text_(std::make_shared<const std::string>(std::move(text))) {}

  operator const std::string&() const { return *text_; }  // NOLINT: stands for the text
  const std::string& str() const { return *text_; }

 private:
  std::shared_ptr<const std::string> text_;
};

using TextByRank = std::map<int, SharedText>;

// Each distinct text with those that have it, ascending; in the order of the first of them.
inline std::vector<std::pair<SharedText, std::vector<int>>> Distinct(const TextByRank& texts) {
  std::vector<std::pair<SharedText, std::vector<int>>> distinct;
  std::map<std::string, std::size_t> known;
  std::map<const std::string*, std::size_t> shared;  // faster than comparing
  for (const auto& [rank, text] : texts) {
    auto [seen, is_new] = shared.emplace(&text.str(), distinct.size());
    if (is_new) {
      const auto [found, is_other] = known.emplace(text.str(), distinct.size());
      seen->second = found->second;
      if (is_other) distinct.push_back({text, {}});
    }
    distinct[seen->second].second.push_back(rank);
  }
  return distinct;
}

}  // namespace horovod_opt
