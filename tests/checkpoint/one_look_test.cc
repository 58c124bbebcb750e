// Opening and restoring a checkpoint in a bucket requests no object and no list
// twice, whatever the format: the Place keeps what the first request found.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

#include "checkpoint/test_trees.h"
#include "holdfast/tools/convert.h"
#include "twins/mem_bucket.h"
#include "twins/scratch_directory.h"

namespace holdfast {
namespace {

namespace fs = std::filesystem;

constexpr char kUrl[] = "mem://test/run";

struct LookLayout {
  Format format = Format::kOrbax;
  bool use_ocdbt = true;
};

class OneLook : public ::testing::TestWithParam<LookLayout> {
 protected:
  void SetUp() override {
    SaveOptions save;
    save.sync = false;
    save.use_ocdbt = GetParam().use_ocdbt;
    std::string path = scratch_ / "saved";
    ASSERT_TRUE(Save(path, tree_, save).ok());
    if (GetParam().format == Format::kOrbax) {
      mem_.Put("run/commit_success.txt", "");
    } else {
      ConvertOptions convert;
      convert.format = GetParam().format;
      convert.sync = false;
      path = scratch_ / "converted";
      const bool is_file = GetParam().format == Format::kSafetensors;
      if (is_file) fs::create_directory(path);
      const auto converted =
          Convert(scratch_ / "saved",
                  is_file ? path + "/model.safetensors" : path, convert);
      ASSERT_TRUE(converted.ok()) << converted.status().ToString();
    }
    Upload(path);
    mem_.bucket->SetFaults({});
  }

  void Upload(const fs::path& directory) {
    for (const auto& entry : fs::recursive_directory_iterator(directory)) {
      if (!entry.is_regular_file()) continue;
      std::ifstream file(entry.path(), std::ios::binary);
      const std::string content((std::istreambuf_iterator<char>(file)), {});
      mem_.Put("run/" + fs::relative(entry.path(), directory).string(),
               content);
    }
  }

  // Returns the requests, such as "get run/x 0+9", that were sent more than
  // once.
  std::vector<std::string> AskedAgain() const {
    std::map<std::string, int> counts;
    for (const std::string& request : mem_.bucket->requests()) {
      ++counts[request];
    }
    std::vector<std::string> again;
    for (const auto& [request, count] : counts) {
      if (count > 1) again.push_back(std::to_string(count) + "x " + request);
    }
    return again;
  }

  size_t ListCount() const {
    return mem_.bucket->counters().of(BucketRequest::kList);
  }

  const Tree tree_ = Tree::Dict(
      {{"deep", Tree::Dict({{"b", Tree(RandomArray(DType::kInt16, {5}, 2))},
                            {"c", Tree(RandomArray(DType::kInt8, {9}, 3))}})},
       {"text", Tree("words")},
       {"w", Tree(RandomArray(DType::kFloat32, {30, 17}, 1))}});
  const ScratchDirectory scratch_;
  MemBucketForTest mem_;
};

TEST_P(OneLook, ALoadAsksForNothingTwice) {
  const auto loaded = Load(kUrl);
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  EXPECT_TRUE(loaded->tree == tree_);
  EXPECT_EQ(AskedAgain(), std::vector<std::string>());
  EXPECT_EQ(ListCount(), 1u);
}

TEST_P(OneLook, OpeningAndReadingAsksForNothingTwice) {
  const auto opened = Open(kUrl);
  ASSERT_TRUE(opened.ok()) << opened.status().ToString();
  for (size_t leaf = 0; leaf < (*opened)->leaves().size(); ++leaf) {
    const ValueKind kind = (*opened)->leaves()[leaf].kind;
    const Status read = kind == ValueKind::kArray
                            ? (*opened)->Read(leaf).status()
                            : (*opened)->ReadText(leaf).status();
    EXPECT_TRUE(read.ok()) << read.ToString();
  }
  EXPECT_EQ(AskedAgain(), std::vector<std::string>());
  EXPECT_EQ(ListCount(), 1u);
}

INSTANTIATE_TEST_SUITE_P(Formats, OneLook,
                         ::testing::Values(LookLayout{Format::kOrbax, true},
                                           LookLayout{Format::kOrbax, false},
                                           LookLayout{Format::kSafetensors},
                                           LookLayout{Format::kDcp},
                                           LookLayout{Format::kTorchDist},
                                           LookLayout{Format::kMegatronZarr}),
                         [](const auto& info) {
                           std::string name(FormatName(info.param.format));
                           std::erase(name, '-');
                           std::erase(name, '_');
                           return name +
                                  (info.param.use_ocdbt ? "" : "Directories");
                         });

}  // namespace
}  // namespace holdfast
