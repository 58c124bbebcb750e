// Foreign formats as users have them: with wrong names, in parts, or
// incomplete.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "foreign/open/open.h"
#include "foreign/safetensors/safetensors_header.h"
#include "ground/base/coding.h"
#include "holdfast/tools/torch_file.h"
#include "twins/scratch_directory.h"

namespace holdfast {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

constexpr char kPointer[] =
    "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n";

// One uint8 tensor per pair.
using NamedRows = std::vector<std::pair<std::string, Array>>;

std::string FileOf(const NamedRows& tensors,
                   std::map<std::string, std::string> metadata = {}) {
  SafetensorsHeader header;
  header.metadata = std::move(metadata);
  std::string data;
  for (const auto& [name, array] : tensors) {
    const uint64_t begin = data.size();
    data.append(array.view().data, array.byte_count());
    header.entries.push_back({name, &SafetensorsDTypeOf(array.dtype()),
                              array.shape(), begin, data.size()});
  }
  return *SafetensorsHeaderBytes(header) + data;
}

Array Rows(int64_t rows, std::initializer_list<uint8_t> elements) {
  return Array::FromBytes(DType::kUint8,
                          {rows, static_cast<int64_t>(elements.size()) / rows},
                          std::data(elements));
}

std::string TorchFileOf(const std::string& name, const Array& array) {
  return *WriteTorchFile(PickleValue::Dict(
      {{PickleValue::String(name), PickleValue::Tensor(array)}}));
}

class FirstContactTest : public testing::Test {
 protected:
  void Write(const std::string& name, const std::string& bytes) {
    const fs::path path = fs::path(scratch_.path()) / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << bytes;
  }
  std::unique_ptr<Checkpoint> Opens(const std::string& name) {
    auto opened = Open(scratch_ / name, {});
    EXPECT_TRUE(opened.ok()) << opened.status().ToString();
    return opened.ok() ? std::move(opened).value() : nullptr;
  }
  Status WhyNot(const std::string& name) {
    return Open(scratch_ / name, {}).status();
  }
  static std::vector<int> Elements(const Checkpoint& checkpoint,
                                   std::string_view name) {
    const auto array = checkpoint.Read(name);
    EXPECT_TRUE(array.ok()) << array.status().ToString();
    if (!array.ok()) return {};
    const auto* const data =
        reinterpret_cast<const uint8_t*>(array->view().data);
    return {data, data + array->byte_count()};
  }

