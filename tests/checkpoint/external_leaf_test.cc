// Leaves that a user's TypeHandler stores: External leaves, and the files that
// SaveOptions::adopt_existing adopts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "checkpoint/test_trees.h"
#include "formats/ocdbt/append.h"
#include "formats/ocdbt/ocdbt_store.h"
#include "stores/storage/file_store.h"
#include "twins/scratch_directory.h"

namespace holdfast {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

namespace fs = std::filesystem;

SaveOptions Fast(bool use_ocdbt = true) {
  SaveOptions options;
  options.run.threads = 2;
  options.use_ocdbt = use_ocdbt;
  return options;
}

Tree OwnTree() {
  return Tree::Dict(
      {{"blob", Tree::External("acme.Blob")},
       {"name", "text"},
       {"w", Tree::JaxArray(RandomArray(DType::kFloat32, {64, 64}, 7))}});
}

struct Foo {};

TEST(ExternalLeaf, IsAnEntryOfTheTreeMetadata) {
  const ScratchDirectory scratch;
  const std::string path = scratch / "c";
  ASSERT_TRUE(Save(path, OwnTree(), Fast()).ok());
  EXPECT_THAT(ReadTestFile(path + "/_METADATA"),
              HasSubstr(R"("value_metadata": {"value_type": "acme.Blob", )"
                        R"("skip_deserialize": false}})"));
  const auto checkpoint = Open(path);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().ToString();
  const LeafInfo& leaf = (*checkpoint)->leaves()[0];
  EXPECT_EQ(leaf.name, "blob");
  EXPECT_EQ(leaf.value_type, "acme.Blob");
  EXPECT_FALSE(leaf.skip_deserialize);
  EXPECT_EQ(leaf.problem.ToString(),
            FailedPreconditionError("leaf blob: a TypeHandler for typestr "
                                    "\"acme.Blob\" is needed to read it")
                .ToString());
}

TEST(ExternalLeaf, FailsALoadThatWantsItAndNoOther) {
  const ScratchDirectory scratch;
  const std::string path = scratch / "c";
  ASSERT_TRUE(Save(path, OwnTree(), Fast()).ok());
  EXPECT_EQ(Load(path).status().ToString(),
            FailedPreconditionError("leaf blob: a TypeHandler for typestr "
                                    "\"acme.Blob\" is needed to read it")
                .ToString());
  LoadOptions options;
  options.names = {"name", "w"};
  const auto loaded = Load(path, options);
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  EXPECT_EQ(*loaded->tree.Find("w"), *OwnTree().Find("w"));
}

TEST(ExternalLeaf, IsNoDamage) {
  const ScratchDirectory scratch;
  const std::string path = scratch / "c";
  ASSERT_TRUE(Save(path, OwnTree(), Fast()).ok());
  const auto report = Verify(path);
  ASSERT_TRUE(report.ok());
  EXPECT_THAT(report->damages, IsEmpty());
  EXPECT_THAT(report->notes,
              ElementsAre("leaf blob: a TypeHandler for typestr \"acme.Blob\" "
                          "stored it; only the digests of its files can be "
                          "checked"));
}

TEST(ExternalLeaf, IsReadableWhereItsNameHoldsAnArray) {
  const ScratchDirectory scratch;
  const std::string path = scratch / "c";
  const Array array = RandomArray(DType::kInt16, {4000}, 1);
  SaveOptions options = Fast();
  options.compression = Compression::kNone;  // only a digest can show damage
  ASSERT_TRUE(SaveItem(path, Tree::Dict({{"blob", array}}), options).ok());
  options.adopt_existing = true;
  const auto saved = SaveItem(path, OwnTree(), options);
  ASSERT_TRUE(saved.ok()) << saved.status().ToString();
  const auto loaded = Load(path);
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  EXPECT_EQ(*loaded->tree.Find("blob"), Tree(array));
  EXPECT_EQ(*loaded->tree.Find("w"), *OwnTree().Find("w"));
  const auto report = Verify(path);
  EXPECT_THAT(report->damages, IsEmpty());
  EXPECT_EQ(report->checksummed_chunk_count, report->chunk_count);
}

TEST(ExternalLeaf, MustHaveATypestrOfAHandler) {
  const ScratchDirectory scratch;
  for (const char* value_type : {"", "None", "Dict"}) {
    EXPECT_EQ(Save(scratch / "c",
                   Tree::Dict({{"a", Tree::External(value_type)}}), Fast())
                  .status()
                  .code(),
              StatusCode::kInvalidArgument);
  }
}

TEST(ObjectLeaf, NeedsATypeHandler) {
  const ScratchDirectory scratch;
  const Status status =
      Save(scratch / "c",
           Tree::Dict({{"a", Tree::List({Tree::Object(Foo())})}}), Fast())
          .status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(),
              testing::StartsWith("TypeHandler lookup failed for: type="
                                  "holdfast::(anonymous namespace)::Foo, "
                                  "keypath=('a', '0'), "));
  EXPECT_FALSE(fs::exists(scratch / "c"));
}

// Writes what a user's handler writes before the item: a file, and a database
// with two keys. One key's value is too long to be stored inline.
void WriteBlob(const std::string& directory, const std::string& process) {
  WriteTestFile(directory + "/blob.bin", "own bytes");
  FileStore store(directory);
  const std::string large(3000, 'l');
  const ocdbt::AppendEntry entries[] = {ocdbt::BorrowEntry("blob/extra", large),
                                        ocdbt::BorrowEntry("blob/head", "h")};
  ocdbt::BulkWriteOptions options;
  ASSERT_TRUE(
      ocdbt::AppendEntries(&store, process + "/", entries, options).ok());
}

