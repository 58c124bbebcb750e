#include "foreign/dcp/dcp.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <numeric>
#include <random>

#include "foreign/dcp/dcp_flat.h"
#include "foreign/dcp/dcp_metadata.h"
#include "foreign/dcp/dcp_target.h"
#include "foreign/sidecar/tree_sidecar.h"
#include "formats/pickle/torch_writer.h"
#include "ground/tensor/copy.h"
#include "holdfast/tools/torch_file.h"
#include "megatron_corpus.h"

namespace holdfast {
namespace {

using testing::HasSubstr;

// ---- files from real writers

class DcpGolden : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    expected_ = MegatronExpected(GetParam());
    auto opened =
        OpenDcp(Place(MegatronCorpusRoot() + "/" + GetParam() + "/ckpt"));
    ASSERT_TRUE(opened.ok()) << opened.status().ToString();
    checkpoint_ = *std::move(opened);
  }

  nlohmann::json expected_;
  std::unique_ptr<Checkpoint> checkpoint_;
};

TEST_P(DcpGolden, TensorsHaveTheRecordedValues) {
  EXPECT_EQ(checkpoint_->info().format, "torch-dist");
  size_t tensor_count = 0;
  for (const LeafInfo& leaf : checkpoint_->leaves()) {
    tensor_count += leaf.kind == ValueKind::kArray ? 1 : 0;
  }
  EXPECT_EQ(tensor_count, expected_["tensors"].size());
  for (const auto& [name, tensor] : expected_["tensors"].items()) {
    const auto leaf = checkpoint_->Find(name);
    ASSERT_TRUE(leaf.ok()) << name;
    const LeafInfo& info = checkpoint_->leaves()[*leaf];
    EXPECT_EQ(DTypeName(*info.dtype), tensor["dtype"].get<std::string>());
    EXPECT_EQ(info.shape, tensor["global_shape"].get<Shape>());
    EXPECT_EQ(info.key, std::vector{name});
    const auto digest = DigestLeaf(*checkpoint_, *leaf);
    ASSERT_TRUE(digest.ok()) << digest.status().ToString();
    EXPECT_EQ(*digest, tensor["sha256"].get<std::string>()) << name;
  }
}

TEST_P(DcpGolden, CommonStateAndObjectsHaveTheRecordedValues) {
  std::map<std::string, nlohmann::json> want;
  want[std::string(kCommonStateLeaf)] = MegatronCommonState(expected_);
  for (const auto& rank : expected_["save"]["ranks"]) {
    for (const auto& entry : rank) {
      if (entry["kind"] != "object") continue;
      const auto dotted = [](const nlohmann::json& numbers) {
        std::string text;
        for (const auto& number : numbers) {
          text += (text.empty() ? "" : ".") + number.dump();
        }
        return text;
      };
      want[entry["key"].get<std::string>() + "/shard_" +
           dotted(entry["global_offset"]) + "_" +
           dotted(entry["global_shape"])] = entry["data"];
    }
  }
  std::map<std::string, nlohmann::json> got;
  for (size_t i = 0; i < checkpoint_->leaves().size(); ++i) {
    const LeafInfo& info = checkpoint_->leaves()[i];
    if (info.kind != ValueKind::kObject) continue;
    const auto text = checkpoint_->ReadText(i);
    ASSERT_TRUE(text.ok()) << text.status().ToString();
    const auto value = ReadTorchFile(*text);
    ASSERT_TRUE(value.ok()) << value.status().ToString();
    got[info.name] = nlohmann::json::parse(PickleValueToJson(*value));
  }
  EXPECT_EQ(got, want);
}

INSTANTIATE_TEST_SUITE_P(Corpus, DcpGolden,
                         testing::Values("pair_torch_dist_w2",
                                         "pair_torch_dist_head_w2",
                                         "torch_dist_flat_w2"));

