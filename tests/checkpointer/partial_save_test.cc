#include "holdfast/detail/partial_save.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "holdfast/checkpoint.h"
#include "twins/scratch_directory.h"

namespace holdfast {
namespace {

using testing::HasSubstr;

Tree SmallTree(const std::string& name, int64_t value) {
  return Tree::Dict({{name, Tree(value)}, {"e" + name, Tree::Dict()}});
}

Status AddPart(const std::string& session, const std::string& id,
               const Tree& tree) {
  SaveOptions options;
  options.format = Format::kOrbaxV1;
  options.fingerprints = true;  // parts do not keep them
  const std::string part = session + "/c.pending_1" + id + "_" + id;
  const auto saved = Save(part, tree, options);
  return saved.ok() ? PreparePartialSave(part) : saved.status();
}

TEST(PartialSave, MakesOneCheckpointOfAllParts) {
  const ScratchDirectory scratch;
  const std::string session = scratch / "c.partial_save";
  std::filesystem::create_directory(session);
  ASSERT_TRUE(AddPart(session, "a1", SmallTree("a", 1)).ok());
  ASSERT_TRUE(AddPart(session, "b2", SmallTree("b", 2)).ok());
  EXPECT_TRUE(CheckPartialSaveKeys(session, {{"c"}, {"n", "a"}}).ok());
  for (const std::vector<std::string>& key :
       std::vector<std::vector<std::string>>{{"a"}, {"b", "x"}, {}}) {
    EXPECT_THAT(CheckPartialSaveKeys(session, {key}).message(),
                HasSubstr("REPLACEMENT"));
  }
  ASSERT_TRUE(FinalizePartialSave(session, scratch / "c").ok());
  EXPECT_FALSE(std::filesystem::exists(session));
  const auto loaded = Load(scratch / "c");
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  EXPECT_EQ(loaded->tree.size(), 4u);
  EXPECT_FALSE(
      std::filesystem::exists(scratch / "c/state/_HOLDFAST_FINGERPRINTS"));
  EXPECT_TRUE(Verify(scratch / "c")->damages.empty());
}

TEST(PartialSave, RefusesALeafOfTwoParts) {
  const ScratchDirectory scratch;
  const std::string session = scratch / "c.partial_save";
  std::filesystem::create_directory(session);
  ASSERT_TRUE(AddPart(session, "a1", SmallTree("a", 1)).ok());
  ASSERT_TRUE(AddPart(session, "b2", SmallTree("a", 2)).ok());
  const Status status = FinalizePartialSave(session, scratch / "c");
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("Key \"('a',)\" was found"));
  EXPECT_FALSE(std::filesystem::exists(scratch / "c"));
  EXPECT_TRUE(std::filesystem::exists(session));
}

}  // namespace
}  // namespace holdfast
