// Fingerprints from end to end. A save stores the fingerprints of the stored
// elements, however the ranks share them; a load compares them with memory.
#include "holdfast/tools/fingerprint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "checkpoint/forged_fingerprint.h"
#include "checkpoint/test_trees.h"
#include "engine/format/fingerprints_file.h"
#include "foreign/sidecar/tree_sidecar.h"
#include "ground/tensor/box.h"
#include "ground/tensor/copy.h"
#include "holdfast/delta.h"
#include "holdfast/tools/convert.h"
#include "holdfast/tools/merge.h"
#include "tools/recipe/recipe_checkpoint.h"
#include "twins/host_reader.h"
#include "twins/scratch_directory.h"

namespace holdfast {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

std::unique_ptr<Checkpoint> OpenWithFingerprints(const std::string& path) {
  OpenOptions options;
  options.fingerprints = true;
  auto opened = Open(path, options);
  EXPECT_TRUE(opened.ok()) << opened.status().ToString();
  return opened.ok() ? *std::move(opened) : nullptr;
}

// Returns the stored fingerprint of every array, by name.
std::map<std::string, std::string> FingerprintsIn(const std::string& path) {
  std::map<std::string, std::string> fingerprints;
  const auto opened = OpenWithFingerprints(path);
  for (const LeafInfo& leaf : opened->leaves()) {
    if (leaf.dtype) fingerprints[leaf.name] = leaf.fingerprint;
  }
  return fingerprints;
}

// Reads every array and returns the fingerprints of the elements, by name.
std::map<std::string, std::string> FingerprintsOfElements(
    const std::string& path) {
  std::map<std::string, std::string> fingerprints;
  const auto opened = Open(path);
  for (const LeafInfo& leaf : (*opened)->leaves()) {
    if (!leaf.dtype) continue;
    const auto array = (*opened)->Read(leaf.name);
    EXPECT_TRUE(array.ok()) << array.status().ToString();
    fingerprints[leaf.name] = *FingerprintOf(array->view());
  }
  return fingerprints;
}

uint64_t CheckedCount(const std::string& path) {
  LoadOptions options;
  options.open.fingerprints = true;
  const auto loaded = Load(path, options);
  EXPECT_TRUE(loaded.ok()) << loaded.status().ToString();
  return loaded.ok() ? loaded->stats.fingerprint_count : 0;
}

SaveOptions WithFingerprints() {
  SaveOptions options;
  options.fingerprints = true;
  options.overwrite = true;
  options.sync = false;
  return options;
}

class Fingerprints : public testing::Test {
 protected:
  void SaveTree(const Tree& tree, const SaveOptions& options) {
    const auto saved = Save(path_, tree, options);
    ASSERT_TRUE(saved.ok()) << saved.status().ToString();
  }

