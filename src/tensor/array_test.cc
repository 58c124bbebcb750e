#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "holdfast/tensor.h"

namespace holdfast {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kInt64Max = std::numeric_limits<int64_t>::max();
constexpr int64_t kHuge = int64_t{1} << 40;

TEST(TensorTest, ElementCountSaturates) {
  EXPECT_EQ(ElementCount({}), 1);
  EXPECT_EQ(ElementCount({2, 3, 4}), 24);
  EXPECT_EQ(ElementCount({kHuge, kHuge}), kInt64Max);
  EXPECT_EQ(ElementCount({kInt64Max, 1}), kInt64Max);
  EXPECT_EQ(ElementCount({kHuge, kHuge, 0}), 0);
  EXPECT_EQ(ElementCount({0, kHuge, kHuge}), 0);
}

TEST(TensorTest, ContiguousStrides) {
  EXPECT_THAT(ContiguousStrides({}, 4), ElementsAre());
  EXPECT_THAT(ContiguousStrides({2, 3, 4}, 4), ElementsAre(48, 16, 4));
  EXPECT_THAT(ContiguousStrides({2, 0, 4}, 2), ElementsAre(8, 8, 2));
  EXPECT_THAT(ContiguousStrides({0, kHuge, kHuge}, 1),
              ElementsAre(kInt64Max, kHuge, 1));
}

TEST(TensorTest, ShapeToStringAsPython) {
  EXPECT_EQ(ShapeToString({}), "()");
  EXPECT_EQ(ShapeToString({2}), "(2,)");
  EXPECT_EQ(ShapeToString({2, 3}), "(2, 3)");
  EXPECT_EQ(ShapeToString({-1, 0, 7}), "(-1, 0, 7)");
}

TEST(TensorTest, IsContiguous) {
  const auto contiguous = [](Shape shape, Shape strides) {
    return IsContiguous(
        {DType::kFloat32, nullptr, std::move(shape), std::move(strides)});
  };
  EXPECT_TRUE(contiguous({}, {}));
  EXPECT_TRUE(contiguous({2, 3}, {12, 4}));
  EXPECT_TRUE(contiguous({2, 1, 3}, {12, 999, 4}));
  EXPECT_TRUE(contiguous({1}, {0}));
  EXPECT_TRUE(contiguous({2, 0}, {1, 1}));
  EXPECT_FALSE(contiguous({2, 3}, {4, 8}));
  EXPECT_FALSE(contiguous({2, 3}, {16, 4}));
  EXPECT_FALSE(contiguous({3}, {-4}));
  EXPECT_FALSE(contiguous({3}, {0}));
}

TEST(ArrayTest, AllocateIsContiguousAndWritable) {
  Result<Array> array = Array::Allocate(DType::kInt16, {2, 3});
  ASSERT_TRUE(array.ok());
  EXPECT_EQ(array->dtype(), DType::kInt16);
  EXPECT_EQ(array->byte_count(), 12u);
  EXPECT_TRUE(IsContiguous(array->view()));
  const ArrayView view = array->mutable_view();
  view.data[11] = 'x';
  EXPECT_EQ(array->view().data[11], 'x');
}

TEST(ArrayTest, AllocateEmptyAndScalar) {
  Result<Array> empty = Array::Allocate(DType::kFloat64, {kHuge, 0, kHuge});
  ASSERT_TRUE(empty.ok());
  EXPECT_EQ(empty->byte_count(), 0u);
  Result<Array> scalar = Array::Allocate(DType::kComplex128, {});
  ASSERT_TRUE(scalar.ok());
  EXPECT_EQ(scalar->byte_count(), 16u);
}

TEST(ArrayTest, AllocateTooLarge) {
  for (const Shape& shape : {Shape{kHuge, kHuge}, Shape{kInt64Max}}) {
    const Result<Array> array = Array::Allocate(DType::kFloat32, shape);
    ASSERT_FALSE(array.ok());
    EXPECT_EQ(array.status().code(), StatusCode::kResourceExhausted);
    EXPECT_THAT(std::string(array.status().message()),
                HasSubstr("float32 " + ShapeToString(shape)));
  }
}

TEST(ArrayTest, FromBytesCopies) {
  std::vector<int32_t> values = {1, 2, 3};
  const Array array = Array::FromBytes(DType::kInt32, {3}, values.data());
  values[1] = 99;
  const auto* held = reinterpret_cast<const int32_t*>(array.view().data);
  EXPECT_THAT(std::vector<int32_t>(held, held + 3), ElementsAre(1, 2, 3));
  EXPECT_EQ(Array::FromBytes(DType::kInt32, {0}, nullptr).byte_count(), 0u);
}

TEST(ArrayTest, CopiesShareTheMemory) {
  Array copy;
  {
    const float values[] = {1.5f, 2.5f};
    const Array array = Array::FromBytes(DType::kFloat32, {2}, values);
    copy = array;
    EXPECT_EQ(copy.view().data, array.view().data);
  }
  EXPECT_EQ(reinterpret_cast<const float*>(copy.view().data)[1], 2.5f);
}

TEST(ArrayTest, BorrowKeepsTheOwnerAlive) {
  auto owner = std::make_shared<std::vector<char>>(8, 'a');
  const std::weak_ptr<std::vector<char>> watch = owner;
  Array array =
      Array::Borrow({DType::kUint8, owner->data() + 7, {4}, {-2}}, owner);
  owner.reset();
  EXPECT_FALSE(watch.expired());
  EXPECT_EQ(array.byte_count(), 4u);
  array = Array();
  EXPECT_TRUE(watch.expired());
}

}  // namespace
}  // namespace holdfast
