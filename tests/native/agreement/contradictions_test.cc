#include "horovod_opt/csrc/core/agreement/contradictions.h"

#include <gtest/gtest.h>

namespace horovod_opt {
namespace contradictions_test {

constexpr int kFloat = 7, kLong = 5, kDouble = 8;

WaitingTensor Dense(const std::string& name, int process_set = 0) {
  WaitingTensor tensor;
  tensor.process_set = process_set;
  tensor.name = name;
  tensor.kind = WaitingTensor::kAllreduce;
  tensor.dtype = kFloat;
  tensor.has_rows = tensor.long_ago = true;
  tensor.row = {3};
  tensor.text = "ALLREDUCE of float32 [20, 3]";
  return tensor;
}

WaitingTensor Values(const std::string& name) {
  WaitingTensor tensor = Dense(name);
  tensor.kind = WaitingTensor::kAllgather;
  tensor.text = "ALLGATHER of float32 [any, 3]";
  return tensor;
}

WaitingTensor Indices(const std::string& name) {
  WaitingTensor tensor = Values(name);
  tensor.dtype = kLong;
  tensor.integer = true;
  tensor.row = {};
  tensor.text = "ALLGATHER of int64 [any]";
  return tensor;
}

WaitingTensor JustNow(WaitingTensor tensor) {
  tensor.long_ago = false;
  return tensor;
}

std::vector<Contradiction> Find(const std::map<int, std::vector<WaitingTensor>>& waiting,
                                const std::map<int, std::vector<int>>& sets = {{0, {0, 1, 2}}}) {
  TextByRank rows;
  for (const auto& [rank, tensors] : waiting) rows[rank] = ToRow(tensors);
  return Contradictions(
      rows, [&](int id) { return sets.count(id) > 0 ? sets.at(id) : std::vector<int>{}; });
}

std::vector<std::string> Names(const std::vector<Contradiction>& contradictions) {
  std::vector<std::string> names;
  for (const Contradiction& contradiction : contradictions) names.push_back(contradiction.name);
  return names;
}

using Strings = std::vector<std::string>;
using Ranks = std::vector<int>;

TEST(Contradictions, ANameInTwoProcessSets) {
  const auto contradictions =
      Find({{0, {Dense("x", 1)}}, {1, {Dense("x", 2)}}, {2, {Dense("x", 2)}}},
           {{1, {0, 1}}, {2, {0, 1, 2}}});
  ASSERT_EQ(contradictions.size(), 2u);
  EXPECT_EQ(contradictions[0].process_set, 1);
  EXPECT_EQ(contradictions[0].contradicting, Ranks{1});
  EXPECT_EQ(contradictions[1].process_set, 2);
  EXPECT_EQ(contradictions[1].contradicting, Ranks{0});
  EXPECT_EQ(contradictions[0].error, contradictions[1].error);
  EXPECT_NE(contradictions[0].error.find(
                "rank 0: ALLREDUCE of float32 [20, 3] 'x' in process set 1; ranks "
                "1-2: ALLREDUCE of float32 [20, 3] 'x' in process set 2"),
            std::string::npos)
      << contradictions[0].error;
}

TEST(Contradictions, AGradientThatIsSparseOnOneRank) {
  const auto contradictions = Find({{0, {Dense("grad")}},
                                    {1, {Dense("grad")}},
                                    {2, {Indices("grad.indices"), Values("grad.values")}}});
  EXPECT_EQ(Names(contradictions), (Strings{"grad", "grad.indices", "grad.values"}));
  ASSERT_EQ(contradictions.size(), 3u);
  EXPECT_EQ(contradictions[0].contradicting, Ranks{2});
  EXPECT_EQ(contradictions[1].contradicting, (Ranks{0, 1}));
  EXPECT_EQ(contradictions[2].contradicting, (Ranks{0, 1}));
  EXPECT_EQ(contradictions[0].error, contradictions[1].error);
  EXPECT_EQ(contradictions[0].error, contradictions[2].error);
  EXPECT_NE(
      contradictions[0].error.find("ranks 0-1: ALLREDUCE of float32 [20, 3] 'grad'; rank 2: "),
      std::string::npos)
      << contradictions[0].error;
}

TEST(Contradictions, NamesWithTabsOrSpacesAreKept) {
  const auto contradictions = Find({{0, {Dense("a b\tc")}}, {1, {Values("v")}}}, {{0, {0, 1}}});
  EXPECT_EQ(Names(contradictions), (Strings{"a b\tc", "v"}));
}

// Rule 2.
TEST(Contradictions, ARankThatMayStillSendTheTensorIsWaitedFor) {
  EXPECT_TRUE(Find({{0, {Dense("grad")}}, {1, {}}, {2, {Values("v")}}}).empty());
}

// Rule 2: rank 2 may still send x in process set 2, then rank 1 goes on and sends it in set 1.
TEST(Contradictions, ARankThatWaitsForAnotherOneIsWaitedFor) {
  const auto contradictions =
      Find({{0, {Dense("x", 1)}}, {1, {Dense("x", 2)}}, {2, {}}}, {{1, {0, 1}}, {2, {1, 2}}});
  EXPECT_TRUE(contradictions.empty());
}

TEST(Contradictions, ATensorThatAllWaitForIsAboutToBeReduced) {
  const auto contradictions = Find(
      {{0, {Dense("grad"), Values("v")}}, {1, {Dense("grad"), Values("v")}}, {2, {Dense("grad")}}});
  EXPECT_TRUE(contradictions.empty());
}

// Rule 1.
TEST(Contradictions, WhatHasJustBeenCalledContradictsNothing) {
  EXPECT_TRUE(
      Find({{0, {Dense("grad")}}, {1, {Dense("grad")}}, {2, {JustNow(Values("v"))}}}).empty());
}

// Rank 1 has come a moment later than rank 0.
TEST(Contradictions, WhoeverWaitsForTheTensorMayHaveJustCome) {
  const auto contradictions =
      Find({{0, {Dense("grad")}}, {1, {JustNow(Dense("grad"))}}, {2, {Values("v")}}});
  EXPECT_EQ(Names(contradictions), Strings{})
      << "rank 1 may still send v: nothing it waits for is old";
  EXPECT_EQ(Names(Find({{0, {Dense("grad")}}, {1, {Dense("grad")}}, {2, {Values("v")}}})),
            (Strings{"grad", "v"}));
}

TEST(Contradictions, OtherTensorsThatWaitBesideThemAreNotTouched) {
  const auto contradictions = Find({{0, {Dense("grad"), Dense("other")}},
                                    {1, {Dense("grad"), Dense("other")}},
                                    {2, {Values("v"), Dense("other")}}});
  EXPECT_EQ(Names(contradictions), (Strings{"grad", "v"}));
}

TEST(Contradictions, OtherTypesAndShapesDoNotContradict) {
  WaitingTensor other_type = Values("v"), other_row = Values("v"), scalar = Dense("grad");
  other_type.dtype = kDouble;
  other_row.row = {4};
  scalar.has_rows = false;
  scalar.row = {};
  WaitingTensor column = Values("v");
  column.row = {};
  EXPECT_TRUE(Find({{0, {Dense("grad")}}, {1, {other_type}}}, {{0, {0, 1}}}).empty());
  EXPECT_TRUE(Find({{0, {Dense("grad")}}, {1, {other_row}}}, {{0, {0, 1}}}).empty());
  EXPECT_TRUE(Find({{0, {scalar}}, {1, {column}}}, {{0, {0, 1}}}).empty());
  EXPECT_FALSE(Find({{0, {Dense("grad")}}, {1, {Values("v")}}}, {{0, {0, 1}}}).empty());
}

TEST(Contradictions, AnUnknownProcessSetIsLeftAlone) {
  EXPECT_TRUE(Find({{0, {Dense("x", 1)}}, {1, {Dense("x", 2)}}}, {{1, {0, 1}}}).empty());
}

}  // namespace contradictions_test
}  // namespace horovod_opt
