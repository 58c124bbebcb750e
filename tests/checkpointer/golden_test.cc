// Restores stock Orbax's checkpoints through the composite handler, by the
// recorded types, and checks every leaf's digest and every JSON document.
#include <gtest/gtest.h>
#include <openssl/evp.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "checkpointer/handlers_for_test.h"
#include "twins/scratch_directory.h"

namespace holdfast {
namespace {

using nlohmann::ordered_json;

constexpr const char* kCases[] = {
    "mgr_composite",      "mgr_random_keys",          "mgr_best_dict",
    "mgr_standard_steps", "mgr_step_format",          "mgr_commit_file",
    "mgr_with_tmp_open",  "v1_training_checkpointer", "v1_checkpointables"};

std::string Sha256Hex(std::string_view bytes) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  EVP_Digest(bytes.data(), bytes.size(), digest, &size, EVP_sha256(), nullptr);
  std::string hex;
  for (unsigned i = 0; i < size; ++i) {
    constexpr char kDigits[] = "0123456789abcdef";
    hex += {kDigits[digest[i] >> 4], kDigits[digest[i] & 15]};
  }
  return hex;
}

// Returns the digest of an array, or of a scalar's bytes.
std::string DigestOf(const Tree& leaf) {
  if (leaf.leaf_kind() == LeafKind::kScalar) {
    return Sha256Hex(leaf.scalar().view());
  }
  const Array& array = leaf.array();
  EXPECT_TRUE(IsContiguous(array.view()));
  return Sha256Hex({array.view().data, array.byte_count()});
}

class GoldenItemsTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    scratch_ = new ScratchDirectory();
    std::string command = "tar -xJf " HOLDFAST_SOURCE_DIR
                          "/tests/golden/corpus/open.tar.xz -C " +
                          scratch_->path();
    for (const char* name : kCases) command += std::string(" open/") + name;
    ASSERT_EQ(std::system(command.c_str()), 0) << command;
  }
  static void TearDownTestSuite() { delete scratch_; }

  static inline ScratchDirectory* scratch_ = nullptr;
};

// Checks an expected leaf in the restored item.
void CheckLeaf(const Tree& item, const ordered_json& want) {
  const Tree* leaf = &item;
  for (const ordered_json& key : want["path"]) {
    // An ArrayCheckpointHandler's item is the leaf itself.
    if (leaf->is_leaf() && key["key"] == "checkpoint") break;
    leaf = leaf->Find(key["key"].get<std::string>());
    ASSERT_NE(leaf, nullptr) << want["param"];
  }
  const std::string kind = want["leaf"];
  if (kind == "string") {
    EXPECT_EQ(*leaf, Tree(want["value"].get<std::string>()));
  } else if (kind == "empty") {
    EXPECT_TRUE(leaf->is_none() || leaf->is_empty_container());
  } else {
    EXPECT_EQ(ordered_json(DigestOf(*leaf)), want["sha256"]) << want["param"];
  }
}

void CheckItem(const Tree& item, const ordered_json& want) {
  if (want["type"] == "json") {
    EXPECT_EQ(ordered_json::parse(Taken(JsonTextOf(item))), want["value"]);
    return;
  }
  for (const ordered_json& leaf : want["leaves"]) CheckLeaf(item, leaf);
}

// Restores one step and checks its expected items. In the step "ckpt/4", the
// path "ckpt/4/key/jax_random_key" belongs to the item "key". A random key's
// handler does not return the metadata that it stores, so it is not checked.
void CheckStep(const std::string& root, const std::string& step,
               const ordered_json& expected, size_t& checked_count) {
  CompositeOptions options;
  options.handlers["metrics"] = MakeJsonHandler({.filename = "metrics"});
  auto checkpointer = Taken(Checkpointer::Make(
      Taken(CompositeCheckpointHandler::Make(std::move(options)))));
  const Tree items = Taken(checkpointer->Restore(root + "/" + step));
  for (const ordered_json& item : expected["items"]) {
    const std::string path = item["path"];
    if (!path.starts_with(step + "/")) continue;
    const std::string below = path.substr(step.size() + 1);
    if (below.ends_with("random_key_metadata")) continue;
    const Tree* restored = items.Find(below.substr(0, below.find('/')));
    ASSERT_NE(restored, nullptr) << path;
    CheckItem(*restored, item);
    ++checked_count;
  }
}

TEST_F(GoldenItemsTest, EveryItemOfEveryStep) {
  size_t checked_count = 0;
  for (const char* name : kCases) {
    SCOPED_TRACE(name);
    const std::string root = scratch_->path() + "/open/" + name;
    const auto expected =
        ordered_json::parse(ReadTestFile(root + "/expected.json"));
    if (!expected.contains("steps")) {
      CheckStep(root, "ckpt", expected, checked_count);
      continue;
    }
    for (const ordered_json& step : expected["steps"]) {
      CheckStep(root, step["path"], expected, checked_count);
    }
  }
  EXPECT_EQ(checked_count, 46u);
}

TEST_F(GoldenItemsTest, RandomKeysKnowWhatTheyAre) {
  const std::string step = scratch_->path() + "/open/mgr_random_keys/ckpt/4";
  auto checkpointer =
      Taken(Checkpointer::Make(Taken(CompositeCheckpointHandler::Make())));
  const Tree items = Taken(checkpointer->Restore(step));
  EXPECT_EQ(items.Find("key")->array_traits().prng_impl, "threefry2x32");
  EXPECT_EQ(items.Find("raw")->array_traits().prng_impl, "");
  EXPECT_EQ(items.Find("nplegacy")->kind(), NodeKind::kTuple);
  EXPECT_EQ(items.Find("npdict")->kind(), NodeKind::kDict);
}

TEST_F(GoldenItemsTest, CommitFileModeKnowsItsSteps) {
  const std::string root = scratch_->path() + "/open/mgr_commit_file/ckpt";
  EXPECT_EQ(
      Taken(Open(root, {.commit_mode = CommitMode::kMarkerFile}))->info().step,
      8);
  std::filesystem::remove(root + "/8/commit_success.txt");
  EXPECT_EQ(
      Taken(Open(root, {.commit_mode = CommitMode::kMarkerFile}))->info().step,
      7);
  EXPECT_EQ(Taken(Open(root))->info().step, 8);
}

}  // namespace
}  // namespace holdfast
