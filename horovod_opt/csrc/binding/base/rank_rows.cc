#include "horovod_opt/csrc/binding/base/rank_rows.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "horovod/common/controller.h"
#include "horovod_opt/csrc/core/base/hash.h"

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

std::vector<std::string> GatherRows(Controller& controller, const std::string& row) {
  const std::vector<Word> lengths = GatherWords(controller, {static_cast<Word>(row.size())});
  const Word longest = *std::max_element(lengths.begin(), lengths.end());
  std::vector<Word> words((longest + sizeof(Word) - 1) / sizeof(Word), 0);
  std::memcpy(words.data(), row.data(), row.size());

  const std::vector<Word> all = GatherWords(controller, words);
  std::vector<std::string> rows;
  for (std::size_t rank = 0; rank < lengths.size(); ++rank) {
    rows.emplace_back(reinterpret_cast<const char*>(all.data() + rank * words.size()),
                      static_cast<std::size_t>(lengths[rank]));
  }
  return rows;
}

std::map<int, std::string> GatherByRank(Controller& controller, const std::string& row) {
  std::map<int, std::string> by_rank;
  const auto rows = GatherRows(controller, row);
  for (std::size_t i = 0; i < rows.size(); ++i) by_rank[controller.GetGlobalRanks()[i]] = rows[i];
  return by_rank;
}

std::string FirstProblem(Controller& controller, const std::string& problem) {
  for (const auto& [rank, text] : GatherByRank(controller, problem)) {
    if (!text.empty()) return "rank " + std::to_string(rank) + ": " + text;
  }
  return "";
}

std::string Listed(const std::vector<std::string>& rows) {
  std::string text;
  for (std::size_t rank = 0; rank < rows.size(); ++rank) {
    text += " Rank " + std::to_string(rank) + ": " + (rows[rank].empty() ? "-" : rows[rank]) + ".";
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
