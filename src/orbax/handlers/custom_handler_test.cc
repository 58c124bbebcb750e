// A handler as users write them: it stores a sparse matrix as three arrays.
#include "engine/checkpoint/opened_checkpoint.h"
#include "holdfast/holdfast.h"
#include "holdfast/orbax/orbax.h"
#include "orbax/handlers/handler_test_util.h"

namespace holdfast {
namespace {

struct SparseMatrix {
  Shape shape;
  Array coordinates;  // int64, one row per element
  Array values;
};

class SparseHandler : public TypeHandler {
 public:
  std::string typestr() const override { return "acme.SparseMatrix"; }

  Result<std::vector<ValueMetadata>> Metadata(
      std::span<const ParamInfo> infos) override {
    std::vector<ValueMetadata> metadatas;
    for (const ParamInfo& info : infos) {
      metadatas.push_back(
          CustomMetadata{info.name, info.parent_dir, typestr()});
    }
    return metadatas;
  }

  Result<std::vector<CommitFuture>> Serialize(
      std::span<const Tree* const> values, std::span<const ParamInfo> infos,
      std::span<const SaveArgs> /*args*/) override {
    std::vector<Tree> arrays;
    for (const Tree* value : values) {
      const auto& matrix = std::any_cast<const SparseMatrix&>(value->object());
      arrays.emplace_back(Array::FromBytes(
          DType::kInt64, {static_cast<int64_t>(matrix.shape.size())},
          matrix.shape.data()));
      arrays.emplace_back(matrix.coordinates);
      arrays.emplace_back(matrix.values);
    }
    return arrays_.Serialize(PointersTo(arrays), PartsOf(infos), {});
  }

  Result<std::vector<Tree>> Deserialize(
      std::span<const ParamInfo> infos,
      std::span<const AnyRestoreArgs> /*args*/) override {
    auto arrays = arrays_.Deserialize(PartsOf(infos), {});
    if (!arrays.ok()) return arrays.status();
    std::vector<Tree> values;
    for (size_t i = 0; i < arrays->size(); i += 3) {
      const Array& shape = (*arrays)[i].array();
      const auto* extents = reinterpret_cast<const int64_t*>(shape.view().data);
      values.push_back(Tree::Object(
          SparseMatrix{Shape(extents, extents + shape.element_count()),
                       (*arrays)[i + 1].array(), (*arrays)[i + 2].array()}));
    }
    return values;
  }

  Status Finalize(const std::string& directory) override {
    return arrays_.Finalize(directory);
  }

 private:
  static std::vector<ParamInfo> PartsOf(std::span<const ParamInfo> infos) {
    std::vector<ParamInfo> parts;
    for (const ParamInfo& info : infos) {
      for (const char* part : {".shape", ".coordinates", ".values"}) {
        parts.push_back(info);
        parts.back().name += part;
      }
    }
    return parts;
  }

  NumpyHandler arrays_;
};

SparseMatrix Example() {
  const int64_t coordinates[] = {0, 1, 5, 7};
  const float values[] = {1.5f, -2.0f};
  return {{6, 8},
          Array::FromBytes(DType::kInt64, {2, 2}, coordinates),
          Array::FromBytes(DType::kFloat32, {2}, values)};
}

TEST(CustomHandler, StoresAnObjectAsTwoArrays) {
  const ScratchDirectory scratch;
  const std::string path = scratch / "c";
  const auto registry = CreateTypeHandlerRegistry();
  const LeafType type = LeafType::Of<SparseMatrix>();
  ASSERT_TRUE(registry->Add(type, std::make_shared<SparseHandler>()).ok());
  const Tree leaf = Tree::Object(Example());
  const auto handler = registry->Get(LeafType::OfLeaf(leaf));
  ASSERT_TRUE(handler.ok());
  const std::vector<ParamInfo> infos = {InfoOf(path, "m")};
  ASSERT_TRUE(SerializeNow(**handler, {leaf}, infos).ok());

  SaveOptions options;
  options.adopt_existing = true;
  const Tree tree =
      Tree::Dict({{"m", Tree::External((*handler)->typestr())}, {"step", 7}});
  const auto saved = SaveItem(path, tree, options);
  ASSERT_TRUE(saved.ok()) << saved.status().ToString();

  const auto checkpoint = OpenCheckpoint(Place(path));
  ASSERT_TRUE(checkpoint.ok());
  const std::string typestr = (*checkpoint)->leaves()[0].value_type;
  const auto reader = registry->Get(typestr);
  ASSERT_TRUE(reader.ok());
  const std::vector<Tree> values = Read(**reader, infos);
  const auto& matrix = std::any_cast<const SparseMatrix&>(values[0].object());
  EXPECT_EQ(matrix.shape, (Shape{6, 8}));
  EXPECT_EQ(Tree(matrix.coordinates), Tree(Example().coordinates));
  EXPECT_EQ(Tree(matrix.values), Tree(Example().values));
  EXPECT_TRUE(VerifyCheckpoint(Place(path))->damages.empty());
}

TEST(CustomHandler, ItsDataIsCheckedByVerify) {
  const ScratchDirectory scratch;
  const std::string path = scratch / "c";
  SparseHandler handler;
  const std::vector<ParamInfo> infos = {InfoOf(path, "m", {false, false})};
  ASSERT_TRUE(SerializeNow(handler, {Tree::Object(Example())}, infos).ok());
  SaveOptions options;
  options.adopt_existing = true;
  options.use_ocdbt = false;
  const Tree tree = Tree::Dict({{"m", Tree::External(handler.typestr())}});
  ASSERT_TRUE(SaveItem(path, tree, options).ok());
  EXPECT_TRUE(VerifyCheckpoint(Place(path))->damages.empty());
  std::string text = ReadTestFile(path + "/m.values/.zarray");
  text[0] = ' ';
  WriteTestFile(path + "/m.values/.zarray", text);
  const auto report = VerifyCheckpoint(Place(path));
  ASSERT_EQ(report->damages.size(), 1u);
  EXPECT_EQ(report->damages[0].file, "m.values/.zarray");
}

}  // namespace
}  // namespace holdfast
