#include "horovod_opt/csrc/core/agreement/contradictions.h"

#include <algorithm>
#include <set>
#include <sstream>
#include <utility>

#include "horovod_opt/csrc/core/base/rank_texts.h"

namespace horovod_opt {
namespace {

using Key = std::pair<int, std::string>;       // process set, name
using Waiters = std::map<int, WaitingTensor>;  // who waits for it
using Tensors = std::map<Key, Waiters>;
using Keys = std::set<Key>;

std::vector<WaitingTensor> WaitingIn(const std::string& row) {
  std::vector<WaitingTensor> waiting;
  std::istringstream lines(row);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    WaitingTensor tensor;
    int kind = 0;
    std::size_t dimensions = 0;
    fields >> tensor.process_set >> kind >> tensor.dtype >> tensor.integer >> tensor.has_rows >>
        tensor.long_ago >> dimensions;
    tensor.kind = static_cast<WaitingTensor::Kind>(kind);
    tensor.row.resize(dimensions);
    for (std::int64_t& dimension : tensor.row) fields >> dimension;
    fields.get();
    std::getline(fields, tensor.text, '\t');
    std::getline(fields, tensor.name);
    waiting.push_back(std::move(tensor));
  }
  return waiting;
}

bool IsSparseFormOf(const WaitingTensor& values, const WaitingTensor& dense) {
  return values.kind == WaitingTensor::kAllgather && dense.kind == WaitingTensor::kAllreduce &&
         values.process_set == dense.process_set && values.dtype == dense.dtype && dense.has_rows &&
         values.row == dense.row;
}

bool AreContradictory(const WaitingTensor& first, const WaitingTensor& second) {
  if (first.process_set != second.process_set) return first.name == second.name;
  return IsSparseFormOf(first, second) || IsSparseFormOf(second, first);
}

bool MayBeIndices(const WaitingTensor& tensor) {
  return tensor.kind == WaitingTensor::kAllgather && tensor.integer && tensor.row.size() <= 1;
}

// What of `vain` contradicts the tensor `key`, on a rank that does not wait for it.
Keys ContradictedBy(const Key& key, int rank, const Keys& vain, const Tensors& tensors) {
  Keys keys;
  const auto contradicted = [&](const WaitingTensor& tensor) {
    for (const Key& candidate : vain) {
      const Waiters& waiting = tensors.at(candidate);
      const auto here = waiting.find(rank);
      if (here != waiting.end() && here->second.long_ago && AreContradictory(tensor, here->second))
        keys.insert(candidate);
    }
  };
  for (const auto& [waits, tensor] : tensors.at(key)) {
    contradicted(tensor);
    if (!MayBeIndices(tensor)) continue;
    // The values beside them are what a dense gradient contradicts.
    for (const Key& candidate : vain) {
      const Waiters& waiting = tensors.at(candidate);
      const auto beside = waiting.find(waits);
      if (candidate == key || beside == waiting.end() || candidate.first != key.first) continue;
      if (beside->second.kind == WaitingTensor::kAllgather) contradicted(beside->second);
    }
  }
  return keys;
}

// Those that belong together with `key`, itself included.
Keys Component(const Key& key, const std::map<Key, Keys>& contradicted) {
  Keys component{key};
  for (std::size_t before = 0; before != component.size();) {
    before = component.size();
    for (const auto& [vain, by] : contradicted) {
      const bool touches = component.count(vain) > 0 ||
                           std::any_of(by.begin(), by.end(), [&](const Key& contradicting) {
                             return component.count(contradicting) > 0;
                           });
      if (!touches) continue;
      component.insert(vain);
      component.insert(by.begin(), by.end());
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
  for (const auto& [tensor, waiters] : ranks) {
    std::string& line = lines[waiters];
    line += (line.empty() ? Ranges("rank", waiters) + ": " : ", ") + tensor;
  }
  std::string text = "Mismatched tensors, for which the ranks would wait forever: ";
  for (const auto& [waiters, line] : lines)
    text += (waiters == lines.begin()->first ? "" : "; ") + line;
  return text + (in_sets ? ". Call it in one process set on all of its ranks, or under two names."
                         : ". A gradient has to be sparse on all ranks or on none: "
                           "sparse_as_dense=True makes it dense.");
}

}  // namespace

std::string ToRow(const std::vector<WaitingTensor>& waiting) {
  std::ostringstream row;
  for (const WaitingTensor& tensor : waiting) {
    row << tensor.process_set << ' ' << tensor.kind << ' ' << tensor.dtype << ' ' << tensor.integer
        << ' ' << tensor.has_rows << ' ' << tensor.long_ago << ' ' << tensor.row.size();
    for (std::int64_t dimension : tensor.row) row << ' ' << dimension;
    row << ' ' << tensor.text << '\t' << tensor.name << '\n';
  }
  return row.str();
}

std::vector<Contradiction> Contradictions(const TextByRank& rows,
                                          const std::function<std::vector<int>(int)>& members) {
  Tensors tensors;
  for (const auto& [row, ranks] : Distinct(rows)) {
    for (const WaitingTensor& tensor : WaitingIn(row)) {
      for (int rank : ranks) tensors[{tensor.process_set, tensor.name}].emplace(rank, tensor);
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
      const bool by_every_rank =
          std::all_of(missing[*key].begin(), missing[*key].end(), [&](int rank) {
            const Keys by = ContradictedBy(*key, rank, vain, tensors);
            all.insert(by.begin(), by.end());
            return !by.empty();
          });
      if (by_every_rank) {
        contradicted[*key++] = all;
      } else {
        contradicted.erase(*key);
        key = vain.erase(key);
        changed = true;
      }
    }
  }
  std::vector<Contradiction> contradictions;
  for (const Key& key : vain) {
    contradictions.push_back(
        {key.first, key.second, missing[key], Error(Component(key, contradicted), tensors)});
  }
  return contradictions;
}

}  // namespace horovod_opt
