#include "formats/ocdbt/format/version_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>

#include "formats/ocdbt/format/commit_time_test_util.h"

namespace holdfast::ocdbt {
namespace {

Version MakeVersion(uint64_t generation) {
  Version version;
  version.generation = generation;
  version.root = {0, 10 * generation, 7};
  version.statistics = {1, 7, 0};
  version.commit_time_ns = kTimeNs + generation;
  return version;
}

VersionNodeReference MakeChild(uint64_t generation, uint64_t count,
                               uint8_t height) {
  return {generation, {0, generation, 5}, count, kTimeNs + generation, height};
}

// Returns a node of height 0 and arity 4 with generations 5 ... 7.
VersionTreeNode LeafNode() {
  VersionTreeNode node;
  node.version_tree_arity_log2 = 2;
  node.files = {{"d/file", 0}};
  for (const uint64_t generation : {5, 6, 7}) {
    node.versions.push_back(MakeVersion(generation));
  }
  return node;
}

// Returns a node of height 1 and arity 4 whose children cover 17 ... 20 and 25
// ... 28.
VersionTreeNode InteriorNode() {
  VersionTreeNode node;
  node.version_tree_arity_log2 = 2;
  node.height = 1;
  node.files = {{"d/file", 0}};
  node.children = {MakeChild(20, 4, 0), MakeChild(28, 3, 0)};
  return node;
}

Result<VersionTreeNode> RoundTrip(const VersionTreeNode& node) {
  const auto object =
      SealEnvelope(ObjectKind::kVersionTreeNode,
                   EncodeVersionTreeNodeBody(node).view(), {.zstd = false});
  return DecodeVersionTreeNode(*object, "");
}

// Returns the error without "code: Error decoding version tree node: " and the
// position.
std::string Error(VersionTreeNode node,
                  const std::function<void(VersionTreeNode&)>& damage) {
  damage(node);
  const auto decoded = RoundTrip(node);
  if (decoded.ok()) return "OK";
  std::string text(decoded.status().message());
  text = text.substr(0, text.find("; at byte"));
  const std::string context = "Error decoding version tree node: ";
  EXPECT_TRUE(text.starts_with(context)) << text;
  return text.substr(context.size());
}

TEST(VersionTreeTest, LeafNodeRoundTrips) {
  VersionTreeNode node = LeafNode();
  node.versions[1].root = {0, Reference::kMissing, Reference::kMissing};
  node.versions[1].statistics = {};
  const auto decoded = RoundTrip(node);
  ASSERT_TRUE(decoded.ok()) << decoded.status().ToString();
  EXPECT_EQ(decoded->versions, node.versions);
  EXPECT_EQ(decoded->files, node.files);
  EXPECT_EQ(decoded->LastGeneration(), 7u);
}

TEST(VersionTreeTest, InteriorNodeRoundTrips) {
  const auto decoded = RoundTrip(InteriorNode());
  ASSERT_TRUE(decoded.ok()) << decoded.status().ToString();
  EXPECT_EQ(decoded->children, InteriorNode().children);
  EXPECT_EQ(decoded->LastGeneration(), 28u);
}

using NodeCase = std::pair<std::string, std::function<void(VersionTreeNode&)>>;

TEST(VersionTreeTest, RefusesDamagedLeafNodes) {
  const NodeCase cases[] = {
      {"num_children=0 outside valid range [1, 4]",
       [](auto& n) {
         n.versions.clear();
         n.files.clear();
       }},
      {"Stored num_children=5 exceeds maximum of 4",
       [](auto& n) { n.versions.resize(5); }},
      {"generation_number[0] must be non-zero",
       [](auto& n) { n.versions[0].generation = 0; }},
      {"generation_number[1]=5 <= generation_number[0]=5",
       [](auto& n) { n.versions[1].generation = 5; }},
      {"non-zero root_height=2 for empty generation 6",
       [](auto& n) {
         n.versions[1].root = {0, Reference::kMissing, Reference::kMissing};
         n.versions[1].root_height = 2;
       }},
      {"non-zero statistics {num_indirect_value_bytes=0, num_tree_bytes=7, "
       "num_keys=1} for empty generation_number[1]=6",
       [](auto& n) {
         n.versions[1].root = {0, Reference::kMissing, Reference::kMissing};
       }},
      {"commit_time[2]=2023-11-14T22:13:20.000000006+00:00 <= "
       "commit_time[1]=2023-11-14T22:13:20.000000006+00:00",
       [](auto& n) { n.versions[2].commit_time_ns = kTimeNs + 6; }},
      {"Generation range [4, 7] exceeds maximum of [5, 7]",
       [](auto& n) { n.versions[0].generation = 4; }},
      // 2^62 + 4
      {"generation_number=4611686018427387909 exceeds maximum "
       "4611686018427387908 for version_tree_arity_log2=2",
       [](auto& n) {
         n.versions = {MakeVersion((uint64_t{1} << 62) + 5)};
         n.versions[0].root.offset = 0;
       }},
      {"Expected version_tree_arity_log2 in range [1, 16] but received: 17",
       [](auto& n) { n.version_tree_arity_log2 = 17; }},
  };
  for (const auto& [want, damage] : cases) {
    EXPECT_EQ(Error(LeafNode(), damage), want);
  }
}

TEST(VersionTreeTest, AcceptsTheLastPossibleGeneration) {
  EXPECT_EQ(Error(LeafNode(),
                  [](auto& n) {
                    n.versions = {MakeVersion((uint64_t{1} << 62) + 4)};
                    n.versions[0].root.offset = 0;
                  }),
            "OK");
}

TEST(VersionTreeTest, RefusesDamagedInteriorNodes) {
  const NodeCase cases[] = {
      {"num_children=0 outside valid range [1, 4]",
       [](auto& n) {
         n.children.clear();
         n.files.clear();
       }},
      {"Stored num_children=5 exceeds maximum of 4",
       [](auto& n) { n.children.resize(5); }},
      {"height=31 exceeds maximum of 30 for version_tree_arity_log2=2",
       [](auto& n) { n.height = 31; }},
      {"generation_number[0] must be non-zero",
       [](auto& n) { n.children[0].generation = 0; }},
      {"generation_number[0]=20 >= generation_number[1]=20",
       [](auto& n) { n.children[1].generation = 20; }},
      {"generation_number[1]=27 is not a multiple of 4",
       [](auto& n) { n.children[1].generation = 27; }},
      {"num_generations[1]=0 for generation_number[1]=28 is outside valid "
       "range [1, 4]",
       [](auto& n) { n.children[1].generation_count = 0; }},
      {"num_generations[0]=5 for generation_number[0]=20 is outside valid "
       "range [1, 4]",
       [](auto& n) { n.children[0].generation_count = 5; }},
      {"commit_time[1]=2023-11-14T22:13:20.00000002+00:00 <= "
       "commit_time[0]=2023-11-14T22:13:20.00000002+00:00",
       [](auto& n) { n.children[1].commit_time_ns = kTimeNs + 20; }},
      {"generation_number[0]=16 cannot be in the same node as "
       "generation_number[1]=28",
       [](auto& n) { n.children[0] = MakeChild(16, 4, 0); }},
  };
  for (const auto& [want, damage] : cases) {
    EXPECT_EQ(Error(InteriorNode(), damage), want);
  }
}

TEST(VersionTreeTest, ChildReferenceMustNotBeMissing) {
  EXPECT_THAT(Error(InteriorNode(),
                    [](auto& n) {
                      n.children[0].node.offset = Reference::kMissing;
                      n.children[0].node.byte_count = Reference::kMissing;
                    }),
              ::testing::StartsWith("Invalid offset/length pair"));
}

TEST(VersionTreeTest, RefusesTrailingByte) {
  std::string body = EncodeVersionTreeNodeBody(LeafNode()).ToString() + "x";
  const auto object =
      SealEnvelope(ObjectKind::kVersionTreeNode, body, {.zstd = true});
  EXPECT_THAT(DecodeVersionTreeNode(*object, "").status().ToString(),
              ::testing::StartsWith(
                  "INVALID_ARGUMENT: Error decoding version tree node: End of "
                  "data expected; remaining length: 1; at byte "));
}

TEST(VersionTreeTest, CommitTimeTextIsRfc3339) {
  EXPECT_EQ(CommitTimeText(0), "1970-01-01T00:00:00+00:00");
  EXPECT_EQ(CommitTimeText(1700000000500000000), "2023-11-14T22:13:20.5+00:00");
  EXPECT_EQ(CommitTimeText(~uint64_t{0}),
            "2554-07-21T23:34:33.709551615+00:00");
}

}  // namespace
}  // namespace holdfast::ocdbt