  const ScratchDirectory scratch_;
  const std::string path_ = scratch_ / "checkpoint";
};

TEST_F(Fingerprints, AreThoseOfTheElementsInEveryLayout) {
  const Tree tree = AllKindsTree();
  std::map<std::string, std::string> first;
  for (const int zarr_format : {2, 3}) {
    for (const bool use_ocdbt : {true, false}) {
      for (const uint64_t chunk_bytes : {uint64_t{0}, uint64_t{500}}) {
        SaveOptions options = WithFingerprints();
        options.zarr_format = zarr_format;
        options.use_ocdbt = use_ocdbt;
        options.chunk_bytes = chunk_bytes;
        SaveTree(tree, options);
        const auto found = FingerprintsIn(path_);
        EXPECT_EQ(found, FingerprintsOfElements(path_));
        if (first.empty()) first = found;
        EXPECT_EQ(found, first);
        EXPECT_EQ(CheckedCount(path_), found.size());
        EXPECT_TRUE(Verify(path_)->damages.empty());
      }
    }
  }
  EXPECT_EQ(first.size(), 31u);
}

TEST_F(Fingerprints, OfCastsAndOfWhatGoesInPieces) {
  const Array whole = RandomArray(DType::kFloat32, {700, 1000}, 1);
  const auto reader = std::make_shared<HostReader>(whole);
  const Array columns = RandomArray(DType::kInt4, {1000, 3000}, 2);
  ConstArrayView turned = columns.view();
  std::swap(turned.shape[0], turned.shape[1]);
  std::swap(turned.strides[0], turned.strides[1]);
  const Tree tree = Tree::Dict(
      {{"cast", Tree(whole)},
       {"deferred", Tree::DeferredArray(DType::kFloat32, {700, 1000}, reader)},
       {"turned", Tree(Array::Borrow(turned, nullptr))},
       {"w", Tree(whole)}});
  for (const uint64_t budget : {uint64_t{1} << 28, uint64_t{1} << 19}) {
    for (const Compression compression :
         {Compression::kNone, Compression::kZstd, Compression::kPlanes}) {
      SaveOptions options = WithFingerprints();
      options.save_args["cast"].dtype = DType::kBfloat16;
      options.run.memory_bytes = budget;
      options.chunk_bytes = 0;  // larger than the budget
      options.compression = compression;
      SaveTree(tree, options);
      const auto found = FingerprintsIn(path_);
      EXPECT_EQ(found, FingerprintsOfElements(path_));
      EXPECT_EQ(found.at("w"), *FingerprintOf(whole.view()));
      EXPECT_EQ(found.at("deferred"), found.at("w"));
      EXPECT_EQ(found.at("turned"), *FingerprintOf(turned));
    }
  }
}

// Returns the tree of one of two ranks: half of the rows of "w", and the same
// deferred array and step on both.
Tree PartOfRank(int64_t rank, const Array& w) {
  const int64_t rows = w.shape()[0] / 2;
  Array half = *Array::Allocate(w.dtype(), {rows, w.shape()[1]});
  CopyStrided(Subview(w.view(), {{rank * rows, 0}, half.shape()}),
              half.mutable_view());
  auto traits = std::make_shared<ArrayTraits>();
  traits->write_shape = {rows, w.shape()[1]};
  return Tree::Dict(
      {{"deferred", Tree::DeferredArray(w.dtype(), w.shape(),
                                        std::make_shared<HostReader>(w))},
       {"step", Tree(7)},
       {"w",
        Tree::ShardedArray(w.shape(), {{{rank * rows, 0}, half}}, traits)}});
}

std::vector<Status> SaveOfTwo(const std::string& path, const Array& w,
                              const std::vector<SaveOptions>& options) {
  const auto transports = MakeThreadTransports(2);
  std::vector<Status> statuses(2);
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      const auto group = MakeProcessGroup(transports[rank]);
      SaveOptions mine = options[rank];
      mine.group = group.get();
      statuses[rank] = Save(path, PartOfRank(rank, w), mine).status();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return statuses;
}

TEST_F(Fingerprints, OfPartsAddUp) {
  const Array w = RandomArray(DType::kFloat32, {64, 100}, 3);
  for (const bool use_ocdbt : {true, false}) {
    SaveOptions options = WithFingerprints();
    options.use_ocdbt = use_ocdbt;
    options.chunk_bytes = 3000;
    for (const Status& status : SaveOfTwo(path_, w, {options, options})) {
      ASSERT_TRUE(status.ok()) << status.ToString();
    }
    const auto found = FingerprintsIn(path_);
    EXPECT_EQ(found, FingerprintsOfElements(path_));
    EXPECT_EQ(found.at("w"), *FingerprintOf(w.view()));
    EXPECT_EQ(found.at("deferred"), found.at("w"));
    EXPECT_EQ(CheckedCount(path_), 3u);
  }
}

TEST_F(Fingerprints, RanksThatDisagreeAreNamed) {
  const Array w = RandomArray(DType::kFloat32, {64, 100}, 3);
  SaveOptions without = WithFingerprints();
  without.fingerprints = false;
  for (const Status& status :
       SaveOfTwo(path_, w, {WithFingerprints(), without})) {
    EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
    EXPECT_THAT(
        status.message(),
        HasSubstr("rank 1 saved without fingerprints, and rank 0 with"));
  }
  EXPECT_FALSE(fs::exists(path_));
}

TEST_F(Fingerprints, ALoadFindsElementsThatAreNotThoseSaved) {
  const Array w = RandomArray(DType::kFloat32, {64, 100}, 3);
  SaveTree(Tree::Dict({{"w", Tree(w)}}), WithFingerprints());
  ForgeFingerprint(path_);
  EXPECT_TRUE(Load(path_).ok());
  LoadOptions options;
  options.open.fingerprints = true;
  const Status status = Load(path_, options).status();
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_EQ(status.message(),
            "tensor w: fingerprint got " + *FingerprintOf(w.view()) +
                ", want 00000000000000000000000000000000: the elements in "
                "memory are not those that were saved");
}

TEST_F(Fingerprints, WholeTensorsAreCheckedAndPartsAndCastsAreNot) {
  const Array w = RandomArray(DType::kFloat32, {64, 100}, 3);
  SaveTree(Tree::Dict({{"w", Tree(w)}}), WithFingerprints());
  ForgeFingerprint(path_);
  const auto opened = OpenWithFingerprints(path_);
  Array target = *Array::Allocate(DType::kFloat32, {64, 100});
  Array half = *Array::Allocate(DType::kFloat16, {64, 100});
  const auto request = [&](int64_t column, int64_t width) {
    return ReadRequest{
        0,
        {0, column},
        Subview(target.mutable_view(), {{0, column}, {64, width}})};
  };
  EXPECT_TRUE(opened->ReadInto({request(0, 99)}).ok());
  EXPECT_TRUE(opened->ReadInto({request(0, 60), request(40, 60)}).ok());
  EXPECT_TRUE(opened->ReadInto({{0, {0, 0}, half.mutable_view()}}).ok());
  EXPECT_EQ(opened->ReadInto({request(0, 60), request(60, 40)}).status().code(),
            StatusCode::kDataLoss);
  EXPECT_EQ(opened->Read("w").status().code(), StatusCode::kDataLoss);
}

TEST_F(Fingerprints, AreThereOnlyWhereTheyWereAskedFor) {
  const Tree tree = Tree::Dict({{"w", Tree(7)}});
  SaveOptions options = WithFingerprints();
  SaveTree(tree, options);
  EXPECT_EQ((*Open(path_))->leaves()[0].fingerprint, "");
  fs::remove(path_ + "/" + std::string(kFingerprintsFile));
  OpenOptions open;
  open.fingerprints = true;
  EXPECT_EQ(Open(path_, open).status().code(), StatusCode::kDataLoss);
  options.fingerprints = false;
  SaveTree(tree, options);
  EXPECT_EQ(CheckedCount(path_), 0u);
  options.fingerprints = true;
  options.write_digests = false;
  const Status status = Save(path_, tree, options).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("fingerprints need write_digests"));
}