TEST(DcpGoldenTwins, HaveTheValuesOfTheZarrCheckpoint) {
  const nlohmann::json zarr = MegatronExpected("pair_zarr_w2")["tensors"];
  for (const char* twin : {"pair_torch_dist_w2", "pair_torch_dist_head_w2"}) {
    const auto opened = OpenDcp(
        Place(MegatronCorpusRoot() + "/" + twin + std::string("/ckpt")));
    ASSERT_TRUE(opened.ok());
    for (const auto& [name, tensor] : zarr.items()) {
      const auto leaf = (*opened)->Find(name);
      ASSERT_TRUE(leaf.ok()) << name;
      EXPECT_EQ(*DigestLeaf(**opened, *leaf),
                tensor["sha256"].get<std::string>());
    }
  }
}

// ---- flattened runs, compared with a walk over every element

TEST(ForEachBoxOfRun, CoversTheRunOnceInOrder) {
  for (const Shape& shape :
       {Shape{}, Shape{7}, Shape{3, 4}, Shape{2, 3, 4}, Shape{2, 1, 3, 2}}) {
    const int64_t count = ElementCount(shape);
    for (int64_t begin = 0; begin <= count; ++begin) {
      for (int64_t end = begin; end <= count; ++end) {
        std::vector<int64_t> seen;
        size_t box_count = 0;
        ForEachBoxOfRun(shape, begin, end, [&](const Box& box, int64_t first) {
          ++box_count;
          EXPECT_EQ(first, begin + static_cast<int64_t>(seen.size()));
          const Shape steps = ContiguousStrides(shape, 1);
          for (int64_t i = 0; i < ElementCount(box.shape); ++i) {
            int64_t rest = i;
            int64_t at = 0;
            for (size_t d = shape.size(); d-- > 0;) {
              at += (box.origin[d] + rest % box.shape[d]) * steps[d];
              rest /= box.shape[d];
            }
            seen.push_back(at);
          }
        });
        std::vector<int64_t> want(static_cast<size_t>(end - begin));
        std::iota(want.begin(), want.end(), begin);
        ASSERT_EQ(seen, want);
        ASSERT_LE(box_count, 2 * shape.size() + 1);
      }
    }
  }
}

// ---- our own files

struct DcpSource {
  TargetPlan plan;
  std::vector<std::string> elements;  // of arrays
};

TargetLeaf SmallLeaf(const std::string& name, ValueKind kind,
                     std::string text) {
  TargetLeaf leaf;
  leaf.name = name;
  leaf.key = {name};
  leaf.key_kinds = {KeyKind::kName};
  leaf.kind = kind;
  leaf.text = std::move(text);
  return leaf;
}

DcpSource RandomSource(unsigned seed) {
  std::mt19937 random(seed);
  DcpSource source;
  for (int d = 0; d < kDTypeCount; ++d) {
    TargetLeaf leaf;
    leaf.dtype = static_cast<DType>(d);
    leaf.key = {"model", std::to_string(d), std::string(DTypeName(leaf.dtype))};
    leaf.key_kinds = {KeyKind::kName, KeyKind::kIndex, KeyKind::kName};
    leaf.name = leaf.key[0] + "." + leaf.key[1] + "." + leaf.key[2];
    const size_t rank = random() % 4;
    for (size_t i = 0; i < rank; ++i) {
      leaf.shape.push_back(static_cast<int64_t>(random() % 6));
    }
    if (d % 3 == 0) {
      for (const int64_t extent : leaf.shape) {
        leaf.chunk_shape.push_back(std::max<int64_t>(1, extent / 2));
      }
    }
    std::string bytes(leaf.byte_count(), '\0');
    const int mask = DTypeBits(leaf.dtype) < 8
                         ? (1 << DTypeBits(leaf.dtype)) - 1
                     : leaf.dtype == DType::kBool ? 1
                                                  : 0xff;
    for (char& byte : bytes) byte = static_cast<char>(random() & mask);
    source.plan.leaves.push_back(leaf);
    source.elements.push_back(std::move(bytes));
  }
  const int64_t number = 7;
  TargetLeaf scalar =
      SmallLeaf("step", ValueKind::kScalar, std::string(8, '\0'));
  std::memcpy(scalar.text.data(), &number, 8);
  scalar.dtype = DType::kInt64;
  for (TargetLeaf& leaf : std::vector<TargetLeaf>{
           scalar, SmallLeaf("text", ValueKind::kString, "gr\xc3\xbc\xc3\x9f"),
           SmallLeaf("bytes", ValueKind::kBytes, std::string("\0\xff", 2)),
           SmallLeaf("none", ValueKind::kNone, ""),
           SmallLeaf("dict", ValueKind::kEmptyDict, ""),
           SmallLeaf("list", ValueKind::kEmptyList, ""),
           SmallLeaf("tuple", ValueKind::kEmptyTuple, ""),
           SmallLeaf("json", ValueKind::kJson, "{\"a\": 1}"),
           SmallLeaf("object of nothing", ValueKind::kObject,
                     *WriteTorchFile(PickleValue::Dict({}))),
           SmallLeaf("object of a number", ValueKind::kObject,
                     *WriteTorchFile(PickleValue::Int(5))),
           SmallLeaf("object", ValueKind::kObject,
                     *WriteTorchFile(PickleValue::List(
                         {PickleValue::Int(1), PickleValue::Int(2)})))}) {
    source.plan.leaves.push_back(leaf);
    source.elements.emplace_back();
  }
  source.plan.options.sync = false;
  source.plan.options.shard_bytes_max = 6000;
  return source;
}

