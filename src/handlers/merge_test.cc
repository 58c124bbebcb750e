#include <filesystem>

#include "handlers/handler_test_util.h"
#include "ocdbt/append.h"
#include "ocdbt/ocdbt_store.h"
#include "storage/file_store.h"

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
