#include "engine/format/part_file.h"

#include <gtest/gtest.h>

namespace holdfast {
namespace {

PartFile Sample() {
  PartFile part;
  part.rank = 3;
  part.save_id = "0123\"x";
  part.database = "ocdbt.process_3/";
  part.manifest_checksum = 0xFEDCBA98;
  part.plan.leaf_count = 12;
  part.plan.buckets[0] = 1;
  part.plan.buckets[255] = 0xFFFFFFFF;
  part.fingerprints = {{"w", std::string(32, 'a')}};
  part.digests.files.push_back({"array_metadatas/process_3", 10, 0xABCD});
  part.digests.values.push_back({"ocdbt.process_3/d/1", 5, 20, 7});
  return part;
}

TEST(PartFile, ComesBackAsWritten) {
  const PartFile part = Sample();
  const auto parsed = ParsePartFile(SerializePartFile(part));
  ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
  EXPECT_EQ(parsed->rank, 3);
  EXPECT_FALSE(parsed->is_primary);
  EXPECT_EQ(parsed->save_id, part.save_id);
  EXPECT_EQ(parsed->database, part.database);
  EXPECT_EQ(parsed->manifest_checksum, part.manifest_checksum);
  EXPECT_EQ(parsed->plan, part.plan);
  EXPECT_EQ(parsed->fingerprints, part.fingerprints);
  EXPECT_EQ(parsed->digests.files, part.digests.files);
  EXPECT_EQ(parsed->digests.values, part.digests.values);
}

TEST(PartFile, EveryChangedOrMissingByteIsNoticed) {
  const std::string text = SerializePartFile(Sample());
  for (size_t i = 0; i < text.size(); ++i) {
    std::string changed = text;
    changed[i] ^= 1;
    EXPECT_FALSE(ParsePartFile(changed).ok()) << i;
    EXPECT_FALSE(ParsePartFile(text.substr(0, i)).ok()) << i;
  }
}

TEST(PartFile, ManifestsDifferThoughTheyEndInTheirChecksum) {
  EXPECT_NE(ManifestChecksum("manifest a____"),
            ManifestChecksum("manifest b____"));
  EXPECT_EQ(ManifestChecksum("manifest aCRC1"),
            ManifestChecksum("manifest aCRC2"));
  EXPECT_EQ(ManifestChecksum("ab"), ManifestChecksum(""));
}

}  // namespace
}  // namespace holdfast
