#include "engine/format/array_metadatas.h"

#include <gtest/gtest.h>

#include "engine/format/golden_for_test.h"

namespace holdfast {
namespace {

TEST(ArrayMetadatas, IsWrittenAgainByteForByte) {
  for (const char* name : {"prng", "keys_odd"}) {
    const std::string text = FormatGolden(std::string(name) + "/process_0");
    const auto records = ParseArrayMetadatas(text);
    ASSERT_TRUE(records.ok()) << records.status().ToString();
    EXPECT_EQ(SerializeArrayMetadatas(*records), text);
  }
}

TEST(ArrayMetadatas, ReadsEveryField) {
  const auto records = ParseArrayMetadatas(FormatGolden("prng/process_0"));
  ASSERT_TRUE(records.ok());
  EXPECT_EQ((*records)[1].param_name, "grid");
  EXPECT_EQ((*records)[1].write_shape, (Shape{2, 3, 2}));
  EXPECT_EQ((*records)[1].chunk_shape, (Shape{2, 3, 2}));
  EXPECT_EQ((*records)[1].ext_metadata["random_key_impl"], "threefry2x32");
  EXPECT_TRUE((*records)[3].ext_metadata.is_null());
}

TEST(ArrayMetadatas, EmptyListIsFine) {
  const auto records = ParseArrayMetadatas(R"({"array_metadatas": []})");
  ASSERT_TRUE(records.ok());
  EXPECT_TRUE(records->empty());
}

TEST(ArrayMetadatas, RefusesDamage) {
  for (const char* text :
       {"", "[]", "{}", R"({"key": "text"})", R"({"array_metadatas": {}})",
        R"({"array_metadatas": [1]})", R"({"array_metadatas": [{}]})",
        R"({"array_metadatas": [{"array_metadata": {"param_name": "a"}}]})",
        R"({"array_metadatas": [{"array_metadata": {"param_name": "a",
            "write_shape": [-1], "chunk_shape": []}}]})",
        R"({"array_metadatas": [{"array_metadata": {"param_name": "a",
            "write_shape": [1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,
                            1,1,1,1,1,1,1,1], "chunk_shape": []}}]})"}) {
    EXPECT_EQ(ParseArrayMetadatas(text).status().code(), StatusCode::kDataLoss)
        << text;
  }
}

}  // namespace
}  // namespace holdfast
