#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
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
  EXPECT_THAT(*array.As<int32_t>(), ElementsAre(1, 2, 3));
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
  EXPECT_EQ((*copy.As<float>())[1], 2.5f);
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

// Returns the message with which As refuses the view.
template <typename T>
std::string WhyNot(const ConstArrayView& view) {
  const Result<std::span<const T>> elements = view.As<T>();
  if (elements.ok()) return "";
  EXPECT_EQ(elements.status().code(), StatusCode::kInvalidArgument);
  return std::string(elements.status().message());
}

TEST(ArrayTest, AsGivesTheElementsWhereTheyLie) {
  Array array = *Array::Of(std::vector<double>{1, 2, 3, 4}, {2, 2});
  EXPECT_THAT(*array.As<double>(), ElementsAre(1, 2, 3, 4));
  (*array.mutable_view().As<double>())[3] = 5;
  EXPECT_EQ(array.As<double>()->data()[3], 5);
  EXPECT_TRUE(Array::Allocate(DType::kInt64, {2, 0})->As<int64_t>()->empty());
  EXPECT_EQ(Array::Allocate(DType::kInt64, {})->As<int64_t>()->size(), 1u);
}

TEST(ArrayTest, AsRefusesWhatIsNoRunOfThatType) {
  alignas(8) char bytes[16] = {};
  const ConstArrayView view{DType::kFloat32, bytes, {2}, {4}};
  EXPECT_EQ(WhyNot<float>(view), "");
  EXPECT_THAT(WhyNot<int64_t>(view), HasSubstr("(got float32, want int64)"));
  EXPECT_THAT(WhyNot<int32_t>(view), HasSubstr("(got float32, want int32)"));
  EXPECT_THAT(WhyNot<float>({DType::kFloat32, bytes, {2}, {8}}),
              HasSubstr("not contiguous"));
  EXPECT_THAT(WhyNot<float>({DType::kFloat32, bytes + 2, {2}, {4}}),
              HasSubstr("not aligned"));
  EXPECT_THAT(WhyNot<uint16_t>({DType::kBfloat16, bytes, {2}, {2}}),
              HasSubstr("(got bfloat16, want uint16)"));
}

TEST(ArrayTest, AsMakesNoBoolOfAnotherByte) {
  const char bytes[] = {0, 1, 2};
  EXPECT_EQ(WhyNot<bool>({DType::kBool, bytes, {2}, {1}}), "");
  EXPECT_THAT(WhyNot<bool>({DType::kBool, bytes, {3}, {1}}),
              HasSubstr("element 2 is not a bool (got 2, want 0 or 1)"));
}

TEST(ArrayTest, OfCopiesValuesWithAShape) {
  std::vector<float> values = {0, 1, 2, 3, 4, 5};
  const Array flat = Array::Of(values);
  const Array square = *Array::Of(std::span<const float>(values), {2, 3});
  values[1] = 9;
  EXPECT_EQ(flat.dtype(), DType::kFloat32);
  EXPECT_THAT(flat.shape(), ElementsAre(6));
  EXPECT_THAT(square.shape(), ElementsAre(2, 3));
  EXPECT_THAT(*square.As<float>(), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_EQ(Array::Of(std::array<bool, 2>{true, false}).dtype(), DType::kBool);
  EXPECT_EQ(Array::Of(std::vector<int8_t>()).element_count(), 0);
  EXPECT_EQ(Array::Of(std::array<int8_t, 1>{7}, {})->element_count(), 1);
}

TEST(ArrayTest, OfRefusesAnotherCount) {
  const std::vector<int16_t> values(6);
  for (const Shape& shape : {Shape{5}, Shape{2, 4}, Shape{}, Shape{-2, -3},
                             Shape{kHuge, kHuge}, Shape{0}}) {
    const Result<Array> array = Array::Of(values, shape);
    ASSERT_FALSE(array.ok());
    EXPECT_EQ(array.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(array.status().message()),
                HasSubstr(ShapeToString(shape) +
                          ": another number of elements (got 6)"));
  }
}

}  // namespace
}  // namespace holdfast
