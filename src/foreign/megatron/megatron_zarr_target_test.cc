#include "foreign/megatron/megatron_zarr_target.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "foreign/megatron/open.h"
#include "foreign/sidecar/tree_sidecar.h"
#include "ground/tensor/copy.h"
#include "holdfast/tools/torch_file.h"
#include "twins/scratch_directory.h"

namespace holdfast {
namespace {

namespace fs = std::filesystem;

class MegatronTargetTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    corpus_ = new ScratchDirectory;
    const std::string command = "tar -xJf " HOLDFAST_SOURCE_DIR
                                "/tests/golden/megatron/open.tar.xz -C " +
                                corpus_->path();
    ASSERT_EQ(std::system(command.c_str()), 0);
  }
  static void TearDownTestSuite() { delete corpus_; }

  static inline ScratchDirectory* corpus_ = nullptr;
};

std::string MegatronBytes(const Array& array) {
  std::string bytes(array.byte_count(), '\0');
  const ArrayView packed = {
      array.dtype(), bytes.data(), array.shape(),
      ContiguousStrides(array.shape(), DTypeBytes(array.dtype()))};
  CopyStrided(array.view(), packed);
  return bytes;
}

TargetLeaf MegatronLeafOf(const Checkpoint& source, size_t i) {
  const LeafInfo& info = source.leaves()[i];
  TargetLeaf leaf;
  leaf.source = i;
  leaf.name = info.name;
  leaf.key = info.key;
  leaf.key_kinds = info.key_kinds;
  leaf.kind = info.kind;
  if (info.dtype) leaf.dtype = *info.dtype;
  leaf.shape = info.shape;
  leaf.chunk_shape = info.chunk_shape;
  if (info.kind == ValueKind::kObject) leaf.text = *source.ReadText(i);
  return leaf;
}

// Writes the plan's arrays from `elements`, in pieces of a few bytes.
void WriteAll(FormatTarget& target, const TargetPlan& plan,
              const std::function<Array(size_t, const Box&)>& elements,
              const std::string& directory) {
  fs::create_directory(directory);
  ASSERT_TRUE(target.Begin(plan, directory, false).ok());
  for (size_t i = 0; i < plan.leaves.size(); ++i) {
    for (const Box& box : target.PiecesOf(i, 50)) {
      const Array piece = elements(i, box);
      const auto written = target.Write(i, box, MegatronBytes(piece));
      ASSERT_TRUE(written.ok()) << written.status().ToString();
    }
  }
  const Status finished = target.Finish();
  ASSERT_TRUE(finished.ok()) << finished.ToString();
}

TEST_F(MegatronTargetTest, WritesTheFilesThatMegatronWrote) {
  for (const auto& entry : fs::directory_iterator(*corpus_ / "open")) {
    const std::string name = entry.path().filename();
    const std::string ckpt = entry.path() / "ckpt";
    // The files of these checkpoints would differ: the target writes no codecs,
    // and no old object names.
    if (!fs::exists(ckpt) || name.find("torch_dist") != name.npos ||
        name == "w1_foreign" || name == "w2_legacy_v07") {
      continue;
    }
    SCOPED_TRACE(name);
    const auto source = megatron::OpenMegatronZarr(Place(ckpt));
    ASSERT_TRUE(source.ok()) << source.status().ToString();
    TargetPlan plan;
    plan.options.sync = false;
    for (size_t i = 0; i < (*source)->leaves().size(); ++i) {
      plan.leaves.push_back(MegatronLeafOf(**source, i));
    }
    ScratchDirectory scratch;
    const std::string written = scratch / "written";
    const auto target = MakeMegatronZarrTarget();
    WriteAll(
        *target, plan,
        [&](size_t i, const Box& box) {
          return *(*source)->ReadBox(i, box.origin, box.shape);
        },
        written);
    for (const auto& file : fs::recursive_directory_iterator(ckpt)) {
      const std::string path = fs::relative(file.path(), ckpt);
      if (!file.is_regular_file() || path.find(".sync/") != path.npos) continue;
      EXPECT_EQ(ReadTestFile(written + "/" + path), ReadTestFile(file.path()))
          << path;
    }
    EXPECT_FALSE(fs::exists(written + "/_HOLDFAST_TREE"));
    const auto report = megatron::VerifyMegatronZarr(Place(written));
    ASSERT_TRUE(report.ok());
    EXPECT_TRUE(report->report.damages.empty())
        << report->report.damages[0].leaf;
  }
}

