#include "horovod_opt/csrc/binding/base/rank_rows.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <utility>

#include "horovod/common/controller.h"
#include "horovod_opt/csrc/core/base/rank_texts.h"

namespace horovod_opt {
namespace {

using horovod::common::Controller;
using Word = long long;  // the type of the controller's bit vectors

// Ranks set disjoint words and leave the others zero: a bitwise OR is then a gather to all.
std::vector<Word> GatherWords(Controller& controller, const std::vector<Word>& own) {
  std::vector<Word> all(own.size() * controller.GetSize(), 0);
  std::copy(own.begin(), own.end(), all.begin() + own.size() * controller.GetRank());
  if (!all.empty()) controller.CrossRankBitwiseOr(all, static_cast<int>(all.size()));
  return all;
}

}  // namespace

std::vector<SharedText> GatherRows(Controller& controller, const std::string& row) {
  const std::vector<Word> all =
      GatherWords(controller, {static_cast<Word>(row.size()), static_cast<Word>(Hash(row))});
  const std::size_t ranks = all.size() / 2;
  Word longest = 0;
  std::vector<std::size_t> number(ranks), first;  // of its distinct row; of each who shows it
  std::map<std::pair<Word, Word>, std::size_t> distinct;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    longest = std::max(longest, all[2 * rank]);
    const auto [place, is_new] =
        distinct.emplace(std::pair(all[2 * rank], all[2 * rank + 1]), first.size());
    if (is_new) first.push_back(rank);
    number[rank] = place->second;
  }

  const std::size_t self = static_cast<std::size_t>(controller.GetRank());
  const std::size_t stride = (longest + sizeof(Word) - 1) / sizeof(Word);
  std::vector<Word> words(first.size() * stride, 0);
  if (first[number[self]] == self && !row.empty()) {
    std::memcpy(&words[number[self] * stride], row.data(), row.size());
  }
  if (!words.empty()) controller.CrossRankBitwiseOr(words, static_cast<int>(words.size()));
  std::vector<SharedText> texts;
  for (std::size_t i = 0; i < first.size(); ++i) {
    texts.emplace_back(std::string(reinterpret_cast<const char*>(words.data() + i * stride),
                                   static_cast<std::size_t>(all[2 * first[i]])));
  }
  std::vector<SharedText> rows;
  for (std::size_t rank = 0; rank < ranks; ++rank) rows.push_back(texts[number[rank]]);
  return rows;
}

TextByRank GatherByRank(Controller& controller, const std::string& row) {
  TextByRank by_rank;
  const auto rows = GatherRows(controller, row);
  for (std::size_t i = 0; i < rows.size(); ++i) by_rank[controller.GetGlobalRanks()[i]] = rows[i];
  return by_rank;
}

int ControllerMeeting::rank() const { return controller_.GetRank(); }

int ControllerMeeting::ranks() const { return controller_.GetSize(); }

int ControllerMeeting::NameOf(int rank) const { return controller_.GetGlobalRanks()[rank]; }

bool TakeStep(Controller& controller, const std::function<void()>& step, std::string& error) {
  return ControllerMeeting(controller).TakeStep(step, error);
}

std::string ListRows(const TextByRank& rows) {
  std::string text;
  for (const auto& [row, ranks] : Distinct(rows)) {
    text += " " + Ranges("Rank", ranks) + ": " + (row.str().empty() ? "-" : row.str()) + ".";
  }
  return text;
}

bool AllEqual(Controller& controller, const std::string& row, bool failed) {
  // If two ranks differ in a bit, one of them has it in the hash and the other in its complement.
  const std::uint64_t hash = Hash(row);
  std::vector<Word> bits{static_cast<Word>(hash), static_cast<Word>(~hash), failed ? 1 : 0};
  controller.CrossRankBitwiseOr(bits, static_cast<int>(bits.size()));
  return (bits[0] & bits[1]) == 0 && bits[2] == 0;
}

}  // namespace horovod_opt
