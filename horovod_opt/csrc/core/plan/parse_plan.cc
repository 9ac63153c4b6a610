#include <set>
#include <sstream>
#include <stdexcept>

#include "horovod_opt/csrc/core/plan/plan.h"

namespace horovod_opt {
namespace {

std::vector<std::string> Split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

// `parse` is one of std::sto..(), which take a number with anything behind it.
template <class Parse>
auto Whole(const std::string& text, const Parse& parse) {
  std::size_t end = 0;
  const auto number = parse(text, &end);
  if (end != text.size()) throw std::invalid_argument(text);
  return number;
}

std::int64_t Integer(const std::string& text, std::int64_t least) {
  const auto parse = [](const std::string& t, std::size_t* end) { return std::stoll(t, end); };
  const std::int64_t number = Whole(text, parse);
  if (number < least) throw std::out_of_range(text);
  return number;
}

double Real(const std::string& text) {
  return Whole(text, [](const std::string& t, std::size_t* end) { return std::stod(t, end); });
}

std::vector<int> Numbers(const std::string& text, std::size_t below) {
  std::vector<int> numbers;
  if (text == "-") return numbers;
  for (const std::string& part : Split(text, ',')) {
    const std::int64_t number = Integer(part, 0);
    if (static_cast<std::size_t>(number) >= below) throw std::out_of_range(part);
    numbers.push_back(static_cast<int>(number));
  }
  return numbers;
}

BucketLimits ParseLimits(const std::string& text) {
  const auto parts = Split(text, ',');
  if (parts.size() == 1) return Integer(parts[0], 0);
  if (parts.size() != 3) throw std::invalid_argument(text);
  return {Integer(parts[0], 0), Integer(parts[1], 0), Integer(parts[2], 0)};
}

Slot ParseSlot(const std::vector<std::string>& fields, std::size_t slots_before) {
  Slot slot;
  slot.key = Integer(fields.at(1), 1);
  slot.bytes = Integer(fields.at(2), 0);
  slot.reduction.dtype = static_cast<int>(Integer(fields.at(3), 0));
  slot.reduction.reduce_op = static_cast<int>(Integer(fields.at(4), 0));
  slot.reduction.prescale = Real(fields.at(5));
  slot.reduction.postscale = Real(fields.at(6));
  slot.after = Numbers(fields.at(7), slots_before);
  slot.name = fields.at(8);
  return slot;
}

void ParseLine(const std::string& line, Plan& plan) {
  const auto fields = Split(line, '\t');
  const std::string& kind = fields.at(0);
  const std::size_t size = fields.size();
  if (kind == "plan" && size == 5) {
    plan.hash = fields.at(1);
    plan.limits = ParseLimits(fields.at(2));
    plan.process_set = static_cast<int>(Integer(fields.at(3), 0));
    plan.name = fields.at(4);
  } else if (kind == "slot" && size == 9) {
    plan.slots.push_back(ParseSlot(fields, plan.slots.size()));
  } else if (kind == "bucket" && size == 2) {
    plan.buckets.push_back(Numbers(fields.at(1), plan.slots.size()));
  } else {
    throw std::invalid_argument(kind);
  }
}

void CheckComplete(const Plan& plan) {
  std::vector<int> times(plan.slots.size(), 0);
  for (const auto& bucket : plan.buckets) {
    if (bucket.empty()) throw std::invalid_argument("a plan has an empty bucket");
    for (int slot : bucket) {
      ++times[slot];
      if (!plan.slots[slot].reduction.IsLike(plan.slots[bucket[0]].reduction)) {
        throw std::invalid_argument("a bucket mixes reductions: " + plan.slots[slot].name);
      }
    }
  }
  for (std::size_t slot = 0; slot < times.size(); ++slot) {
    if (times[slot] != 1) {
      throw std::invalid_argument("not in exactly one bucket: " + plan.slots[slot].name);
    }
  }
  std::set<std::int64_t> keys;
  for (const Slot& slot : plan.slots) {
    if (!keys.insert(slot.key).second) {
      throw std::invalid_argument("has the key of another tensor: " + slot.name);
    }
  }
  if (plan.hash.empty() || plan.slots.empty()) throw std::invalid_argument("a plan is empty");
}

}  // namespace

Plan ParsePlan(const std::string& text) {
  Plan plan;
  for (const std::string& line : Split(text, '\n')) {
    try {
      ParseLine(line, plan);
    } catch (const std::logic_error&) {  // of at(), sto..() and Numbers()
      throw std::invalid_argument("not a line of a plan: " + line);
    }
  }
  CheckComplete(plan);
  return plan;
}

}  // namespace horovod_opt
