#include "stores/place/step_address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "twins/mem_bucket.h"
#include "twins/scratch_directory.h"

namespace holdfast {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kSecondNs = 1'000'000'000;
constexpr int64_t kNowNs = 1'800'000'000 * kSecondNs;

std::optional<StepAddress> Parsed(const std::string& path) {
  return ParseStepAddress(path, kNowNs);
}

// Returns the root, kind and details as one string; "-" if `path` is not an
// address.
std::string AddressText(const std::string& path) {
  const auto address = Parsed(path);
  if (!address) return "-";
  const std::string root = address->root + " ";
  switch (address->kind) {
    case StepAddress::Kind::kStep:
      return root + "step " + std::to_string(address->step);
    case StepAddress::Kind::kLatest:
      return root + "latest";
    case StepAddress::Kind::kTime:
      return root + "time " + std::to_string(address->time_ns / kSecondNs);
    case StepAddress::Kind::kBest:
      return root + (address->is_largest ? "max " : "min ") + address->metric;
  }
  return "?";
}

TEST(StepAddressTest, EveryFormIsKnown) {
  EXPECT_EQ(AddressText("/run@step=120"), "/run step 120");
  EXPECT_EQ(AddressText("run/@step=0"), "run/ step 0");
  EXPECT_EQ(AddressText("@latest"), ". latest");
  EXPECT_EQ(AddressText("a@b/run@latest"), "a@b/run latest");
  EXPECT_EQ(AddressText("run@best:loss"), "run min loss");
  EXPECT_EQ(AddressText("run@best:min:loss"), "run min loss");
  EXPECT_EQ(AddressText("run@best:max:accuracy"), "run max accuracy");
  EXPECT_EQ(AddressText("run@best:max:val/recall@10"), "run max val/recall@10");
  EXPECT_EQ(Parsed("run@best:loss")->text, "best:loss");
}

TEST(StepAddressTest, TimesAreOfTheClockOrOfUtc) {
  EXPECT_EQ(AddressText("r@0s ago"), "r time 1800000000");
  EXPECT_EQ(AddressText("r@90s ago"), "r time 1799999910");
  EXPECT_EQ(AddressText("r@30m ago"), "r time 1799998200");
  EXPECT_EQ(AddressText("r@2h ago"), "r time 1799992800");
  EXPECT_EQ(AddressText("r@1.5d ago"), "r time 1799870400");
  EXPECT_EQ(AddressText("r@3w ago"), "r time 1798185600");
  EXPECT_EQ(AddressText("r@99999w ago"), "r time 0");
  EXPECT_EQ(AddressText("r@2026-11-01"), "r time 1793491200");
  EXPECT_EQ(AddressText("r@2026-11-01T12:00"), "r time 1793534400");
  EXPECT_EQ(AddressText("r@2026-11-01T12:00Z"), "r time 1793534400");
  EXPECT_EQ(AddressText("r@2026-11-01T12:00+01:00"), "r time 1793530800");
  EXPECT_EQ(AddressText("r@2026-11-01T12:00:30"), "r time 1793534430");
}

TEST(StepAddressTest, NothingElseIsAnAddress) {
  for (const char* path : {"run",
                           "run@",
                           "run@step=",
                           "run@step=-1",
                           "run@step=1x",
                           "run@step=1 ",
                           "run@Latest",
                           "run@best:",
                           "run@best:max:",
                           "run@ ago",
                           "run@h ago",
                           "run@2y ago",
                           "run@-2h ago",
                           "run@nanh ago",
                           "run@2h",
                           "run@2026-13-01",
                           "run@2026-02-30",
                           "run@20261101",
                           "run@2026-11-01T12",
                           "run@latest/params",
                           "run@step=3/default",
                           "me@host"}) {
    EXPECT_EQ(AddressText(path), "-") << path;
  }
}

TEST(StepAddressTest, TheRootOfAUrlHasNone) {
  EXPECT_EQ(AddressText("s3://bucket/run@step=3"), "s3://bucket/run step 3");
  EXPECT_EQ(AddressText("s3://bucket/@latest"), "s3://bucket/ latest");
  EXPECT_EQ(AddressText("http://me@latest"), "-");
  EXPECT_EQ(AddressText("http://me@host/run@latest"),
            "http://me@host/run latest");
  EXPECT_EQ(AddressText("hf://org/model@latest"), "-");
  EXPECT_EQ(AddressText("hf://org/model@main/run@latest"),
            "hf://org/model@main/run latest");
}

TEST(StepAddressTest, NothingNewIsWrittenAtAnAddress) {
  const ScratchDirectory scratch;
  const Place root = Place(scratch.path());
  const Status refused = CheckNamesNoStep(root / "run@step=3");
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("run@step=3: \"@step=3\" names a step to be read of"));
  EXPECT_TRUE(CheckNamesNoStep(root / "run@home").ok());
  WriteTestFile((root / "run@step=3" / "x").path(), "");
  EXPECT_TRUE(CheckNamesNoStep(root / "run@step=3").ok());

  MemBucketForTest mem;
  EXPECT_EQ(CheckNamesNoStep(Place("mem://test/run@2h ago")).code(),
            StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace holdfast
