#include "horovod_opt/csrc/core/agreement/unnamed_calls.h"

#include <algorithm>
#include <set>
#include <sstream>
#include <utility>

namespace horovod_opt {

std::optional<UnnamedCalls::Turn> UnnamedCalls::Enter(std::int64_t key, std::uint64_t number,
                                                      const std::function<std::string()>& describe,
                                                      const std::function<Send()>& wait) {
  std::lock_guard<std::mutex> lock(mutex_);
  Signature& signature = signatures_[key];
  if (signature.text.empty()) signature.text = describe();
  const Call call{key, signature.calls++, number, Clock::now()};
  under_way_[++calls_] = call;
  ++signature.under_way;
  Lane& lane = signature.lanes[call.place % kLanes];
  if (!lane.busy) {
    lane.busy = true;
    return TurnOf(calls_, call, signature);
  }
  lane.held.push_back({calls_, wait()});
  return std::nullopt;
}

void UnnamedCalls::Pass() {
  std::lock_guard<std::mutex> lock(mutex_);
  ++calls_;
}

UnnamedCalls::Turn UnnamedCalls::TurnOf(std::uint64_t call, const Call& known,
                                        const Signature& signature) const {
  Turn turn;
  turn.call = call;
  if (!signature.origin || known.place < *signature.origin + kLanes) return turn;
  turn.lane = static_cast<int>((known.place - *signature.origin) % kLanes);
  turn.number = static_cast<std::int64_t>(call - signature.origin_call);
  return turn;
}

void UnnamedCalls::Leave(std::uint64_t call) {
  while (const auto next = Next(call)) {
    Turn turn;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      const Call& known = under_way_.at(next->call);
      turn = TurnOf(next->call, known, signatures_.at(known.signature));
    }
    if (next->send(turn)) return;
    call = next->call;
  }
}

std::optional<UnnamedCalls::Held> UnnamedCalls::Next(std::uint64_t call) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto known = under_way_.find(call);
  if (known == under_way_.end()) return std::nullopt;
  const std::int64_t key = known->second.signature;
  Signature& signature = signatures_.at(key);
  Lane& lane = signature.lanes[known->second.place % kLanes];
  under_way_.erase(known);
  --signature.under_way;
  if (!lane.held.empty()) {
    std::optional<Held> next(std::move(lane.held.front()));
    lane.held.pop_front();
    return next;
  }
  lane.busy = false;
  ForgetIfIdle(key);
  return std::nullopt;
}

void UnnamedCalls::ForgetIfIdle(std::int64_t key) {
  const auto known = signatures_.find(key);
  if (known == signatures_.end()) return;
  if (known->second.under_way == 0 && !known->second.origin) signatures_.erase(known);
}

void UnnamedCalls::Plan(std::int64_t key, std::uint64_t number, std::function<void()> drop) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto call = std::find_if(under_way_.begin(), under_way_.end(), [&](const auto& entry) {
    return entry.second.signature == key && entry.second.number == number;
  });
  if (call == under_way_.end()) return;
  Signature& signature = signatures_.at(key);
  signature.origin = call->second.place;
  signature.origin_call = call->first;
  signature.drop = std::move(drop);
  origin_ = call->first;
}

void UnnamedCalls::Drop(std::int64_t key) {
  std::function<void()> drop;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto known = signatures_.find(key);
    if (known == signatures_.end() || !known->second.origin) return;
    known->second.origin.reset();
    drop = std::exchange(known->second.drop, nullptr);
    ForgetIfIdle(key);
  }
  drop();
}

void UnnamedCalls::DropAll() {
  std::vector<std::int64_t> keys;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& [key, signature] : signatures_) keys.push_back(key);
    origin_ = 0;
  }
  for (const std::int64_t key : keys) Drop(key);
}

std::string UnnamedCalls::Waiting(Clock::time_point since) const {
  std::ostringstream lines;
  std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& [number, call] : under_way_) {
    if (origin_ == 0 || call.since > since) continue;
    lines << static_cast<std::int64_t>(number - origin_) << ' ' << call.number << ' '
          << call.signature << ' ' << signatures_.at(call.signature).text << '\n';
  }
  return lines.str();
}

std::string UnnamedCalls::Disorder(const TextByRank& waiting) {
  struct Calls {
    std::set<std::int64_t> signatures;
    std::set<std::pair<std::string, std::uint64_t>> names;  // kind and number, as upstream names it
    std::map<std::string, std::vector<int>> ranks;          // by text
  };
  std::map<std::int64_t, Calls> by_number;
  for (const auto& [rank, row] : waiting) {
    std::istringstream lines(row.str());
    std::int64_t number, signature;
    std::uint64_t upstreams;
    for (std::string text; lines >> number >> upstreams >> signature && lines.get();) {
      std::getline(lines, text);
      Calls& calls = by_number[number];
      calls.signatures.insert(signature);
      calls.names.emplace(text.substr(0, text.find(' ')), upstreams);
      calls.ranks[text].push_back(rank);
    }
  }
  for (const auto& [number, calls] : by_number) {
    // Those of one name meet in the negotiation, once a plan has given them back.
    if (calls.signatures.size() == 1 || calls.names.size() == 1) continue;
    std::string disorder;
    for (const auto& [text, ranks] : calls.ranks) {
      disorder += (disorder.empty() ? "" : "; ") + Ranges("rank", ranks) + ": " + text;
    }
    return disorder;
  }
  return "";
}

}  // namespace horovod_opt