// Returns the names of the leaves that have a fingerprint, and checks that each
// fingerprint matches the elements that are read.
std::vector<std::string> NamesWithFingerprints(const Checkpoint& seen) {
  std::vector<std::string> names;
  for (const LeafInfo& leaf : seen.leaves()) {
    if (leaf.fingerprint.empty()) continue;
    names.push_back(leaf.name);
    const auto array = seen.Read(leaf.name);
    EXPECT_TRUE(array.ok()) << array.status().ToString();
    if (array.ok()) {
      EXPECT_EQ(leaf.fingerprint, *FingerprintOf(array->view())) << leaf.name;
    }
  }
  return names;
}

TEST_F(Fingerprints, OfWhatARecipeChangesThereAreNone) {
  const Array w = RandomArray(DType::kInt8, {4, 6}, 3);
  SaveTree(Tree::Dict({{"cast", Tree(w)},
                       {"moved", Tree(w)},
                       {"scale", Tree(RandomArray(DType::kFloat32, {1, 1}, 4))},
                       {"scaled", Tree(w)},
                       {"turned", Tree(w)}}),
           WithFingerprints());
  const auto recipe = Recipe::Parse(R"({"recipe": 1, "rest": "keep", "rules": [
      {"from": "moved", "to": "other.name"},
      {"from": "cast", "to": "c", "cast": "int16"},
      {"from": "scaled", "to": "s", "cast": "int8",
       "dequantize": {"scale": "scale", "block": [4, 6]}},
      {"from": "turned", "to": "t", "axes": "a b -> b a"}]})");
  ASSERT_TRUE(recipe.ok()) << recipe.status().ToString();
  const auto seen = WithRecipe(OpenWithFingerprints(path_), *recipe, {});
  ASSERT_TRUE(seen.ok()) << seen.status().ToString();
  EXPECT_EQ((*seen)->leaves().size(), 4u);
  EXPECT_EQ(NamesWithFingerprints(**seen),
            std::vector<std::string>{"other.name"});
}

