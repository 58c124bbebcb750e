// Reads the golden databases: thirteen that must be read exactly, and
// forty-seven that must be refused, each for its own reason.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "formats/ocdbt/database.h"
#include "formats/ocdbt/database_test_util.h"
#include "formats/ocdbt/format/hex_test_util.h"
#include "ground/base/status_macros.h"

namespace holdfast::ocdbt {
namespace {

using ::testing::HasSubstr;

nlohmann::json LoadExpectations() {
  std::ifstream file(std::string(HOLDFAST_SOURCE_DIR) +
                     "/tests/golden/ocdbt/vectors.json");
  return nlohmann::json::parse(file);
}

std::string ValueOf(const nlohmann::json& value) {
  if (value.is_string()) return FromHex(value.get<std::string>());
  std::string text;
  const std::string piece = FromHex(value["repeat"].get<std::string>());
  for (int n = value["times"]; n > 0; --n) text += piece;
  return text;
}

Items ItemsOf(const nlohmann::json& json) {
  Items items;
  for (const auto& [key, value] : json.items()) {
    items[FromHex(key)] = ValueOf(value);
  }
  return items;
}

std::unique_ptr<Database> OpenGolden(Store& store,
                                     std::optional<uint64_t> generation = {}) {
  OpenOptions options;
  options.generation = generation;
  auto database = Database::Open(&store, "", options);
  EXPECT_TRUE(database.ok()) << database.status().ToString();
  return std::move(database).value();
}

void ExpectConfig(const Config& config, const nlohmann::json& want) {
  EXPECT_EQ(UuidText(config.uuid), want["uuid"].get<std::string>());
  EXPECT_EQ(static_cast<int>(config.manifest_kind), want["manifest_kind"]);
  EXPECT_EQ(config.max_inline_value_bytes, want["max_inline_value_bytes"]);
  EXPECT_EQ(config.max_decoded_node_bytes, want["max_decoded_node_bytes"]);
  EXPECT_EQ(config.version_tree_arity_log2, want["version_tree_arity_log2"]);
  EXPECT_EQ(config.compression.zstd, !want["compression"].is_null());
}

void ExpectReadable(const std::string& name, const nlohmann::json& want) {
  SCOPED_TRACE(name);
  const auto store = LoadGolden(name);
  const auto database = OpenGolden(*store);
  ExpectConfig(database->manifest().config, want["config"]);
  EXPECT_EQ(database->version()->version.root_height, want["root_height"]);
  const auto items = ReadItems(*database);
  ASSERT_TRUE(items.ok()) << items.status().ToString();
  EXPECT_EQ(*items, ItemsOf(want["items"]));

  const auto versions = database->Versions();
  ASSERT_TRUE(versions.ok()) << versions.status().ToString();
  std::vector<uint64_t> generations;
  for (const VersionRecord& record : *versions) {
    generations.push_back(record.version.generation);
  }
  EXPECT_EQ(generations, want["generations"].get<std::vector<uint64_t>>());
  EXPECT_EQ(database->CheckAll().ToString(), "OK");

  if (!want.contains("history")) return;
  for (const auto& [generation, old_items] : want["history"].items()) {
    const auto old = ReadItems(*OpenGolden(*store, std::stoull(generation)));
    ASSERT_TRUE(old.ok()) << old.status().ToString();
    EXPECT_EQ(*old, ItemsOf(old_items)) << "generation " << generation;
  }
}

TEST(GoldenTest, GoodDatabasesHaveTheirContents) {
  const nlohmann::json expectations = LoadExpectations();
  ASSERT_EQ(expectations["valid"].size(), 13u);
  for (const auto& [name, want] : expectations["valid"].items()) {
    ExpectReadable(name, want);
  }
}

// Decodes, re-encodes and counts every reachable object.
class Reencoder {
 public:
  explicit Reencoder(Store& store) : store_(store) {}

  void CheckManifest(const std::string& name) {
    const Bytes object = *store_.Read(name);
    const auto manifest = DecodeManifest(object, "");
    ASSERT_TRUE(manifest.ok()) << manifest.status().ToString();
    Compare(ObjectKind::kManifest, object, EncodeManifestBody(*manifest));
    for (const Version& version : manifest->versions) {
      CheckTree(manifest->files, version.root);
    }
    for (const VersionNodeReference& node : manifest->version_nodes) {
      CheckVersionNode(manifest->files, node.node);
    }
  }
  int object_count() const { return object_count_; }

