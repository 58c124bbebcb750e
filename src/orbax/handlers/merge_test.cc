#include <filesystem>

#include "formats/ocdbt/append.h"
#include "formats/ocdbt/ocdbt_store.h"
#include "orbax/handlers/handler_test_util.h"
#include "stores/storage/file_store.h"

namespace holdfast {
namespace {

using testing::HasSubstr;

namespace fs = std::filesystem;

TEST(MergeOcdbtPerProcessFiles, JoinsAllProcesses) {
  const ScratchDirectory scratch;
  NumpyHandler zero, one({.ocdbt_process_id = "1"});
  const Tree a(RandomArray(DType::kInt8, {2000}, 1)), b(Int32s({1}, {1}));
  const ParamInfo info_a = InfoOf(scratch.path(), "a");
  const ParamInfo info_b = InfoOf(scratch.path(), "b");
  ASSERT_TRUE(SerializeNow(zero, {a}, {info_a}).ok());
  ASSERT_TRUE(SerializeNow(one, {b}, {info_b}).ok());
  ASSERT_TRUE(MergeOcdbtPerProcessFiles(scratch.path()).ok());
  EXPECT_EQ(Read(zero, {info_a, info_b}), (std::vector<Tree>{a, b}));
  ASSERT_TRUE(SerializeNow(zero, {b}, {info_b}).ok());
  EXPECT_THAT(MergeOcdbtPerProcessFiles(scratch.path()).message(),
              HasSubstr("\"ocdbt.process_0/\" and \"ocdbt.process_1/\""));
}

TEST(MergeOcdbtPerProcessFiles, DoesNothingTwice) {
  const ScratchDirectory scratch;
  EXPECT_TRUE(MergeOcdbtPerProcessFiles(scratch.path()).ok());
  EXPECT_FALSE(IsOcdbtCheckpoint(scratch.path()));
  NumpyHandler handler;
  Write(handler, {Tree(Int32s({1}, {1}))}, {InfoOf(scratch.path(), "a")});
  const std::string manifest = scratch / "manifest.ocdbt";
  const std::string before = ReadTestFile(manifest);
  ASSERT_TRUE(handler.Finalize(scratch.path()).ok());
  EXPECT_EQ(ReadTestFile(manifest), before);
}

TEST(MergeOcdbtPerProcessFiles, RefusesArraysThatLackAPart) {
  const ScratchDirectory scratch;
  FileStore store(scratch.path());
  const ocdbt::AppendEntry entries[] = {
      ocdbt::BorrowEntry("a/.zarray", "{}"), ocdbt::BorrowEntry("a/0.1", "x"),
      ocdbt::BorrowEntry("b/.zarray", "{}"), ocdbt::BorrowEntry("c.d/0", "x")};
  const auto append = [&](size_t first, size_t count) {
    return ocdbt::AppendEntries(&store, "ocdbt.process_0/",
                                std::span(entries).subspan(first, count), {})
        .ok();
  };
  ASSERT_TRUE(append(0, 2));
  const OcdbtMergeOptions validated{.enable_validation = true};
  ASSERT_TRUE(MergeOcdbtPerProcessFiles(scratch.path(), validated).ok());
  ASSERT_TRUE(append(2, 1));
  EXPECT_EQ(MergeOcdbtPerProcessFiles(scratch.path(), validated).message(),
            "Save failed: 1/2 params are missing in checkpoint:\nb.\n"
            "Tensorstore KvStore: " +
                scratch.path() + ".");
  EXPECT_TRUE(MergeOcdbtPerProcessFiles(scratch.path()).ok());
  const ScratchDirectory other;
  FileStore lacking(other.path());
  ASSERT_TRUE(ocdbt::AppendEntries(&lacking, "ocdbt.process_0/",
                                   std::span(entries).subspan(3), {})
                  .ok());
  EXPECT_THAT(MergeOcdbtPerProcessFiles(other.path(), validated).message(),
              HasSubstr("1/1 params are missing .zarray in checkpoint:\nc.d."));
}

TEST(MergeOcdbtPerProcessFiles, LosesNoKeyOfTheRoot) {
  const ScratchDirectory scratch;
  FileStore store(scratch.path());
  const ocdbt::AppendEntry entry = ocdbt::BorrowEntry("own", "value");
  ASSERT_TRUE(ocdbt::AppendEntries(&store, "", {&entry, 1}, {}).ok());
  NumpyHandler handler;
  ASSERT_TRUE(SerializeNow(handler, {Tree(Int32s({1}, {1}))},
                           {InfoOf(scratch.path(), "a")})
                  .ok());
  ASSERT_TRUE(handler.Finalize(scratch.path()).ok());
  ocdbt::OcdbtStore keys(*std::move(ocdbt::Database::Open(&store, "")));
  EXPECT_EQ(keys.Read("own")->view(), "value");
  EXPECT_TRUE(keys.Read("a/.zarray").ok());
}

}  // namespace
}  // namespace holdfast