// Megatron reports such metadata as a failed precondition. A leaf reports it as
// damage, because the failed precondition of a leaf means that its value needs
// a special reader.
TEST_F(MegatronTargetTest, BrokenMetadataOfAnArrayIsDamage) {
  ScratchDirectory scratch;
  const std::string ckpt = scratch / "ckpt";
  fs::copy(*corpus_ / "open/pair_zarr_w2/ckpt", ckpt,
           fs::copy_options::recursive);
  const auto sound = megatron::OpenMegatronZarr(Place(ckpt));
  ASSERT_TRUE(sound.ok()) << sound.status().ToString();
  std::ofstream(ckpt + "/embedding.word_embeddings.weight/.zarray") << "{";
  const auto opened = megatron::OpenMegatronZarr(Place(ckpt));
  ASSERT_TRUE(opened.ok()) << opened.status().ToString();
  ASSERT_EQ((*opened)->leaves().size(), (*sound)->leaves().size());
  for (const LeafInfo& leaf : (*opened)->leaves()) {
    EXPECT_EQ(leaf.problem.code(),
              leaf.name == "embedding.word_embeddings.weight"
                  ? StatusCode::kDataLoss
                  : StatusCode::kOk)
        << leaf.name;
  }
}

TargetLeaf MegatronLeaf(std::vector<std::string> key, ValueKind kind,
                        DType dtype, Shape shape, std::string text) {
  TargetLeaf leaf;
  for (const std::string& part : key) {
    leaf.name += (leaf.name.empty() ? "" : ".") + part;
  }
  leaf.key_kinds.assign(key.size(), KeyKind::kName);
  leaf.key = std::move(key);
  leaf.kind = kind;
  leaf.dtype = dtype;
  leaf.shape = std::move(shape);
  leaf.text = std::move(text);
  return leaf;
}

std::string SevenAsInt64() {
  const int64_t seven = 7;
  return {reinterpret_cast<const char*>(&seven), sizeof seven};
}

// The sidecar restores everything that the format cannot express.
TEST_F(MegatronTargetTest, KeepsWhatTheFormatCannotSay) {
  const std::string long_text(10000, 'x');
  TargetPlan plan;
  plan.options.chunk_bytes = 16;
  plan.options.sync = false;
  plan.leaves = {
      MegatronLeaf({"a", "w"}, ValueKind::kArray, DType::kUint16, {6, 5}, ""),
      MegatronLeaf({"a.w"}, ValueKind::kArray, DType::kFloat8E4m3fn, {3}, ""),
      MegatronLeaf({".."}, ValueKind::kArray, DType::kFloat32, {0, 4}, ""),
      MegatronLeaf({"b/c"}, ValueKind::kArray, DType::kBfloat16, {}, ""),
      MegatronLeaf({"step"}, ValueKind::kScalar, DType::kInt64, {},
                   SevenAsInt64()),
      MegatronLeaf({"s"}, ValueKind::kString, DType::kUint8, {}, "text"),
      MegatronLeaf({"long"}, ValueKind::kString, DType::kUint8, {}, long_text),
      MegatronLeaf({"n"}, ValueKind::kNone, DType::kUint8, {}, ""),
      MegatronLeaf({"e"}, ValueKind::kEmptyList, DType::kUint8, {}, ""),
  };
  const auto elements = [&](size_t i, const Box& box) {
    Array array = *Array::Allocate(plan.leaves[i].dtype, box.shape);
    char* data = array.mutable_view().data;
    for (size_t n = 0; n < array.byte_count(); ++n) {
      data[n] = static_cast<char>(box.origin.empty() ? 3 : box.origin[0] + 1);
    }
    return array;
  };
  ScratchDirectory scratch;
  const std::string written = scratch / "written";
  const auto target = MakeMegatronZarrTarget();
  WriteAll(*target, plan, elements, written);
  auto base = megatron::OpenMegatronZarr(Place(written));
  ASSERT_TRUE(base.ok()) << base.status().ToString();
  const auto sidecar = ParseSidecar(ReadTestFile(written + "/_HOLDFAST_TREE"));
  ASSERT_TRUE(sidecar.ok());
  const auto seen = WithSidecar(*std::move(base), *sidecar);
  ASSERT_TRUE(seen.ok()) << seen.status().ToString();
  ASSERT_EQ((*seen)->leaves().size(), plan.leaves.size());
  for (size_t i = 0; i < plan.leaves.size(); ++i) {
    const LeafInfo& got = (*seen)->leaves()[i];
    const TargetLeaf& want = plan.leaves[i];
    SCOPED_TRACE(want.name);
    EXPECT_EQ(got.key, want.key);
    EXPECT_EQ(got.kind, want.kind);
    if (want.kind == ValueKind::kArray) {
      EXPECT_EQ(got.dtype, want.dtype);
      EXPECT_EQ(got.shape, want.shape);
      EXPECT_TRUE((*seen)->Read(i).ok());
    } else if (want.kind == ValueKind::kString) {
      EXPECT_EQ(*(*seen)->ReadText(i), want.text);
    }
  }
  const auto row = (*seen)->ReadBox(0, {2, 0}, {1, 5});
  ASSERT_TRUE(row.ok()) << row.status().ToString();
  EXPECT_EQ(MegatronBytes(*row), std::string(10, '\3'));
  // Megatron's readers find the small values in the common state.
  const auto common = ReadTorchFile(ReadTestFile(written + "/common.pt"));
  ASSERT_TRUE(common.ok());
  EXPECT_EQ(PickleValueToJson(*common),
            R"({"e":[],"n":null,"s":"text","step":7})");
}

}  // namespace
}  // namespace holdfast