 private:
  void Compare(ObjectKind kind, const Bytes& object, const Bytes& body) {
    ++object_count_;
    const auto opened = OpenEnvelope(object, kind);
    ASSERT_TRUE(opened.ok());
    EXPECT_EQ(body.view(), opened->body.view());
    if (opened->body_offset == 0) return;  // zstd framing may differ
    const auto again = SealEnvelope(kind, body.view(), {.zstd = false});
    EXPECT_EQ(again->view(), object.view());
  }

  Bytes Load(const DataFileTable& files, const Reference& range) {
    return *store_.Read(files[range.file_index].path,
                        {range.offset, range.byte_count});
  }

  void CheckVersionNode(const DataFileTable& files, const Reference& range) {
    const Bytes object = Load(files, range);
    const auto node = DecodeVersionTreeNode(object, "");
    ASSERT_TRUE(node.ok()) << node.status().ToString();
    Compare(ObjectKind::kVersionTreeNode, object,
            EncodeVersionTreeNodeBody(*node));
    for (const Version& version : node->versions) {
      CheckTree(node->files, version.root);
    }
    for (const VersionNodeReference& child : node->children) {
      CheckVersionNode(node->files, child.node);
    }
  }

  void CheckTree(const DataFileTable& files, const Reference& range) {
    if (range.missing()) return;
    const Bytes object = Load(files, range);
    const auto node = DecodeBtreeNode(object, "");
    ASSERT_TRUE(node.ok()) << node.status().ToString();
    Compare(
        ObjectKind::kBtreeNode, object,
        node->height == 0
            ? EncodeLeafNodeBody(node->key_prefix, node->leaves, node->files)
            : EncodeInteriorNodeBody(node->height, node->key_prefix,
                                     node->children, node->files));
    for (const ChildEntry& child : node->children) {
      CheckTree(node->files, child.node);
    }
  }

