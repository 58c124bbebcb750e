// Applies a recipe that parses to a small source, forwards and in reverse. The
// targets must be readable, and must be stored where their extents say.
//
// Input: the recipe and, after a zero byte, the text of a config.json.
#include <memory>

#include "engine/checkpoint/stored_extents.h"
#include "engine/restore/leaf_request.h"
#include "foreign/extents/extent_checkpoint.h"
#include "fuzz_util.h"
#include "stores/storage/memory_store.h"
#include "tools/recipe/recipe_checkpoint.h"

namespace {

using namespace holdfast;

ExtentLeaf ArrayLeaf(const std::string& name, const Shape& shape,
                     DType dtype = DType::kUint16) {
  ExtentLeaf leaf;
  leaf.info = NamedLeaf(name, ValueKind::kArray);
  leaf.info.dtype = dtype;
  leaf.info.shape = shape;
  leaf.extents.push_back({BoxOf(shape), "file", 0, {}});
  return leaf;
}

std::unique_ptr<Checkpoint> TinySource() {
  auto store = std::make_shared<MemoryStore>();
  FUZZ_CHECK_OK(store->Write("file", std::string(256, '\1')));
  std::vector<ExtentLeaf> leaves;
  for (const char* const name : {"w.0.q", "w.0.k", "w.1.q", "w.1.k"}) {
    leaves.push_back(ArrayLeaf(name, {4, 6}));
  }
  leaves.push_back(ArrayLeaf("embed", {12, 2, 1}));
  leaves.push_back(ArrayLeaf("s", {2, 3}, DType::kFloat32));
  leaves.push_back(ArrayLeaf("step", {}, DType::kInt64));
  leaves.push_back(ArrayLeaf("none", {0, 3}));
  ExtentLeaf& text = leaves.emplace_back();
  text.info = NamedLeaf("note", ValueKind::kString);
  text.text = "words";
  auto source = MakeExtentCheckpoint(OneItemInfo("/fuzz", "npz"), store,
                                     std::move(leaves));
  FUZZ_CHECK_OK(source);
  return std::move(source).value();
}

void CheckTargets(const Checkpoint& seen) {
  for (size_t i = 0; i < seen.leaves().size() && i < 64; ++i) {
    const LeafInfo& leaf = seen.leaves()[i];
    FUZZ_CHECK_OK(leaf.problem);
    if (!HasElements(leaf.kind)) {
      FUZZ_CHECK_OK(seen.ReadText(i));
      continue;
    }
    const auto array = seen.Read(i);
    FUZZ_CHECK_OK(array);
    FUZZ_CHECK(array->shape() == leaf.shape && array->dtype() == leaf.dtype);
    if (leaf.decoded_bytes == 0) continue;
    const auto extents = ExtentsOf(seen, i);
    FUZZ_CHECK_OK(extents);
    if (!extents->why_not.empty()) continue;
    std::vector<Box> boxes;
    for (const Extent& extent : extents->extents) boxes.push_back(extent.box);
    FUZZ_CHECK_OK(BoxIndex(boxes).CheckCover(leaf.shape));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text = FuzzText(data, size);
  const size_t end = text.find('\0');
  const auto recipe = Recipe::Parse(text.substr(0, end));
  if (!recipe.ok()) return 0;
  FUZZ_CHECK(recipe->text() == text.substr(0, end));
  RecipeOptions options;
  if (end != std::string_view::npos) options.config_json = text.substr(end + 1);
  for (const bool reverse : {false, true}) {
    options.reverse = reverse;
    const auto seen = WithRecipe(TinySource(), *recipe, options);
    if (seen.ok()) CheckTargets(**seen);
  }
  return 0;
}
