// Texts of ranks, of which many are alike, a hash to compare them by, and lists of ranks for
// people.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace horovod_opt {

// A text that many ranks have alike, held once.
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
    auto [index, is_new] = shared.emplace(&text.str(), distinct.size());
    if (is_new) {
      const auto [equal, is_other] = known.emplace(text.str(), distinct.size());
      index->second = equal->second;
      if (is_other) distinct.push_back({text, {}});
    }
    distinct[index->second].second.push_back(rank);
  }
  return distinct;
}

// Sorted, distinct numbers as people write them: "0, 2-5". "none" if empty.
inline std::string Ranges(const std::vector<int>& numbers) {
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

// The same after the noun in singular or plural: "rank 3", "ranks 0, 2-5".
inline std::string Ranges(const std::string& noun, const std::vector<int>& numbers) {
  return noun + (numbers.size() == 1 ? " " : "s ") + Ranges(numbers);
}

// "0.25 s".
inline std::string Seconds(std::chrono::milliseconds time) {
  std::string text = std::to_string(time.count() / 1000);
  if (time.count() % 1000 != 0) {
    const std::string rest = std::to_string(1000 + time.count() % 1000).substr(1);
    text += "." + rest.substr(0, rest.find_last_not_of('0') + 1);
  }
  return text + " s";
}

// Why ranks have waited for nothing; `missing` as of Ranges().
inline std::string WhoHasNotCome(const std::vector<int>& missing, std::chrono::milliseconds time) {
  return (missing.empty()
              ? "it was not ended"
              : Ranges("rank", missing) + (missing.size() == 1 ? " has" : " have") + " not come") +
         " within " + Seconds(time) + "; remedy: see what they do, or a longer timeout=";
}

// FNV-1a, 64 bits: equal on every machine, unlike std::hash.
inline std::uint64_t Hash(const std::string& text) {
  std::uint64_t hash = 14695981039346656037ull;
  for (unsigned char c : text) hash = (hash ^ c) * 1099511628211ull;
  return hash;
}

}  // namespace horovod_opt
