// Metadata that TensorStore refuses, and what this reader does with them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <span>

#include "formats/zarr/format/malformed_v2_testdata.h"
#include "formats/zarr/format/malformed_v3_testdata.h"
#include "formats/zarr/format/metadata.h"

namespace holdfast::zarr {
namespace {

using ::testing::HasSubstr;

// Returns true if the table has TensorStore's message, which it has if the
// metadata are the only reason for the refusal.
bool RefusedByMetadata(const MalformedCase& test_case) {
  return !test_case.accepted && !test_case.expected.empty();
}

bool IsRefusal(StatusCode code) {
  return code == StatusCode::kFailedPrecondition ||
         code == StatusCode::kUnimplemented || code == StatusCode::kDataLoss;
}

size_t CheckAll(std::span<const MalformedCase> cases, std::string_view base,
                Result<ArrayMetadata> (*parse)(std::string_view)) {
  size_t checked = 0;
  for (const MalformedCase& test_case : cases) {
    SCOPED_TRACE(test_case.name);
    const auto parsed = parse(MetadataText(base, test_case));
    if (test_case.accepted) {
      EXPECT_TRUE(parsed.ok()) << parsed.status().ToString();
      ++checked;
    }
    if (RefusedByMetadata(test_case)) {
      EXPECT_TRUE(IsRefusal(parsed.status().code()))
          << parsed.status().ToString();
      EXPECT_THAT(std::string(parsed.status().message()),
                  HasSubstr(std::string(test_case.expected)));
      ++checked;
    }
  }
  return checked;
}

TEST(MalformedTest, V2) {
  EXPECT_GE(CheckAll(kMalformedV2, kMalformedBaseV2, ParseV2), 70u);
}

TEST(MalformedTest, V3) {
  EXPECT_GE(CheckAll(kMalformedV3, kMalformedBaseV3, ParseV3), 120u);
}

}  // namespace
}  // namespace holdfast::zarr