TEST_F(Fingerprints, OfOtherDtypesInASidecarThereAreNone) {
  SaveTree(Tree::Dict({{"bits", Tree(RandomArray(DType::kUint16, {6}, 3))},
                       {"pairs", Tree(RandomArray(DType::kFloat32, {3, 2}, 3))},
                       {"same", Tree(RandomArray(DType::kInt8, {6}, 4))},
                       {"text", Tree(RandomArray(DType::kUint8, {6}, 4))}}),
           WithFingerprints());
  TreeSidecar sidecar;
  const auto add = [&](std::string name, ValueKind kind,
                       std::optional<DType> dtype, Shape shape) {
    SidecarLeaf& leaf = sidecar.leaves.emplace_back();
    leaf.key = {"as", name};
    leaf.kind = kind;
    leaf.dtype = dtype;
    leaf.shape = std::move(shape);
    leaf.stored = std::move(name);
  };
  add("bits", ValueKind::kArray, DType::kBfloat16, {6});
  add("pairs", ValueKind::kArray, DType::kComplex64, {3});
  add("same", ValueKind::kArray, DType::kInt8, {6});
  add("text", ValueKind::kBytes, std::nullopt, {});
  const auto seen = WithSidecar(OpenWithFingerprints(path_), sidecar);
  ASSERT_TRUE(seen.ok()) << seen.status().ToString();
  EXPECT_EQ(NamesWithFingerprints(**seen), std::vector<std::string>{"as.same"});
}

TEST_F(Fingerprints, OfAveragesThereAreNone) {
  const std::string other = scratch_ / "other";
  const Array w = RandomArray(DType::kBfloat16, {6}, 3);
  SaveTree(Tree::Dict({{"step", Tree(7)}, {"w", Tree(w)}}), WithFingerprints());
  ASSERT_TRUE(Save(other, Tree::Dict({{"step", Tree(7)}, {"w", Tree(w)}}),
                   WithFingerprints())
                  .ok());
  for (const bool average : {false, true}) {
    MergeOptions options;
    options.average = average;
    std::vector<MergePart> parts = {
        {OpenWithFingerprints(path_), average ? "" : "a", ""},
        {OpenWithFingerprints(other), average ? "" : "b", ""}};
    const auto merged = MergeCheckpoints(std::move(parts), options);
    ASSERT_TRUE(merged.ok()) << merged.status().ToString();
    const std::vector<std::string> all = {"a.step", "a.w", "b.step", "b.w"};
    EXPECT_EQ(NamesWithFingerprints(**merged),
              average ? std::vector<std::string>{"step"} : all);
  }
}

// A fingerprints file that the list of checksums does not name is ignored.
TEST_F(Fingerprints, OfAFileThatNoListHasCountForNothing) {
  SaveTree(Tree::Dict({{"w", Tree(7)}}), WithFingerprints());
  fs::remove(path_ + "/_HOLDFAST_DIGESTS");
  OpenOptions open;
  open.fingerprints = true;
  for (const bool verify : {true, false}) {
    open.verify = verify;
    const auto opened = Open(path_, open);
    ASSERT_TRUE(opened.ok()) << opened.status().ToString();
    EXPECT_EQ((*opened)->leaves()[0].fingerprint, "");
  }
}

TEST_F(Fingerprints, OfDeltasAndWhatIsMadeOfThemThereAreNone) {
  const Array w = RandomArray(DType::kBfloat16, {60}, 3);
  SaveTree(Tree::Dict({{"w", Tree(w)}}), WithFingerprints());
  const std::string delta = scratch_ / "delta", whole = scratch_ / "whole";
  const Tree later =
      Tree::Dict({{"w", Tree(RandomArray(DType::kBfloat16, {60}, 4))}});
  const auto refused = SaveDelta(delta, later, path_, WithFingerprints());
  EXPECT_EQ(refused.status().code(), StatusCode::kInvalidArgument);
  ASSERT_TRUE(SaveDelta(delta, later, path_).ok());
  EXPECT_FALSE(fs::exists(delta + "/" + std::string(kFingerprintsFile)));
  ASSERT_TRUE(Convert(delta, whole).ok());
  for (const std::string& path : {delta, whole}) {
    EXPECT_EQ(FingerprintsIn(path).at("w"), "");
    EXPECT_EQ(CheckedCount(path), 0u);
  }
}

}  // namespace
}  // namespace holdfast