  ScratchDirectory scratch_;
};

TEST_F(FirstContactTest, WhatAFileHoldsCountsMoreThanItsName) {
  const Array array = Rows(1, {1, 2, 3});
  const std::string weights = FileOf({{"w", array}});
  const std::string torch = TorchFileOf("w", array);
  for (const char* name : {"a.ckpt", "a.pt", "a.bin", "a.npz", "a"}) {
    Write(name, weights);
    const auto checkpoint = Opens(name);
    ASSERT_NE(checkpoint, nullptr);
    EXPECT_EQ(checkpoint->info().format, "safetensors") << name;
  }
  for (const char* name : {"b.safetensors", "b.bin", "b.npz"}) {
    Write(name, torch);
    const auto checkpoint = Opens(name);
    ASSERT_NE(checkpoint, nullptr);
    EXPECT_EQ(checkpoint->info().format, "torch") << name;
  }
}

TEST_F(FirstContactTest, PointersAreNamed) {
  for (const char* name : {"model.safetensors", "pytorch_model.bin", "a.pt",
                           "a.npz", "manifest"}) {
    Write(name, kPointer);
    EXPECT_EQ(WhyNot(name).code(), StatusCode::kNotFound) << name;
    EXPECT_THAT(WhyNot(name).message(),
                AllOf(HasSubstr("Git LFS pointer"), HasSubstr("git lfs pull")));
    EXPECT_THAT(Verify(scratch_ / name).status().message(),
                HasSubstr("Git LFS pointer"));
    EXPECT_THAT(Load(scratch_ / name).status().message(),
                HasSubstr("Git LFS pointer"));
  }
  // A bad file in a set means that the set is damaged.
  Write("set/model-00001-of-00002.safetensors", FileOf({}));
  Write("set/model-00002-of-00002.safetensors", kPointer);
  EXPECT_EQ(WhyNot("set").code(), StatusCode::kDataLoss);
  EXPECT_THAT(WhyNot("set").message(),
              AllOf(HasSubstr("model-00002-of-00002"), HasSubstr("Git LFS")));
  Write("torch/pytorch_model.bin", kPointer);
  EXPECT_THAT(WhyNot("torch").message(), HasSubstr("Git LFS"));
  Write("dcp/.metadata", kPointer);
  EXPECT_THAT(WhyNot("dcp").message(), HasSubstr("Git LFS"));
}

TEST_F(FirstContactTest, ASetThatLacksAFileIsDamaged) {
  const std::string one = FileOf({{"a", Rows(1, {1})}});
  const std::string three = FileOf({{"c", Rows(1, {3})}});
  Write("m/model-00001-of-00003.safetensors", one);
  Write("m/model-00003-of-00003.safetensors", three);
  for (const Status& status : {WhyNot("m"), Load(scratch_ / "m").status()}) {
    EXPECT_EQ(status.code(), StatusCode::kDataLoss);
    EXPECT_THAT(status.message(),
                HasSubstr("model-00002-of-00003.safetensors"));
  }
  const auto report = Verify(scratch_ / "m");
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->damages.size(), 1u);
  // A file that is requested by its own name is opened by itself.
  EXPECT_NE(Opens("m/model-00001-of-00003.safetensors"), nullptr);
  Write("m/model-00002-of-00003.safetensors", FileOf({}));
  EXPECT_EQ(Opens("m")->leaves().size(), 2u);

  Write("t/pytorch_model-00001-of-00002.bin", TorchFileOf("a", Rows(1, {1})));
  EXPECT_EQ(WhyNot("t").code(), StatusCode::kDataLoss);
  EXPECT_THAT(WhyNot("t").message(),
              HasSubstr("pytorch_model-00002-of-00002.bin"));
  Write("t/pytorch_model-00002-of-00002.bin", TorchFileOf("b", Rows(1, {2})));
  EXPECT_EQ(Elements(*Opens("t"), "b"), std::vector<int>{2});

  // An index shows the missing file, too.
  Write("i/model.safetensors.index.json",
        R"({"weight_map":{"a":"1.safetensors"}})");
  EXPECT_EQ(WhyNot("i").code(), StatusCode::kDataLoss);
}

TEST_F(FirstContactTest, DataFilesOfDcpWithoutTheirMetadata) {
  Write("c/__0_0.distcp", TorchFileOf("a", Rows(1, {1})));
  EXPECT_EQ(WhyNot("c").code(), StatusCode::kDataLoss);
  EXPECT_THAT(WhyNot("c").message(),
              AllOf(HasSubstr("__0_0.distcp"), HasSubstr(".metadata")));
}

TEST_F(FirstContactTest, AFolderWithOneFileOfWeights) {
  Write("hf/config.json", "{}");
  Write("hf/training_args.bin", TorchFileOf("lr", Rows(1, {9})));
  Write("hf/pytorch_model.bin", TorchFileOf("w", Rows(1, {1, 2})));
  const auto checkpoint = Opens("hf");
  ASSERT_NE(checkpoint, nullptr);
  EXPECT_EQ(checkpoint->info().format, "torch");
  EXPECT_EQ(checkpoint->info().path, scratch_ / "hf");
  ASSERT_EQ(checkpoint->leaves().size(), 1u);
  EXPECT_EQ(Elements(*checkpoint, "w"), (std::vector<int>{1, 2}));
  const auto report = Verify(scratch_ / "hf");
  ASSERT_TRUE(report.ok()) << report.status().ToString();
  EXPECT_TRUE(report->damages.empty());
}

constexpr char kShard1[] = "m/shard-00001-model-00001-of-00001.safetensors";
constexpr char kShard2[] = "m/shard-00002-model-00001-of-00001.safetensors";

