#include "engine/format/fingerprints_file.h"

#include <gtest/gtest.h>

namespace holdfast {
namespace {

constexpr std::string_view kSample =
    R"({"holdfast_fingerprints":1,"algorithm":"x",)"
    R"("tensors":{"a.\"b\"":"0123456789abcdef0123456789abcdef",)"
    R"("c":"00000000000000000000000000000000"}})";

TEST(FingerprintsFile, ComesBackAsWritten) {
  FingerprintsFile file;
  file.algorithm = "x";
  file.tensors["a.\"b\""] = "0123456789abcdef0123456789abcdef";
  file.tensors["c"] = std::string(32, '0');
  EXPECT_EQ(SerializeFingerprintsFile(file), kSample);
  const auto parsed = ParseFingerprintsFile(kSample);
  ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
  EXPECT_EQ(parsed->algorithm, "x");
  EXPECT_EQ(parsed->tensors, file.tensors);
}

TEST(FingerprintsFile, RefusesWhatIsNone) {
  const auto code_of = [](std::string_view text) {
    return ParseFingerprintsFile(text).status().code();
  };
  EXPECT_EQ(code_of("{}"), StatusCode::kDataLoss);
  EXPECT_EQ(code_of(R"({"holdfast_fingerprints":2})"),
            StatusCode::kUnimplemented);
  EXPECT_EQ(code_of(R"({"holdfast_fingerprints":1,"tensors":{"a":"12"}})"),
            StatusCode::kDataLoss);
  const std::string twice = R"("a":"00000000000000000000000000000000")";
  EXPECT_EQ(code_of(R"({"holdfast_fingerprints":1,"tensors":{)" + twice + "," +
                    twice + "}}"),
            StatusCode::kDataLoss);
  for (size_t i = 0; i < kSample.size(); ++i) {
    EXPECT_EQ(code_of(kSample.substr(0, i)), StatusCode::kDataLoss) << i;
  }
}

}  // namespace
}  // namespace holdfast