std::string ElementsOf(const DcpSource& source, size_t leaf, const Box& box) {
  const TargetLeaf& info = source.plan.leaves[leaf];
  const Shape strides = ContiguousStrides(info.shape, DTypeBytes(info.dtype));
  const ConstArrayView whole = {info.dtype, source.elements[leaf].data(),
                                info.shape, strides};
  const ConstArrayView part = Subview(whole, box);
  Array packed = *Array::Allocate(info.dtype, box.shape);
  CopyStrided(part, packed.mutable_view());
  return {packed.view().data, packed.byte_count()};
}

// Writes all pieces, not in the order in which they are stored. With `cut`, a
// second target resumes after an interruption and writes the second half.
void WriteDcp(const DcpSource& source, const std::string& directory,
              bool is_megatron, bool cut) {
  auto target = MakeDcpTarget(is_megatron);
  Status begun = target->Begin(source.plan, directory, false);
  ASSERT_TRUE(begun.ok()) << begun.ToString();
  std::vector<std::pair<size_t, Box>> pieces;
  for (size_t i = 0; i < source.plan.leaves.size(); ++i) {
    for (const Box& box : target->PiecesOf(i, 40)) pieces.emplace_back(i, box);
  }
  std::shuffle(pieces.begin(), pieces.end(), std::mt19937(1));
  std::vector<std::string> marks;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const auto& [leaf, box] = pieces[i];
    if (cut && i == pieces.size() / 2) {
      target = MakeDcpTarget(is_megatron);
      begun = target->Begin(source.plan, directory, true);
      ASSERT_TRUE(begun.ok()) << begun.ToString();
      for (size_t k = 0; k < i; ++k) {
        ASSERT_TRUE(
            target->Restore(pieces[k].first, pieces[k].second, marks[k]).ok());
      }
    }
    const auto mark = target->Write(leaf, box, ElementsOf(source, leaf, box));
    ASSERT_TRUE(mark.ok()) << mark.status().ToString();
    marks.push_back(*mark);
  }
  const Status finished = target->Finish();
  ASSERT_TRUE(finished.ok()) << finished.ToString();
}

class DcpTargetTest : public testing::TestWithParam<std::tuple<bool, bool>> {};