  Store& store_;
  int object_count_ = 0;
};

TEST(GoldenTest, GoodObjectsEncodeToTheSameBytes) {
  int object_count = 0;
  const nlohmann::json expectations = LoadExpectations();
  for (const auto& [name, want] : expectations["valid"].items()) {
    SCOPED_TRACE(name);
    const auto store = LoadGolden(name);
    Reencoder reencoder(*store);
    for (const auto& [key, bytes] : Contents(*store)) {
      if (key.find("manifest.") == 0) reencoder.CheckManifest(key);
    }
    EXPECT_GT(reencoder.object_count(), 0);
    object_count += reencoder.object_count();
  }
  EXPECT_EQ(object_count, 97);
}

// Reads everything.
Status Check(Store& store) {
  HF_ASSIGN_OR_RETURN(const auto database, Database::Open(&store, ""));
  HF_RETURN_IF_ERROR(database->CheckAll());
  HF_ASSIGN_OR_RETURN(const Items items, ReadItems(*database));
  (void)items;
  return Status();
}

struct BadCase {
  const char* name;
  StatusCode code;
  const char* text;
};

constexpr StatusCode kLoss = StatusCode::kDataLoss;
constexpr StatusCode kInvalid = StatusCode::kInvalidArgument;

constexpr char kManifest[] =
    "Error decoding memory:/manifest.ocdbt: Error decoding manifest: ";

// Messages are TensorStore 0.1.86's, except that they show full keys, while
// TensorStore omits the prefix that parent nodes imply.
const BadCase kBadCases[] = {
    {"bt_key_order_equal", kLoss,
     "Error decoding b-tree node: Invalid key order; at byte "},
    {"bt_prefix_gt_prev", kLoss,
     "Error decoding b-tree node: Child 1: Prefix length of 2 exceeds "
     "previous key length 1; at byte 20"},
    {"bt_trailing", kInvalid,
     "Error decoding b-tree node: End of data expected; remaining length: 1; "
     "at byte 22"},
    {"bt_value_kind_2", kLoss,
     "Error decoding b-tree node: value_kind[0]=2 is outside valid range "
     "[0, 1]; at byte 21"},
    {"bt_zero_entries", kLoss,
     "Error decoding b-tree node: Empty b-tree node; at byte 17"},
    {"cfg_arity_0", kInvalid,
     "Expected version_tree_arity_log2 in range [1, 16] but received: 0; at "
     "byte 37"},
    {"cfg_kind_2", kLoss, "Invalid manifest_kind 2; at byte 31"},
    {"cfg_zstd_level_23", kInvalid,
     "Zstd compression level 23 is outside valid range [-131072, 22]; at byte "
     "42"},
    {"env_bad_crc", kLoss,
     "CRC-32C checksum verification failed: expected=1575632062, "
     "actual=1558854846"},
    {"env_bad_length", kLoss,
     "Length in header (96) does not match actual length (97); at byte 12"},
    {"env_masked_crc", kLoss,
     "CRC-32C checksum verification failed: expected=469738668, "
     "actual=1558854846"},
    {"env_trailing_body", kInvalid,
     "End of data expected; remaining length: 1; at byte 93"},
    {"env_version_1", kLoss,
     "Maximum supported version is 0 but received: 1; at byte 13"},
    {"env_zstd_trailing", kInvalid,
     "End of data expected; remaining length: 1; at byte "},
    {"env_zstd_two_frames", kLoss, "Unexpected end of data; at byte "},
    {"in_child_min_lower_than_key", kLoss,
     "First key \"aa\" is less than inclusive_min \"ab\" specified by parent "
     "node"},
    {"in_child_wrong_height", kLoss, "Expected height of 0 but received: 1"},
    {"in_children_overlap", kLoss,
     "Last key \"d\" is not less than exclusive_max \"c\" specified by parent "
     "node"},
    {"in_missing_child_ref", kLoss,
     "Error decoding b-tree node: Invalid offset/length pair in "
     "{file_id=\"\"+\"\", offset=18446744073709551615, "
     "length=18446744073709551615}; at byte 43"},
    {"in_scpl_gt_key", kLoss,
     "Error decoding b-tree node: Key 0: subtree common prefix length of 3 "
     "exceeds key length of 2; at byte 55"},
    {"num_config_differs", StatusCode::kFailedPrecondition,
     "Configuration mismatch on uuid: expected "
     "\"000102030405060708090a0b0c0d0e0f\" but received "
     "\"eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee\""},
    {"num_kind_numbered_inside", kLoss,
     "manifest.0000000000000001: Expected single-file manifest kind, but "
     "received: numbered"},
    {"num_wrong_generation", kLoss,
     "manifest.0000000000000002: Expected generation number 2, but received: "
     "1"},
    {"ref_dotdot_path", kInvalid,
     "Error reading Byte range [0, 26) of "
     "memory:/d/../d/00000000000000000000000000000000: Invalid key: "
     "\"d/../d/00000000000000000000000000000000\""},
    {"ref_file_id_out_of_range", kLoss,
     "Data file id 5 is outside range [0, 1); at byte 79"},
    {"ref_missing_data_file", StatusCode::kNotFound,
     "Error reading Byte range [0, 26) of "
     "memory:/d/00000000000000000000000000000000"},
    {"tab_base_gt_path", kLoss,
     "base_path_length[0] = 35 > path_length[0] = 34 = prefix_length(0) + "
     "suffix_length(34); at byte 41"},
    {"tab_prefix_crosses_base", kLoss,
     "path_prefix_length[0] = 3 > min(base_path_length[0] = 2, "
     "base_path_length[1] = 1) is not valid if base_path_length[0] != "
     "base_path_length[1]; at byte 44"},
    {"tab_prefix_gt_prev_path", kLoss,
     "path_prefix_length[0] = 40 > path_length[0] = 34; at byte 44"},
    {"val_missing_file", StatusCode::kNotFound,
     "Error reading data file memory:/d/ffffffffffffffffffffffffffffffff"},
    {"val_past_eof", StatusCode::kOutOfRange,
     "Requested byte range [5, 100005) is not valid for value of size 65"},
    {"ver_gen_0", kLoss, "generation_number[0] must be non-zero; at byte "},
    {"ver_gen_ceiling_plus_1", kLoss,
     "generation_number=1152921504606846993 exceeds maximum "
     "1152921504606846992 for version_tree_arity_log2=4; at byte "},
    {"ver_missing_root_height", kLoss,
     "non-zero root_height=1 for empty generation 1; at byte "},
    {"ver_missing_root_stats", kLoss,
     "non-zero statistics {num_indirect_value_bytes=0, num_tree_bytes=0, "
     "num_keys=1} for empty generation_number[0]=1; at byte "},
    {"ver_none", kLoss,
     "num_children=0 outside valid range [1, 16]; at byte 40"},
    {"ver_span_two_leaves", kLoss,
     "Generation range [16, 17] exceeds maximum of [17, 17]; at byte 108"},
    {"ver_time_equal", kLoss,
     "commit_time[1]=2023-11-14T22:13:20+00:00 <= "
     "commit_time[0]=2023-11-14T22:13:20+00:00; at byte 108"},
    {"ver_wrong_height", kLoss, "Expected height of 1 but received: 0"},
    {"vn_misaligned", kLoss,
     "generation_number[0]=15 is not a multiple of 16; at byte 107"},
    {"vn_num_generations_0", kLoss,
     "num_generations[0]=0 for generation_number[0]=16 is outside valid range "
     "[1, 16]; at byte 107"},
    {"vn_time_not_older", kLoss,
     "version_tree_nodes.back().commit_time=2023-11-14T22:13:20+00:00 >= "
     "versions.front().commit_time=2023-11-14T22:13:20+00:00; at byte 107"},
    {"vn_unexpected", kLoss,
     "Unexpected child with generation_number[0]=16 and entry_height[0]=1 "
     "given last generation_number=1; at byte 107"},
    {"vt_arity_mismatch", kLoss,
     "Expected version_tree_arity_log2=4 but received: 3"},
    {"vt_gen_mismatch", kLoss,
     "Expected generation number 16 but received: 32"},
    {"vt_misaligned", kLoss,
     "Error decoding version tree node: generation_number[0]=15 is not a "
     "multiple of 16; at byte 68"},
    {"vt_time_order", kLoss,
     "Error decoding version tree node: "
     "commit_time[1]=2023-11-14T22:13:20.000000001+00:00 <= "
     "commit_time[0]=2023-11-14T22:13:20.000000001+00:00; at byte 82"},
};

TEST(GoldenTest, BadDatabasesAreRefusedEachForItsReason) {
  for (const BadCase& bad : kBadCases) {
    SCOPED_TRACE(bad.name);
    const auto store = LoadGolden(std::string("bad_") + bad.name);
    const Status status = Check(*store);
    EXPECT_EQ(status.code(), bad.code);
    EXPECT_THAT(std::string(status.message()), HasSubstr(bad.text));
    const std::string kind = std::string(bad.name).substr(0, 3);
    if (kind == "cfg" || kind == "env" || kind == "tab") {
      EXPECT_THAT(std::string(status.message()),
                  ::testing::StartsWith(kManifest));
    }
  }
}

TEST(GoldenTest, EveryBadDatabaseIsInTheTable) {
  const nlohmann::json expectations = LoadExpectations();
  std::vector<std::string> want;
  for (const auto& [name, value] : expectations["invalid"].items()) {
    want.push_back(name);
  }
  std::vector<std::string> have;
  for (const BadCase& bad : kBadCases) {
    have.push_back(std::string("bad_") + bad.name);
  }
  EXPECT_EQ(have.size(), 47u);
  EXPECT_THAT(have, ::testing::UnorderedElementsAreArray(want));
}

TEST(GoldenTest, MergedDatabaseReadsItsChildren) {
  const auto store = LoadGolden("ts_merge");
  for (const char* child : {"ocdbt.process_0/", "ocdbt.process_1/"}) {
    const auto items = ReadItems(*store, child);
    ASSERT_TRUE(items.ok()) << items.status().ToString();
    EXPECT_FALSE(items->empty());
  }
  const auto database = OpenGolden(*store);
  const auto value = database->Find("w/1.0");
  ASSERT_TRUE(value.ok()) << value.status().ToString();
  EXPECT_EQ(value->file, "ocdbt.process_1/d/69f21f6c09440352a1c0e3e158e6bb2e");
}

}  // namespace
}  // namespace holdfast::ocdbt
