#include "orbax/handlers/handler_test_util.h"

namespace holdfast {
namespace {

TEST(StringHandler, AddsMembersToOneFile) {
  const ScratchDirectory scratch;
  StringHandler handler;
  const ParamInfo a = InfoOf(scratch.path(), "a");
  const ParamInfo b = InfoOf(scratch.path(), "b.c");
  Write(handler, {Tree("one"), Tree("zwei\n\"ü\"")}, {a, b});
  Write(handler, {Tree("1")}, {a});
  EXPECT_EQ(Read(handler, {b, a}),
            (std::vector<Tree>{Tree("zwei\n\"ü\""), Tree("1")}));
  EXPECT_EQ(ReadTestFile(scratch / "_strings.json"),
            "{\"a\":\"1\",\"b.c\":\"zwei\\n\\\"ü\\\"\"}");
  const auto metadata = handler.Metadata(std::vector{a});
  EXPECT_EQ(std::get<StringMetadata>(metadata->front()).name, "a");
  EXPECT_EQ(handler.typestr(), "string");
}

TEST(StringHandler, TheFileMayHaveAnotherName) {
  const ScratchDirectory scratch;
  StringHandler handler("texts.json");
  const ParamInfo info = InfoOf(scratch.path(), "a");
  Write(handler, {Tree("one")}, {info});
  EXPECT_EQ(ReadTestFile(scratch / "texts.json"), R"({"a":"one"})");
  StringHandler other;
  EXPECT_EQ(other.Deserialize(std::vector{info}, {}).status().code(),
            StatusCode::kNotFound);
}

TEST(StringHandler, NamesWhatIsWrong) {
  const ScratchDirectory scratch;
  StringHandler handler;
  const ParamInfo info = InfoOf(scratch.path(), "a");
  EXPECT_EQ(SerializeNow(handler, {Tree(1)}, {info}).message(),
            "param a: a leaf of type \"int\" is not a string");
  EXPECT_EQ(SerializeNow(handler, {Tree("s")}, {ParamInfo()}).message(),
            "Must provide info.parent_dir.");
  Write(handler, {Tree("one")}, {info});
  EXPECT_EQ(handler.Deserialize(std::vector{InfoOf(scratch.path(), "b")}, {})
                .status()
                .message(),
            "Error reading local file \"" + scratch / "_strings.json" +
                "\": JSON Pointer \"/b\" refers to non-existent object member");
  WriteTestFile(scratch / "_strings.json", "[");
  EXPECT_EQ(handler.Deserialize(std::vector{info}, {}).status().code(),
            StatusCode::kDataLoss);
  EXPECT_EQ(SerializeNow(handler, {Tree("one")}, {info}).code(),
            StatusCode::kDataLoss);
}

}  // namespace
}  // namespace holdfast
