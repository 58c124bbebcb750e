// Small rules about arguments, empties, limits and placeholders.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "holdfast/orbax/type_handlers.h"

namespace holdfast {
namespace {

constexpr const char* kNoInput = "Cannot pass TypeHandler input of length 0.";

TEST(CheckInputArguments, WantsOneLengthAboveZero) {
  EXPECT_TRUE(CheckInputArguments({2, 2, 2}).ok());
  EXPECT_TRUE(CheckInputArguments({0}).ok());  // as in Orbax
  EXPECT_EQ(CheckInputArguments({0, 0}).message(), kNoInput);
  EXPECT_EQ(CheckInputArguments({0, 1}).message(), kNoInput);
  EXPECT_EQ(CheckInputArguments({1, 2}).message(),
            "Found input args with mismatched lengths.");
  EXPECT_EQ(CheckInputArguments({1, 0}).code(), StatusCode::kInvalidArgument);
}

TEST(CheckArrayValues, RefusesArraysWithoutElements) {
  const Tree full(Array::FromBytes(DType::kInt8, {1}, "a"));
  const Tree empty(Array::FromBytes(DType::kInt8, {2, 0}, ""));
  ParamInfo info;
  info.name = "a.b";
  info.value_typestr = "np.ndarray";
  const ParamInfo infos[] = {{}, info};
  const Tree* values[] = {&full, &empty};
  EXPECT_EQ(CheckArrayValues(values, infos).message(),
            "Cannot save arrays with zero size: ParamInfo: "
            "[name=a.b,value_typestr=np.ndarray]");
  values[1] = &full;
  EXPECT_TRUE(CheckArrayValues(values, infos).ok());
}

TEST(EmptyValues, HaveTypestrsAndComeBack) {
  const std::pair<Tree, const char*> rows[] = {
      {Tree::None(), "None"},
      {Tree::Dict(), "Dict"},
      {Tree::List(), "List"},
      {Tree::Tuple(), "Tuple"},
  };
  for (const auto& [value, typestr] : rows) {
    EXPECT_EQ(*GetEmptyValueTypestr(value), typestr);
    EXPECT_TRUE(IsEmptyTypestr(typestr));
    EXPECT_EQ(*GetEmptyValueFromTypestr(typestr), value);
  }
  EXPECT_FALSE(IsEmptyTypestr("np.ndarray"));
  EXPECT_EQ(GetEmptyValueTypestr(Tree(1)).status().message(),
            "int is not a supported empty aggregation type.");
  EXPECT_EQ(GetEmptyValueTypestr(Tree::List({1})).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(GetEmptyValueFromTypestr("x").status().message(),
            "Unrecognized typestr: x.");
}

TEST(EmptyValues, NamedTuplesNeedRichTypes) {
  const Tree empty = Tree::NamedTuple("m", "N");
  EXPECT_FALSE(GetEmptyValueTypestr(empty).ok());
  EXPECT_EQ(*GetEmptyValueTypestr(empty, true), "NamedTuple");
  EXPECT_EQ(*GetEmptyValueFromTypestr("NamedTuple"), Tree::None());
  EXPECT_EQ(GetEmptyValueFromTypestr("NamedTuple", true)->type_name(),
            "OrbaxEmptyNamedTuple");
}

TEST(Defaults, FollowTheArgs) {
  EXPECT_EQ(DefaultRestoreType(RestoreArgs()), RestoreType::kNumpy);
  EXPECT_EQ(DefaultRestoreType(ArrayRestoreArgs()), RestoreType::kJaxArray);
  EXPECT_EQ(DefaultRestoreType(SingleReplicaArrayRestoreArgs()),
            RestoreType::kJaxArray);
  EXPECT_EQ(GetProcessIndexForSubdir(false), std::nullopt);
  EXPECT_EQ(GetProcessIndexForSubdir(true), "0");
  EXPECT_EQ(GetProcessIndexForSubdir(true, "w7"), "w7");
  EXPECT_EQ(GetProcessIndexForSubdir(true, ""), "0");
}

TEST(LimitInFlightBytes, RefusesWhatItCannotHold) {
  EXPECT_EQ(LimitInFlightBytes::Make(0).status().message(),
            "Must provide positive `num_bytes`. Found: 0");
  const auto limiter = *LimitInFlightBytes::Make(10);
  EXPECT_EQ(limiter->bytes_max(), 10);
  EXPECT_EQ(limiter->WaitForBytes(10).message(),
            "Requested more bytes than we reserved space for: 10 > 10");
  EXPECT_TRUE(limiter->WaitForBytes(9).ok());
}

TEST(LimitInFlightBytes, WaitsForBytesThatAreGivenBack) {
  const auto limiter = *LimitInFlightBytes::Make(10);
  ASSERT_TRUE(limiter->WaitForBytes(6).ok());
  std::atomic<bool> is_released{false};
  std::thread waiter([&] {
    ASSERT_TRUE(limiter->WaitForBytes(4).ok());  // 4 more would reach the limit
    EXPECT_TRUE(is_released);
  });
  is_released = true;
  limiter->ReleaseBytes(6);
  waiter.join();
}

TEST(TypeHandler, TellsSizesOfValues) {
  NumpyHandler handler;
  const Tree array(Array::FromBytes(DType::kInt16, {3}, "aabbcc"));
  const Tree number(1.5), text("four");
  const Tree* values[] = {&array, &number, &text};
  EXPECT_THAT(handler.MemorySize(values),
              testing::ElementsAre(testing::Pair(6, 6), testing::Pair(8, 8),
                                   testing::Pair(4, 4)));
}

TEST(PlaceholderHandler, HasNothingToStore) {
  PlaceholderHandler handler;
  const std::vector<ParamInfo> infos(2);
  EXPECT_EQ(handler.typestr(), "placeholder");
  EXPECT_EQ(handler.Metadata(infos).status().message(),
            "Placeholders do not have metadata.");
  EXPECT_EQ(handler.Serialize({}, infos, {}).status().message(),
            "Placeholders cannot be serialized.");
  EXPECT_EQ(*handler.Deserialize(infos, {}),
            std::vector<Tree>(2, Tree::Placeholder()));
}

}  // namespace
}  // namespace holdfast
