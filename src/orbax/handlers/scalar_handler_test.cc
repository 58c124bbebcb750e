#include <cmath>
#include <limits>

#include "orbax/handlers/handler_test_util.h"

namespace holdfast {
namespace {

class ScalarHandlerTest : public testing::Test {
 protected:
  // Saves the value, and restores it as `type`.
  Result<Tree> RoundTrip(const Tree& value,
                         RestoreType type = RestoreType::kAsSaved) {
    const std::vector<ParamInfo> infos = {InfoOf(scratch_.path(), "x")};
    Write(handler_, {value}, infos);
    const std::vector<AnyRestoreArgs> args = {RestoreArgs{type, {}}};
    auto values = handler_.Deserialize(infos, args);
    if (!values.ok()) return values.status();
    return values->front();
  }

  const ScratchDirectory scratch_;
  ScalarHandler handler_;
};

TEST_F(ScalarHandlerTest, ElementsComeBackAsPythonNumbers) {
  EXPECT_EQ(*RoundTrip(7), Tree(7));
  EXPECT_EQ(*RoundTrip(true), Tree(true));
  EXPECT_EQ(*RoundTrip(1.5), Tree(1.5));
  EXPECT_EQ(*RoundTrip(Tree(std::complex<double>(1, -2))),
            Tree(std::complex<double>(1, -2)));
  EXPECT_EQ(*RoundTrip(Tree(Scalar::Of<int8_t>(DType::kInt8, -3, false))),
            Tree(-3));
  EXPECT_EQ(*RoundTrip(Tree(Scalar::Of<float>(DType::kFloat32, 0.5, false))),
            Tree(0.5));
  const uint64_t large = uint64_t{1} << 63;
  EXPECT_EQ(*RoundTrip(Tree(Scalar::Of(DType::kUint64, large, false))),
            Tree(Scalar::Of(DType::kUint64, large, true)));
}

TEST_F(ScalarHandlerTest, AreConvertedAsPythonConverts) {
  EXPECT_EQ(*RoundTrip(-1.9, RestoreType::kInt), Tree(-1));
  EXPECT_EQ(*RoundTrip(true, RestoreType::kInt), Tree(1));
  EXPECT_EQ(*RoundTrip(3, RestoreType::kFloat), Tree(3.0));
  EXPECT_EQ(*RoundTrip(0.0, RestoreType::kBool), Tree(false));
  EXPECT_EQ(*RoundTrip(-2, RestoreType::kBool), Tree(true));
  EXPECT_EQ(*RoundTrip(1e16, RestoreType::kString), Tree("1e+16"));
  EXPECT_EQ(*RoundTrip(true, RestoreType::kString), Tree("True"));
  EXPECT_EQ(*RoundTrip(-7, RestoreType::kString), Tree("-7"));
  EXPECT_EQ(*RoundTrip(Tree(std::complex<double>(1, -2)), RestoreType::kString),
            Tree("(1-2j)"));
  EXPECT_EQ(
      *RoundTrip(Tree(std::complex<double>(0, 2.5)), RestoreType::kString),
      Tree("2.5j"));
}

TEST_F(ScalarHandlerTest, WhatPythonCannotConvertIsRefused) {
  EXPECT_EQ(RoundTrip(std::nan(""), RestoreType::kInt).status().message(),
            "cannot convert float NaN to integer");
  EXPECT_EQ(
      RoundTrip(std::numeric_limits<double>::infinity(), RestoreType::kInt)
          .status()
          .message(),
      "cannot convert float infinity to integer");
  EXPECT_EQ(RoundTrip(Tree(std::complex<double>(1, 2)), RestoreType::kFloat)
                .status()
                .code(),
            StatusCode::kInvalidArgument);
}

TEST_F(ScalarHandlerTest, AnArrayIsNoScalar) {
  EXPECT_EQ(RoundTrip(Tree(Int32s({1}, {5}))).status().message(),
            "Restored result is not a scalar.");
}

TEST_F(ScalarHandlerTest, MetadataIsThatOfANumber) {
  const std::vector<ParamInfo> infos = {InfoOf(scratch_.path(), "x")};
  Write(handler_, {Tree(2.5)}, infos);
  const auto metadata = handler_.Metadata(infos);
  ASSERT_TRUE(metadata.ok());
  const auto& scalar = std::get<ScalarMetadata>(metadata->front());
  EXPECT_EQ(scalar.name, "x");
  EXPECT_EQ(scalar.directory, scratch_.path());
  EXPECT_EQ(scalar.dtype, DType::kFloat64);
  EXPECT_EQ(handler_.typestr(), "scalar");
}

}  // namespace
}  // namespace holdfast