std::map<std::string, std::string> At(const std::string& offsets) {
  return {{"DCP_SHARDING_INFO", offsets}, {"DCP_VERSION", "1.0"}};
}

TEST_F(FirstContactTest, PartsOfTensorsArePutTogether) {
  Write(kShard1, FileOf({{"head", Rows(2, {1, 2, 3, 4})}},
                        At(R"({"head":{"saved_offsets":[0,0]}})")));
  Write(kShard2, FileOf({{"head", Rows(1, {5, 6})}, {"norm", Rows(1, {7})}},
                        At(R"({"head":{"saved_offsets":[2,0]},)"
                           R"("norm":{"saved_offsets":[0,0]}})")));
  const auto checkpoint = Opens("m");
  ASSERT_NE(checkpoint, nullptr);
  ASSERT_EQ(checkpoint->leaves().size(), 2u);
  const size_t head = *checkpoint->Find("head");
  EXPECT_EQ(checkpoint->leaves()[head].shape, (Shape{3, 2}));
  EXPECT_EQ(checkpoint->leaves()[head].chunk_count, 2u);
  EXPECT_EQ(Elements(*checkpoint, "head"),
            (std::vector<int>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(Elements(*checkpoint, "norm"), std::vector<int>{7});
  // The sharding entry is removed, because it would be wrong in the output of a
  // conversion.
  EXPECT_EQ(checkpoint->info().item_custom_metadata,
            R"({"DCP_VERSION":"1.0"})");
  // One shard is not the complete tensor, not even the first one.
  for (const char* shard : {kShard1, kShard2}) {
    EXPECT_EQ(WhyNot(shard).code(), StatusCode::kFailedPrecondition);
    EXPECT_THAT(WhyNot(shard).message(), HasSubstr("shard-0000"));
  }
  fs::remove(scratch_ / kShard1);
  const auto rest = Opens("m");
  ASSERT_NE(rest, nullptr);
  EXPECT_EQ(rest->Read("head").status().code(), StatusCode::kDataLoss);
  EXPECT_EQ(Elements(*rest, "norm"), std::vector<int>{7});
}

TEST_F(FirstContactTest, PartsThatDoNotFitAreRefused) {
  Write(kShard1, FileOf({{"w", Rows(2, {1, 2, 3, 4})}},
                        At(R"({"w":{"saved_offsets":[0,0]}})")));
  const auto leaf_status = [&] {
    const auto opened = Open(scratch_ / "m", {});
    return opened.ok() ? (*opened)->Read("w").status() : opened.status();
  };
  for (const char* info :
       {R"({"w":{"saved_offsets":[1,0]}})",   // overlaps the other part
        R"({"w":{"saved_offsets":[3,0]}})",   // leaves a gap
        R"({"w":{"saved_offsets":[2,1]}})",   // and at the side
        R"({"w":{"saved_offsets":[2]}})",     // of another rank
        R"({"w":{"saved_offsets":[-2,0]}})",  //
        R"({"w":{"saved_offsets":[9223372036854775807,0]}})",  //
        R"({"w":{"saved_offsets":[4611686018427387904,4611686018427387904]}})",
        R"({"w":{}})", R"({"v":{"saved_offsets":[2,0]}})", R"([1])", "{"}) {
    Write(kShard2, FileOf({{"w", Rows(1, {5, 6})}}, At(info)));
    EXPECT_EQ(leaf_status().code(), StatusCode::kDataLoss) << info;
  }
  const Array other = Array::FromBytes(DType::kInt8, {1, 2}, "ab");
  Write(kShard2,
        FileOf({{"w", other}}, At(R"({"w":{"saved_offsets":[2,0]}})")));
  EXPECT_EQ(leaf_status().code(), StatusCode::kDataLoss);
  Write(kShard2, FileOf({{"w", Rows(1, {5, 6})}}));  // claims to be complete
  EXPECT_EQ(leaf_status().code(), StatusCode::kDataLoss);
}

}  // namespace
}  // namespace holdfast