TEST_P(DcpTargetTest, EverythingComesBack) {
  const auto [is_megatron, cut] = GetParam();
  const ScratchDirectory directory;
  const DcpSource source = RandomSource(cut ? 5 : 6);
  WriteDcp(source, directory.path(), is_megatron, cut);
  EXPECT_TRUE(std::filesystem::exists(directory / "__0_1.distcp"));
  const auto opened = OpenDcp(Place(directory.path()));
  ASSERT_TRUE(opened.ok()) << opened.status().ToString();
  const auto& leaves = (*opened)->leaves();
  ASSERT_EQ(leaves.size(), source.plan.leaves.size());
  for (size_t i = 0; i < leaves.size(); ++i) {
    const TargetLeaf& want = source.plan.leaves[i];
    EXPECT_EQ(leaves[i].name, want.name);
    EXPECT_EQ(leaves[i].key, want.key);
    EXPECT_EQ(leaves[i].key_kinds, want.key_kinds) << want.name;
    ASSERT_EQ(leaves[i].kind, want.kind) << want.name;
    if (want.kind == ValueKind::kArray || want.kind == ValueKind::kScalar) {
      EXPECT_EQ(leaves[i].dtype, want.dtype) << want.name;
      const auto array = (*opened)->Read(i);
      ASSERT_TRUE(array.ok()) << array.status().ToString();
      EXPECT_EQ(array->shape(), want.shape);
      const std::string got(array->view().data, array->byte_count());
      EXPECT_EQ(got,
                want.kind == ValueKind::kArray ? source.elements[i] : want.text)
          << want.name;
    } else if (!want.text.empty()) {
      const auto text = (*opened)->ReadText(i);
      ASSERT_TRUE(text.ok()) << text.status().ToString();
      EXPECT_EQ(*text, want.text) << want.name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Flavours, DcpTargetTest,
                         testing::Combine(testing::Bool(), testing::Bool()));

TEST(DcpTarget, MissingPiecesAreNoticed) {
  const ScratchDirectory directory;
  DcpSource source;
  TargetLeaf leaf = SmallLeaf("w", ValueKind::kArray, "");
  leaf.dtype = DType::kFloat32;
  leaf.shape = {4};
  source.plan.leaves = {leaf};
  source.elements = {std::string(16, 'x')};
  const auto target = MakeDcpTarget(false);
  ASSERT_TRUE(target->Begin(source.plan, directory.path(), false).ok());
  ASSERT_TRUE(target->Write(0, {{0}, {2}}, std::string(8, 'x')).ok());
  EXPECT_THAT(target->Finish().ToString(), HasSubstr("got 8 bytes, want 16"));
}

// ---- false claims

struct MetadataLie {
  std::string what;
  std::function<void(DcpMetadata&)> change;
  std::string error;
};

DcpMetadata HonestMetadata() {
  DcpMetadata metadata;
  DcpEntry entry;
  entry.name = "w";
  entry.key = {"w"};
  entry.dtype = DType::kFloat32;
  entry.shape = {4, 2};
  entry.chunks = {{{{0, 0}, {2, 2}}, {"__0_0.distcp", 0, 100}},
                  {{{2, 0}, {2, 2}}, {"__0_0.distcp", 100, 100}}};
  metadata.entries = {entry};
  return metadata;
}

TEST(DcpMetadataTest, LiesAreRefused) {
  const std::vector<MetadataLie> lies = {
      {"a path upwards",
       [](DcpMetadata& m) { m.entries[0].chunks[0].record.file = "../x"; },
       "\"w\" points outside the checkpoint's directory: \"../x\""},
      {"an absolute path",
       [](DcpMetadata& m) {
         m.entries[0].chunks[0].record.file = "/etc/passwd";
       },
       "points outside the checkpoint's directory"},
      {"a path up in the middle",
       [](DcpMetadata& m) { m.entries[0].chunks[1].record.file = "a/../../x"; },
       "points outside the checkpoint's directory"},
      {"no path",
       [](DcpMetadata& m) { m.entries[0].chunks[1].record.file = ""; },
       "points outside the checkpoint's directory"},
      {"a chunk outside",
       [](DcpMetadata& m) { m.entries[0].chunks[1].box.origin = {3, 0}; },
       "has a chunk outside of it, [3:5, 0:2]"},
      {"a chunk of another rank",
       [](DcpMetadata& m) { m.entries[0].chunks[1].box = {{2}, {2}}; },
       "has a chunk without place or size"},
      {"a huge size",
       [](DcpMetadata& m) {
         m.entries[0].chunks[1].box = {{2, 0}, {INT64_MAX, 2}};
       },
       "has a chunk outside of it"},
      {"a negative offset",
       [](DcpMetadata& m) {
         m.entries[0].chunks[0].record.offset = static_cast<uint64_t>(-1);
       },
       "has a record without path, offset or length"},
      {"a negative extent",
       [](DcpMetadata& m) { m.entries[0].shape = {-4, 2}; }, "has no size"},
  };
  ASSERT_TRUE(
      ParseDcpMetadata(*DcpMetadataBytes(HonestMetadata(), false)).ok());
  for (const MetadataLie& lie : lies) {
    DcpMetadata metadata = HonestMetadata();
    lie.change(metadata);
    const auto parsed = ParseDcpMetadata(*DcpMetadataBytes(metadata, false));
    ASSERT_FALSE(parsed.ok()) << lie.what;
    EXPECT_EQ(parsed.status().code(), StatusCode::kDataLoss);
    EXPECT_THAT(parsed.status().ToString(), HasSubstr(lie.error)) << lie.what;
  }
}

TEST(DcpMetadataTest, OtherPicklesAreRefused) {
  const auto none = ParseDcpMetadata("N.");
  EXPECT_THAT(none.status().ToString(), HasSubstr("not torch's Metadata"));
  const auto acting = ParseDcpMetadata("cos\nsystem\n(S'true'\ntR.");
  EXPECT_THAT(acting.status().ToString(),
              HasSubstr("pickle refers to os.system, which holdfast does not "
                        "run"));
}

// Returns the error of opening a checkpoint whose metadata `change` modified.
std::string OpenedWith(const std::function<void(DcpMetadata&)>& change,
                       bool cut_file = false) {
  const ScratchDirectory directory;
  const auto plan = pickle::PlanTensorFile(DType::kFloat32, {2, 2});
  std::string file;
  DcpMetadata metadata = HonestMetadata();
  for (DcpChunk& chunk : metadata.entries[0].chunks) {
    chunk.record.offset = file.size();
    chunk.record.byte_count = plan->byte_count();
    file +=
        plan->head + std::string(16, 'x') + pickle::TensorFileTail(*plan, 0);
  }
  change(metadata);
  if (cut_file) file.resize(file.size() - 1);
  const auto put = [&](const char* name, const std::string& text) {
    std::ofstream(directory / name, std::ios::binary) << text;
  };
  put("__0_0.distcp", file);
  put(".metadata", *DcpMetadataBytes(metadata, false));
  const auto opened = OpenDcp(Place(directory.path()));
  if (!opened.ok()) return opened.status().ToString();
  const auto read = (*opened)->Read(0);
  return read.ok() ? "OK" : read.status().ToString();
}

TEST(DcpFiles, LiesAboutRecordsAreRefused) {
  EXPECT_EQ(OpenedWith([](DcpMetadata&) {}), "OK");
  EXPECT_THAT(OpenedWith([](DcpMetadata& m) {
                m.entries[0].chunks[1].record = m.entries[0].chunks[0].record;
              }),
              HasSubstr("the records of \"w\" and of \"w\" overlap in "
                        "__0_0.distcp"));
  EXPECT_THAT(OpenedWith([](DcpMetadata& m) {
                m.entries[0].chunks[0].record.byte_count += 1;
              }),
              HasSubstr("overlap"));
  EXPECT_THAT(OpenedWith([](DcpMetadata& m) {
                m.entries[0].chunks[1].record.byte_count += 1;
              }),
              HasSubstr("does not lie in the file"));
  EXPECT_THAT(OpenedWith([](DcpMetadata&) {}, true),
              HasSubstr("does not lie in the file"));
  EXPECT_THAT(OpenedWith([](DcpMetadata& m) {
                m.entries[0].chunks[1].record.file = "__7_0.distcp";
              }),
              HasSubstr("__7_0.distcp"));
  EXPECT_THAT(
      OpenedWith([](DcpMetadata& m) { m.entries[0].dtype = DType::kInt32; }),
      HasSubstr("holds float32(2, 2), want int32(2, 2)"));
  EXPECT_THAT(
      OpenedWith([](DcpMetadata& m) { m.entries[0].chunks.pop_back(); }),
      HasSubstr("w"));
  EXPECT_NE(OpenedWith([](DcpMetadata& m) { m.entries[0].chunks.pop_back(); }),
            "OK");
}

}  // namespace
}  // namespace holdfast
