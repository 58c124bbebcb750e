#include "holdfast/status.h"

#include <gtest/gtest.h>

#include <memory>

#include "ground/base/status_macros.h"

namespace holdfast {
namespace {

TEST(Status, DefaultIsOk) {
  EXPECT_TRUE(Status().ok());
  EXPECT_EQ(Status().ToString(), "OK");
  EXPECT_EQ(Status(StatusCode::kOk, "ignored").message(), "");
}

TEST(Status, CarriesCodeAndMessage) {
  const Status status = DataLossError("chunk 3: bad");
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_EQ(status.ToString(), "DATA_LOSS: chunk 3: bad");
  EXPECT_EQ(status.WithContext("tensor w").message(), "tensor w: chunk 3: bad");
  EXPECT_TRUE(Status().WithContext("tensor w").ok());
}

Result<int> Half(int value) {
  if (value % 2 != 0) return InvalidArgumentError("odd");
  return value / 2;
}

Result<int> Quarter(int value) {
  HF_ASSIGN_OR_RETURN(const int half, Half(value));
  return Half(half);
}

TEST(Result, PropagatesFailure) {
  EXPECT_EQ(*Quarter(12), 3);
  EXPECT_EQ(Quarter(6).status().code(), StatusCode::kInvalidArgument);
}

TEST(Result, HoldsMoveOnlyValues) {
  Result<std::unique_ptr<int>> result(std::make_unique<int>(7));
  std::unique_ptr<int> value = std::move(result).value();
  EXPECT_EQ(*value, 7);
}

}  // namespace
}  // namespace holdfast
