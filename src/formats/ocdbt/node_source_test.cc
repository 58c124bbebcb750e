#include "formats/ocdbt/node_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "stores/storage/memory_store.h"
#include "twins/counting_store.h"

namespace holdfast::ocdbt {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kCacheBytesMax = 1000000;

// Returns a leaf whose only value is in "rel" of the same base path.
Bytes MakeLeaf(const std::string& key) {
  LeafEntry entry;
  entry.key = key;
  entry.SetIndirect({0, 1, 2});
  return *SealEnvelope(ObjectKind::kBtreeNode,
                       EncodeLeafNodeBody("", {&entry, 1}, {{"rel", 0}}).view(),
                       {});
}

class NodeSourceTest : public ::testing::Test {
 protected:
  // Writes nodes "k0", "k1", ... to one file and returns their places.
  std::vector<Reference> PutNodes(int count) {
    std::string file;
    std::vector<Reference> places;
    for (int i = 0; i < count; ++i) {
      const Bytes node = MakeLeaf("k" + std::to_string(i));
      places.push_back({0, file.size(), node.size()});
      file += node.view();
    }
    EXPECT_TRUE(store_.Write("base/d/nodes", std::string_view(file)).ok());
    return places;
  }

  MemoryStore store_;
  const DataFile file_ = {"base/d/nodes", 5};
};

TEST_F(NodeSourceTest, NodeIsReadOnceWhileItIsCached) {
  const auto places = PutNodes(3);
  NodeSource source(&store_, kCacheBytesMax, {});
  const auto first = source.ReadBtreeNode(file_, places[1]);
  ASSERT_TRUE(first.ok()) << first.status().ToString();
  EXPECT_EQ((*first)->leaves[0].key, "k1");
  ASSERT_TRUE(store_.Delete("base/d/nodes").ok());
  EXPECT_EQ(*source.ReadBtreeNode(file_, places[1]), *first);
  EXPECT_EQ(source.ReadBtreeNode(file_, places[2]).status().code(),
            StatusCode::kNotFound);
}

TEST_F(NodeSourceTest, LeastRecentlyUsedNodeIsDropped) {
  const auto places = PutNodes(3);
  NodeSource probe(&store_, kCacheBytesMax, {});
  const uint64_t node_bytes =
      (*probe.ReadBtreeNode(file_, places[0]))->memory_byte_count();
  NodeSource source(&store_, 2 * node_bytes, {});
  for (const int i : {0, 1, 0, 2}) {
    ASSERT_TRUE(source.ReadBtreeNode(file_, places[i]).ok());
  }
  ASSERT_TRUE(store_.Delete("base/d/nodes").ok());
  EXPECT_TRUE(source.ReadBtreeNode(file_, places[0]).ok());
  EXPECT_FALSE(source.ReadBtreeNode(file_, places[1]).ok());
  EXPECT_TRUE(source.ReadBtreeNode(file_, places[2]).ok());
}

TEST_F(NodeSourceTest, FailedReadIsTriedAgain) {
  NodeSource source(&store_, kCacheBytesMax, {});
  const Bytes node = MakeLeaf("k0");
  const Reference place{0, 0, node.size()};
  EXPECT_FALSE(source.ReadBtreeNode(file_, place).ok());
  PutNodes(1);
  EXPECT_TRUE(source.ReadBtreeNode(file_, place).ok());
}

// The same bytes have another meaning below another base path.
TEST_F(NodeSourceTest, BasePathIsPartOfTheIdentity) {
  const auto places = PutNodes(1);
  NodeSource source(&store_, kCacheBytesMax, {});
  const auto path = [&](size_t base_byte_count) {
    const auto node =
        source.ReadBtreeNode({"base/d/nodes", base_byte_count}, places[0]);
    return (*node)->files[0].path;
  };
  EXPECT_EQ(path(5), "base/rel");
  EXPECT_EQ(path(0), "rel");
  EXPECT_EQ(path(5), "base/rel");
}

TEST_F(NodeSourceTest, ThreadsShareOneRead) {
  const auto places = PutNodes(1);
  CountingStore counting(&store_);
  NodeSource source(&counting, kCacheBytesMax, {});
  std::vector<std::shared_ptr<const BtreeNode>> nodes(8);
  std::vector<std::thread> threads;
  for (auto& node : nodes) {
    threads.emplace_back(
        [&] { node = *source.ReadBtreeNode(file_, places[0]); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& node : nodes) EXPECT_EQ(node, nodes[0]);
  EXPECT_EQ(counting.counters().read_calls, 1u);
}

TEST_F(NodeSourceTest, ErrorsNameRangeAndFile) {
  PutNodes(1);
  NodeSource source(&store_, kCacheBytesMax, {});
  const auto error = [&](const DataFile& file, const Reference& range) {
    return source.ReadBtreeNode(file, range).status().ToString();
  };
  EXPECT_EQ(error(file_, {0, 3, 5000}),
            "OUT_OF_RANGE: Error reading Byte range [3, 5003) of "
            "memory:/base/d/nodes: Requested byte range [3, 5003) is not valid "
            "for value of size " +
                std::to_string(store_.Stat("base/d/nodes")->byte_count));
  EXPECT_THAT(error(file_, {0, 0, 20}),
              HasSubstr("Error decoding b-tree node: Length in header"));
  EXPECT_THAT(error({"../d/nodes", 0}, {0, 0, 20}),
              HasSubstr("INVALID_ARGUMENT: Error reading Byte range [0, 20) of "
                        "memory:/../d/nodes: Invalid key: \"../d/nodes\""));
}

}  // namespace
}  // namespace holdfast::ocdbt
