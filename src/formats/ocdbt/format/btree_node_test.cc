#include "formats/ocdbt/format/btree_node.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <utility>

#include "formats/ocdbt/format/hex_test_util.h"

namespace holdfast::ocdbt {
namespace {

using ::testing::StartsWith;

Bytes SealNode(std::string_view body) {
  return *SealEnvelope(ObjectKind::kBtreeNode, body, {.zstd = false});
}

// Returns the error of decoding this body, without the position.
std::string NodeError(std::string_view body) {
  const auto node = DecodeBtreeNode(SealNode(body), "");
  if (node.ok()) return "OK";
  std::string text = node.status().ToString();
  return text.substr(0, text.find("; at byte"));
}

std::string DataLoss(const std::string& why) {
  return "DATA_LOSS: Error decoding b-tree node: " + why;
}

std::string FullKey(const BtreeNode& node, size_t i) {
  return std::string(node.key_prefix) + std::string(node.relative_key(i));
}

TEST(BtreeNodeTest, SmallestLeafHasDocumentedBytes) {
  const std::string want = FromHex(
      "0cdb20de 2000000000000000 00 00 00 00 01 03 6b6579 05 00 76616c7565"
      "4677d4b3");
  LeafEntry entry;
  entry.key = "key";
  entry.SetInline("value");
  EXPECT_EQ(SealNode(EncodeLeafNodeBody("", {&entry, 1}, {}).view()).view(),
            want);

  const auto node = DecodeBtreeNode(Bytes(want), "");
  ASSERT_TRUE(node.ok()) << node.status().ToString();
  ASSERT_EQ(node->entry_count(), 1u);
  EXPECT_EQ(FullKey(*node, 0), "key");
  EXPECT_EQ(node->leaves[0].inline_value(), "value");
}

TEST(BtreeNodeTest, MergedLeafHasDocumentedBytes) {
  const std::string body =
      FromHex("00 02 0e 32 24 10 10") +
      "ocdbt.process_0/d/6f319ce43a934da595cde51c75661033"
      "1/d/69f21f6c09440352a1c0e3e158e6bb2e" +
      FromHex("05 04 00 02 02 05 01 09 03 03") + "only01w/.zarray0.01.0" +
      FromHex("01 01 02 c801 c801 00 00 00 01 01 00 01 00 00") + "xx{}";
  ASSERT_EQ(body.size(), 144u);
  const auto node = DecodeBtreeNode(SealNode(body), "");
  ASSERT_TRUE(node.ok()) << node.status().ToString();
  ASSERT_EQ(node->entry_count(), 5u);
  EXPECT_EQ(FullKey(*node, 1), "only1");
  EXPECT_EQ(FullKey(*node, 4), "w/1.0");
  EXPECT_EQ(node->leaves[2].inline_value(), "{}");
  EXPECT_EQ(node->leaves[4].file_index, 1u);
  EXPECT_EQ(node->leaves[4].value_byte_count, 200u);
  EXPECT_EQ(
      EncodeLeafNodeBody(node->key_prefix, node->leaves, node->files).view(),
      body);
}

struct RandomNode {
  std::map<std::string, std::string> text;  // keys, and inline values
  std::vector<LeafEntry> leaves;
  std::vector<ChildEntry> children;
  DataFileTable files = {{"d/a", 0}, {"x/d/b", 2}, {"d/c", 0}};
};

RandomNode MakeRandom(std::mt19937_64& random) {
  RandomNode node;
  const size_t count = 1 + random() % 30;
  const std::string stem(random() % 40, 's');
  while (node.text.size() < count) {
    std::string key = stem;
    for (size_t n = random() % 9; n > 0; --n) key += "ab\xff"[random() % 3];
    node.text[key] = std::string(random() % 50, 'v');
  }
  for (const auto& [key, value] : node.text) {
    const Reference reference{static_cast<uint32_t>(random() % 3),
                              random() >> 2, random() >> 2};
    LeafEntry leaf;
    leaf.key = key;
    leaf.SetInline(value);
    if (random() % 2 == 0) leaf.SetIndirect(reference);
    node.leaves.push_back(leaf);
    ChildEntry child;
    child.key = key;
    child.subtree_prefix_byte_count =
        static_cast<uint16_t>(random() % (key.size() + 1));
    child.node = reference;
    child.statistics = {random(), random(), random()};
    node.children.push_back(child);
  }
  return node;
}

TEST(BtreeNodeTest, RandomLeavesRoundTrip) {
  std::mt19937_64 random(11);
  for (int round = 0; round < 300; ++round) {
    const RandomNode want = MakeRandom(random);
    const Bytes body = EncodeLeafNodeBody("", want.leaves, want.files);
    const auto node = DecodeBtreeNode(SealNode(body.view()), "");
    ASSERT_TRUE(node.ok()) << node.status().ToString();
    ASSERT_EQ(node->entry_count(), want.leaves.size());
    size_t longest = 0;
    for (size_t i = 0; i < want.leaves.size(); ++i) {
      const LeafEntry& got = node->leaves[i];
      ASSERT_EQ(FullKey(*node, i), want.leaves[i].key);
      longest = std::max(longest, want.leaves[i].key.size());
      ASSERT_EQ(got.is_inline(), want.leaves[i].is_inline());
      ASSERT_EQ(got.value_byte_count, want.leaves[i].value_byte_count);
      if (got.is_inline()) {
        ASSERT_EQ(got.inline_value(), want.leaves[i].inline_value());
      } else {
        ASSERT_EQ(got.offset, want.leaves[i].offset);
        ASSERT_EQ(node->files[got.file_index],
                  want.files[want.leaves[i].file_index]);
      }
    }
    EXPECT_EQ(node->key_bytes_max, longest);
    // When the shared prefix is split off, the bytes stay the same.
    EXPECT_EQ(
        EncodeLeafNodeBody(node->key_prefix, node->leaves, node->files).view(),
        body.view());
  }
}

TEST(BtreeNodeTest, RandomInteriorNodesRoundTrip) {
  std::mt19937_64 random(12);
  for (int round = 0; round < 300; ++round) {
    const RandomNode want = MakeRandom(random);
    const Bytes body = EncodeInteriorNodeBody(3, "", want.children, want.files);
    const auto node = DecodeBtreeNode(SealNode(body.view()), "base/");
    ASSERT_TRUE(node.ok()) << node.status().ToString();
    ASSERT_EQ(node->height, 3);
    ASSERT_EQ(node->entry_count(), want.children.size());
    for (size_t i = 0; i < want.children.size(); ++i) {
      const ChildEntry& got = node->children[i];
      ASSERT_EQ(FullKey(*node, i), want.children[i].key);
      ASSERT_EQ(got.subtree_prefix_byte_count,
                want.children[i].subtree_prefix_byte_count);
      ASSERT_EQ(got.statistics, want.children[i].statistics);
      ASSERT_EQ(got.node.offset, want.children[i].node.offset);
      ASSERT_EQ(node->files[got.node.file_index].path,
                "base/" + want.files[want.children[i].node.file_index].path);
    }
  }
}

TEST(BtreeNodeTest, AcceptsShorterPrefixesThanPossible) {
  const auto node = DecodeBtreeNode(
      SealNode(FromHex("00 00 02 00 02 02") + "aaab" + FromHex("00 00 00 00")),
      "");
  ASSERT_TRUE(node.ok()) << node.status().ToString();
  EXPECT_EQ(FullKey(*node, 1), "ab");
}

TEST(BtreeNodeTest, RefusesDamagedLeaves) {
  EXPECT_EQ(NodeError(FromHex("00 00 00")), DataLoss("Empty b-tree node"));
  EXPECT_EQ(NodeError(FromHex("00 00 818040")),
            DataLoss("B-tree node has arity 1048577, which exceeds limit of "
                     "1048576"));
  EXPECT_EQ(
      NodeError(FromHex("00 00 02 02 01 01") + "ab" + FromHex("0000 0000")),
      DataLoss("Child 1: Prefix length of 2 exceeds previous key length "
               "1"));
  EXPECT_EQ(NodeError(FromHex("00 00 02 01 01 ffff03") + std::string(99, 'x')),
            DataLoss("Child 1: Key length 65536 exceeds limit of 65535"));
  // Equal keys, decreasing keys, and an empty suffix.
  EXPECT_EQ(
      NodeError(FromHex("00 00 02 00 01 01") + "aa" + FromHex("0000 0000")),
      DataLoss("Invalid key order"));
  EXPECT_EQ(
      NodeError(FromHex("00 00 02 00 01 01") + "ba" + FromHex("0000 0000")),
      DataLoss("Invalid key order"));
  EXPECT_EQ(
      NodeError(FromHex("00 00 02 01 01 00") + "a" + FromHex("0000 0000")),
      DataLoss("Invalid key order"));
  EXPECT_EQ(NodeError(FromHex("00 00 01 01") + "a" + FromHex("00 02")),
            DataLoss("value_kind[0]=2 is outside valid range [0, 1]"));
  EXPECT_EQ(NodeError(FromHex("00 00 01 01") + "a" + FromHex("818040 00")),
            DataLoss("value_length[0]=1048577 exceeds maximum of 1048576 for "
                     "an inline value"));
  EXPECT_EQ(NodeError(FromHex("00 00 01 01") + "a" + FromHex("05 01 00 00")),
            DataLoss("Data file id 0 is outside range [0, 0)"));
  EXPECT_EQ(NodeError(FromHex("00 00 01 01") + "a" + FromHex("01 00") + "vx"),
            "INVALID_ARGUMENT: Error decoding b-tree node: End of data "
            "expected; remaining length: 1");
  EXPECT_EQ(NodeError(FromHex("00 00 01 8080 01")),
            DataLoss("Unexpected end of data"));
  EXPECT_EQ(NodeError(FromHex("00 00 01 808004 0000")),
            DataLoss("Invalid 16-bit varint value"));
}

TEST(BtreeNodeTest, RefusesDamagedInteriorNodes) {
  EXPECT_EQ(NodeError(FromHex("01 00 01 02 03") + "ab" + std::string(9, '\0')),
            DataLoss("Key 0: subtree common prefix length of 3 exceeds key "
                     "length of 2"));
  EXPECT_EQ(
      NodeError(FromHex("01 01 00 00 01 01 00") + "a" +
                FromHex("00 ffffffffffffffffff01 ffffffffffffffffff01 000000")),
      DataLoss("Invalid offset/length pair in {file_id=\"\"+\"\", "
               "offset=18446744073709551615, length=18446744073709551615}"));
}

TEST(BtreeNodeTest, CountIsComparedWithSizeBeforeAllocating) {
  EXPECT_EQ(NodeError(FromHex("00 00 808040") + std::string(100, '\0')),
            DataLoss("Unexpected end of data"));
  EXPECT_EQ(NodeError(FromHex("07 00 808040") + std::string(3000000, '\0')),
            DataLoss("Unexpected end of data"));
}

TEST(BtreeNodeTest, RefusesKeysThatExpandBeyondReason) {
  // Keys of 60,000 bytes that share nothing with the first key, but 59,996
  // bytes with each other.
  const size_t count = 5000;
  std::string body = FromHex("00 00 8827 00");
  for (size_t i = 2; i < count; ++i) body += FromHex("dcd403");
  body += FromHex("01 e0d403");
  for (size_t i = 2; i < count; ++i) body += FromHex("04");
  body += "a" + std::string(60000, 'b');
  for (size_t i = 2; i < count; ++i) {
    body += std::to_string(1000 + i);
  }
  body.append(2 * count, '\0');
  EXPECT_THAT(NodeError(body), StartsWith(DataLoss("Keys of node take 2999")));
}

TEST(BtreeNodeTest, SharedLongPrefixIsStoredOnce) {
  // 5,000 keys of 60,003 bytes: 300 MB if each were stored completely.
  const std::string prefix(60000, 'p');
  std::vector<std::string> rests(5000);
  std::vector<LeafEntry> leaves(rests.size());
  for (size_t i = 0; i < rests.size(); ++i) {
    rests[i] = std::to_string(1000 + i);
    leaves[i].key = rests[i];
    leaves[i].SetInline("");
  }
  const Bytes body = EncodeLeafNodeBody(prefix, leaves, {});
  const auto node = DecodeBtreeNode(SealNode(body.view()), "");
  ASSERT_TRUE(node.ok()) << node.status().ToString();
  EXPECT_LT(node->memory_byte_count(), 1000000u);
  EXPECT_EQ(FullKey(*node, 4999), prefix + rests[4999]);
  EXPECT_EQ(
      EncodeLeafNodeBody(node->key_prefix, node->leaves, node->files).view(),
      body.view());
}

TEST(BtreeNodeTest, RefusesTruncatedBodyEverywhere) {
  std::mt19937_64 random(13);
  const RandomNode want = MakeRandom(random);
  for (const Bytes& body :
       {EncodeLeafNodeBody("", want.leaves, want.files),
        EncodeInteriorNodeBody(1, "", want.children, want.files)}) {
    for (size_t size = 0; size < body.size(); ++size) {
      EXPECT_NE(NodeError(body.view().substr(0, size)), "OK") << size;
    }
  }
}

}  // namespace
}  // namespace holdfast::ocdbt
