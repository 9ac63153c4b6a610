#include "horovod_opt/csrc/core/agreement/contradictions.h"

#include <algorithm>
#include <set>
#include <sstream>
#include <utility>

#include "horovod_opt/csrc/core/base/rank_texts.h"

namespace horovod_opt {
namespace {

using Key = std::pair<int, std::string>;      // process set, name
using Waiting = std::map<int, WaitingTensor>;  // who waits for it
using Tensors = std::map<Key, Waiting>;
using Keys = std::set<Key>;

std::vector<WaitingTensor> WaitingIn(const std::string& row) {
  std::vector<WaitingTensor> waiting;
  std::istringstream lines(row);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    WaitingTensor one;
    int kind = 0;
    std::size_t dimensions = 0;
    fields >> one.process_set >> kind >> one.dtype >> one.integer >> one.has_rows >> one.long_ago >>
        dimensions;
    one.kind = static_cast<WaitingTensor::Kind>(kind);
    one.row.resize(dimensions);
    for (std::int64_t& dimension : one.row) fields >> dimension;
    fields.get();
    std::getline(fields, one.text, '\t');
    std::getline(fields, one.name);
    waiting.push_back(std::move(one));
  }
  return waiting;
}

bool IsSparseFormOf(const WaitingTensor& values, const WaitingTensor& dense) {
  return values.kind == WaitingTensor::kAllgather && dense.kind == WaitingTensor::kAllreduce &&
         values.process_set == dense.process_set && values.dtype == dense.dtype && dense.has_rows &&
         values.row == dense.row;
}

bool AreContradictory(const WaitingTensor& one, const WaitingTensor& other) {
  if (one.process_set != other.process_set) return one.name == other.name;
  return IsSparseFormOf(one, other) || IsSparseFormOf(other, one);
}

bool MayBeIndices(const WaitingTensor& tensor) {
  return tensor.kind == WaitingTensor::kAllgather && tensor.integer && tensor.row.size() <= 1;
}

// What of `vain` contradicts the tensor `key`, on a rank that does not wait for it.
Keys ContradictedBy(const Key& key, int rank, const Keys& vain, const Tensors& tensors) {
  Keys found;
  const auto contradicted = [&](const WaitingTensor& tensor) {
    for (const Key& other : vain) {
      const Waiting& waiting = tensors.at(other);
      const auto here = waiting.find(rank);
      if (here != waiting.end() && here->second.long_ago && AreContradictory(tensor, here->second))
        found.insert(other);
    }
  };
  for (const auto& [waits, tensor] : tensors.at(key)) {
    contradicted(tensor);
    if (!MayBeIndices(tensor)) continue;
    // The values beside them are what a dense gradient contradicts.
    for (const Key& other : vain) {
      const Waiting& waiting = tensors.at(other);
      const auto beside = waiting.find(waits);
      if (other == key || beside == waiting.end() || other.first != key.first) continue;
      if (beside->second.kind == WaitingTensor::kAllgather) contradicted(beside->second);
    }
  }
  return found;
}

// Those that belong together with `key`, itself included.
Keys Component(const Key& key, const std::map<Key, Keys>& contradicted) {
  Keys component{key};
  for (std::size_t before = 0; before != component.size();) {
    before = component.size();
    for (const auto& [one, others] : contradicted) {
      const bool touches = component.count(one) > 0 ||
                           std::any_of(others.begin(), others.end(), [&](const Key& other) {
                             return component.count(other) > 0;
                           });
      if (!touches) continue;
      component.insert(one);
      component.insert(others.begin(), others.end());
    }
  }
  return component;
}

std::string Error(const Keys& component, const Tensors& tensors) {
  const bool in_sets = component.begin()->first != component.rbegin()->first;
  std::map<std::string, std::vector<int>> ranks;  // by what they wait for
  for (const Key& key : component) {
    for (const auto& [rank, tensor] : tensors.at(key)) {
      std::string what = tensor.text + " '" + key.second + "'";
      if (in_sets) what += " in process set " + std::to_string(key.first);
      ranks[what].push_back(rank);
    }
  }
  std::map<std::vector<int>, std::string> lines;
  for (const auto& [what, who] : ranks) {
    std::string& line = lines[who];
    line += (line.empty() ? Ranges("rank", who) + ": " : ", ") + what;
  }
  std::string text = "Mismatched tensors, for which the ranks would wait forever: ";
  for (const auto& [who, line] : lines) text += (who == lines.begin()->first ? "" : "; ") + line;
  return text + (in_sets ? ". Call it in one process set on all of its ranks, or under two names."
                         : ". A gradient has to be sparse on all ranks or on none: "
                           "sparse_as_dense=True makes it dense.");
}

}  // namespace

std::string ToRow(const std::vector<WaitingTensor>& waiting) {
  std::ostringstream row;
  for (const WaitingTensor& one : waiting) {
    row << one.process_set << ' ' << one.kind << ' ' << one.dtype << ' ' << one.integer << ' '
        << one.has_rows << ' ' << one.long_ago << ' ' << one.row.size();
    for (std::int64_t dimension : one.row) row << ' ' << dimension;
    row << ' ' << one.text << '\t' << one.name << '\n';
  }
  return row.str();
}

std::vector<Contradiction> Contradictions(const TextByRank& rows,
                                          const std::function<std::vector<int>(int)>& members) {
  Tensors tensors;
  for (const auto& [row, ranks] : Distinct(rows)) {
    for (const WaitingTensor& one : WaitingIn(row)) {
      for (int rank : ranks) tensors[{one.process_set, one.name}].emplace(rank, one);
    }
  }
  std::map<Key, std::vector<int>> missing;
  Keys vain;
  for (const auto& [key, waiting] : tensors) {
    for (int rank : members(key.first)) {
      if (waiting.count(rank) == 0) missing[key].push_back(rank);
    }
    if (missing.count(key) > 0) vain.insert(key);  // else it is about to be reduced
  }
  std::map<Key, Keys> contradicted;
  for (bool changed = true; changed;) {
    changed = false;
    for (auto key = vain.begin(); key != vain.end();) {
      Keys all;
      const bool by_each = std::all_of(missing[*key].begin(), missing[*key].end(), [&](int rank) {
        const Keys by = ContradictedBy(*key, rank, vain, tensors);
        all.insert(by.begin(), by.end());
        return !by.empty();
      });
      if (by_each) {
        contradicted[*key++] = all;
      } else {
        contradicted.erase(*key);
        key = vain.erase(key);
        changed = true;
      }
    }
  }
  std::vector<Contradiction> found;
  for (const Key& key : vain) {
    found.push_back(
        {key.first, key.second, missing[key], Error(Component(key, contradicted), tensors)});
  }
  return found;
}

}  // namespace horovod_opt