class AdoptTest : public testing::TestWithParam<std::string> {};

TEST_P(AdoptTest, DatabasesAndFilesBecomePartOfTheItem) {
  const ScratchDirectory scratch;
  const std::string path = scratch / "c";
  WriteBlob(path, GetParam());
  SaveOptions options = Fast();
  options.adopt_existing = true;
  const auto saved = SaveItem(path, OwnTree(), options);
  ASSERT_TRUE(saved.ok()) << saved.status().ToString();

  FileStore store(path);
  const auto root = ocdbt::Database::Open(&store, "");
  ASSERT_TRUE(root.ok()) << root.status().ToString();
  ocdbt::OcdbtStore keys(std::move(*ocdbt::Database::Open(&store, "")));
  EXPECT_EQ(keys.Read("blob/extra")->view(), std::string(3000, 'l'));
  EXPECT_EQ(keys.Read("blob/head")->view(), "h");
  EXPECT_TRUE(keys.Read("w/.zarray").ok());

  const auto report = Verify(path);
  ASSERT_TRUE(report.ok());
  EXPECT_THAT(report->damages, IsEmpty());
  WriteTestFile(path + "/blob.bin", "own Bytes");
  const auto damaged = Verify(path);
  ASSERT_EQ(damaged->damages.size(), 1u);
  EXPECT_EQ(damaged->damages[0].file, "blob.bin");
}

TEST_P(AdoptTest, WorksBelowAPendingSave) {
  const ScratchDirectory scratch;
  const std::string path = scratch / "c";
  auto pending = PendingSave::Begin(path, {});
  ASSERT_TRUE(pending.ok());
  for (const std::string name : {"", "/state"}) {
    WriteBlob((*pending)->directory() + name, GetParam());
  }
  SaveOptions options = Fast();
  options.adopt_existing = true;
  ASSERT_TRUE((*pending)->SaveItem("state", OwnTree(), options).ok());
  ASSERT_TRUE((*pending)->SaveItem("", OwnTree(), options).ok());
  ASSERT_TRUE((*pending)->Commit({}).ok());
  for (const std::string name : {"", "/state"}) {
    FileStore store(path + name);
    ocdbt::OcdbtStore keys(std::move(*ocdbt::Database::Open(&store, "")));
    EXPECT_EQ(keys.Read("blob/head")->view(), "h");
    const auto report = Verify(path + name);
    EXPECT_THAT(report->damages, IsEmpty());
  }
}

INSTANTIATE_TEST_SUITE_P(Process, AdoptTest,
                         testing::Values("ocdbt.process_0", "ocdbt.process_1",
                                         "ocdbt.process_replica_0"),
                         [](const auto& info) {
                           return info.param.substr(info.param.find('_') + 1);
                         });

TEST(Adopt, ADatabaseAloneIsMergedToo) {
  const ScratchDirectory scratch;
  const std::string path = scratch / "c";
  WriteBlob(path, "ocdbt.process_0");
  SaveOptions options = Fast();
  options.adopt_existing = true;
  const Tree tree = Tree::Dict({{"blob", Tree::External("acme.Blob")}});
  ASSERT_TRUE(SaveItem(path, tree, options).ok());
  FileStore store(path);
  ocdbt::OcdbtStore keys(std::move(*ocdbt::Database::Open(&store, "")));
  EXPECT_EQ(keys.Read("blob/head")->view(), "h");
  EXPECT_FALSE(fs::exists(path + "/ocdbt.process_holdfast0"));
}

TEST(Adopt, AKeyOfBothIsRefused) {
  const ScratchDirectory scratch;
  const std::string path = scratch / "c";
  WriteBlob(path, "ocdbt.process_0");
  SaveOptions options = Fast();
  ASSERT_TRUE(SaveItem(path, Tree::Dict({{"w", 1}}), options).ok());
  options.adopt_existing = true;
  const Status status = SaveItem(path, OwnTree(), options).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("Key \"w/"));
}

TEST(Adopt, SmallFilesKeepWhatTheyHad) {
  const ScratchDirectory scratch;
  const std::string path = scratch / "c";
  const Tree first = Tree::Dict(
      {{"blob",
        Tree::Dict({{"part", Tree::JaxArray(RandomArray(DType::kInt8, {3}, 5))},
                    {"text", "theirs"}})}});
  ASSERT_TRUE(SaveItem(path, first, Fast(false)).ok());
  SaveOptions options = Fast(false);
  options.adopt_existing = true;
  ASSERT_TRUE(SaveItem(path, OwnTree(), options).ok());
  EXPECT_EQ(ReadTestFile(path + "/_strings.json"),
            R"({"blob.text":"theirs","name":"text"})");
  EXPECT_THAT(ReadTestFile(path + "/_sharding"), HasSubstr("YmxvYi5wYXJ0"));
  EXPECT_THAT(ReadTestFile(path + "/array_metadatas/process_0"),
              HasSubstr("\"param_name\": \"blob.part\""));
  // The list of checksums has the handler's chunk, so reads of it are checked.
  const auto report = Verify(path);
  EXPECT_THAT(report->damages, IsEmpty());
  EXPECT_THAT(ReadTestFile(path + "/_HOLDFAST_DIGESTS"),
              HasSubstr("blob.part/0"));
}

}  // namespace
}  // namespace holdfast
