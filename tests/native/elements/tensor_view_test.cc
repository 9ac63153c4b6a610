#include "horovod_opt/csrc/core/elements/tensor_view.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <utility>

namespace horovod_opt {
namespace tensor_view_test {

class TensorViewTest : public testing::Test {
 protected:
  std::string Read(std::int64_t begin, std::int64_t end) const {
    std::string text(static_cast<std::size_t>(end - begin), '?');
    data_.Read(begin, end, text.data());
    return text;
  }

  const std::string abc_ = "abc";
  const std::string defgh_ = "defgh";
  std::string first_out_ = "...";
  std::string last_out_ = ".....";
  const std::vector<Segment> segments_ = {
      {nullptr, nullptr, 0}, {abc_.data(), first_out_.data(), 3},  {nullptr, nullptr, 0},
      {nullptr, nullptr, 2}, {defgh_.data(), last_out_.data(), 5}, {nullptr, nullptr, 0}};
  const TensorView data_{segments_};
};

TEST_F(TensorViewTest, ReadsAnyPartWithZerosForWhatIsAbsent) {
  const std::string all("abc\0\0defgh", 10);
  ASSERT_EQ(data_.Bytes(), 10);
  for (std::int64_t begin = 0; begin <= 10; ++begin) {
    for (std::int64_t end = begin; end <= 10; ++end) {
      EXPECT_EQ(Read(begin, end), all.substr(begin, end - begin)) << begin << ".." << end;
    }
  }
}

TEST_F(TensorViewTest, WritesOnlyThePartThatIsGivenAndWanted) {
  data_.Write(1, 7, "123456", std::memcpy);
  EXPECT_EQ(first_out_, ".12");
  EXPECT_EQ(last_out_, "56...");
  data_.Write(9, 10, "7", std::memcpy);
  EXPECT_EQ(last_out_, "56..7");
  data_.Write(4, 4, "", std::memcpy);
  EXPECT_EQ(first_out_ + last_out_, ".1256..7");
}

TEST(TensorView, MayBeEmpty) {
  const std::vector<Segment> none;
  const TensorView data(none);
  EXPECT_EQ(data.Bytes(), 0);
  data.Read(0, 0, nullptr);
  data.Write(0, 0, nullptr, std::memcpy);
}

TEST(TensorView, SaysWhereBytesOfOneTensorLie) {
  char a[8], b[8], c[4];
  const TensorView view({{a, b, 8}, {c, c, 4}, {nullptr, b, 4}, {a, nullptr, 4}});
  using Pair = std::pair<const char*, char*>;
  const auto where = [&](std::int64_t begin, std::int64_t end) {
    const TensorView::Run run = view.Where(begin, end);
    return Pair(run.in, run.out);
  };
  EXPECT_EQ(where(0, 8), Pair(a, b));
  EXPECT_EQ(where(2, 6), Pair(a + 2, b + 2));
  EXPECT_EQ(where(9, 12), Pair(c + 1, c + 1));
  EXPECT_EQ(where(6, 10), Pair()) << "of two tensors";
  EXPECT_EQ(where(12, 16), Pair(nullptr, b)) << "zeros";
  EXPECT_EQ(where(16, 20), Pair(a, nullptr)) << "not wanted";
}

}  // namespace tensor_view_test
}  // namespace horovod_opt
