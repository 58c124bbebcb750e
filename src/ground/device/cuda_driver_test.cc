#include "ground/device/cuda_driver.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace holdfast {
namespace {

using ::testing::HasSubstr;

TEST(CudaDriver, ALibraryThatIsMissingOrAnotherIsAFailedPrecondition) {
  const auto missing = LoadCudaDriver("/nonexistent/libcuda.so.1");
  EXPECT_EQ(missing.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(missing.status().message()),
              HasSubstr("cannot be loaded"));
  const auto other = LoadCudaDriver("libc.so.6");
  EXPECT_EQ(other.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(other.status().message()),
              HasSubstr("libc.so.6 has no cuInit"));
}

TEST(CudaDriver, GivesTheSameAnswerAgain) {
  const auto first = CudaDriver();
  const auto again = CudaDriver();
  ASSERT_EQ(first.ok(), again.ok());
  if (first.ok()) {
    EXPECT_EQ(*first, *again);
  } else {
    EXPECT_EQ(first.status().message(), again.status().message());
  }
}

}  // namespace
}  // namespace holdfast
