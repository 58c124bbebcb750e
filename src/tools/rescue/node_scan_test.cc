#include "tools/rescue/node_scan.h"

#include <gtest/gtest.h>

#include <random>

#include "ground/base/coding.h"
#include "ground/base/crc32c.h"
#include "stores/storage/memory_store.h"

namespace holdfast {
namespace {

using ocdbt::ObjectKind;

std::string NodeObject(ObjectKind kind, size_t body_bytes,
                       std::mt19937_64& random) {
  std::string body(body_bytes, '\0');
  for (char& c : body) c = static_cast<char>(random());
  return ocdbt::SealEnvelope(kind, body, {.zstd = false})->ToString();
}

std::vector<ScannedNode> Scan(const std::string& file) {
  MemoryStore store;
  store.Put("d/x", Bytes(file));
  auto nodes = ScanForNodes(store, "d/x", file.size());
  EXPECT_TRUE(nodes.ok()) << nodes.status().ToString();
  return nodes.ok() ? *nodes : std::vector<ScannedNode>();
}

// Scans by trying every offset.
std::vector<ScannedNode> SlowScan(const std::string& file) {
  std::vector<ScannedNode> nodes;
  for (size_t at = 0; at + 16 <= file.size();) {
    const auto kind = static_cast<ObjectKind>(
        __builtin_bswap32(LoadLittle<uint32_t>(&file[at])));
    const auto size = LoadLittle<uint64_t>(&file[at + 4]);
    const bool is_node = (kind == ObjectKind::kBtreeNode ||
                          kind == ObjectKind::kVersionTreeNode) &&
                         size >= 16 && size <= file.size() - at;
    if (is_node && Crc32c(std::string_view(file).substr(at, size - 4)) ==
                       LoadLittle<uint32_t>(&file[at + size - 4])) {
      nodes.push_back({kind, at, size});
      at += size;
    } else {
      ++at;
    }
  }
  return nodes;
}

TEST(NodeScanTest, FindsWhatALookAtEveryOffsetFinds) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    std::mt19937_64 random(seed);
    std::string file;
    for (int i = 0; i < 8; ++i) {
      const bool is_node = random() % 2 == 0;
      std::string part =
          NodeObject(random() % 3 == 0 ? ObjectKind::kVersionTreeNode
                                       : ObjectKind::kBtreeNode,
                     random() % 300, random);
      // Append a node, a node with a flipped bit, or a truncated node, and then
      // some bytes.
      if (!is_node) part[random() % part.size()] ^= 1 << random() % 8;
      if (random() % 8 == 0) part.resize(random() % part.size());
      file += part;
      for (size_t n = random() % 40; n > 0; --n) file += '\x0c';
    }
    EXPECT_EQ(Scan(file), SlowScan(file)) << "seed " << seed;
  }
}

// Reads are made in blocks of 1 MiB.
TEST(NodeScanTest, FindsNodesAcrossTheBordersOfBlocks) {
  std::mt19937_64 random(7);
  const size_t block = size_t{1} << 20;
  for (size_t before = block - 20; before <= block + 2; ++before) {
    const std::string node = NodeObject(ObjectKind::kBtreeNode, 100, random);
    const std::string file = std::string(before, 'v') + node;
    const std::vector<ScannedNode> want = {
        {ObjectKind::kBtreeNode, before, node.size()}};
    EXPECT_EQ(Scan(file), want) << before;
  }
  // A node of several blocks, followed by another one.
  const std::string large =
      NodeObject(ObjectKind::kBtreeNode, 3 * block, random);
  const std::string small =
      NodeObject(ObjectKind::kVersionTreeNode, 10, random);
  const std::vector<ScannedNode> want = {
      {ObjectKind::kBtreeNode, 5, large.size()},
      {ObjectKind::kVersionTreeNode, 5 + large.size(), small.size()}};
  EXPECT_EQ(Scan("value" + large + small), want);
}

// Each false header claims the complete rest of the file. The bytes that are
// summed are limited, and so is the time.
TEST(NodeScanTest, ReadsAFileOfFalseHeadsAFewTimesAtMost) {
  std::string file;
  for (int i = 0; i < 20000; ++i) {
    file += std::string("\x0c\xdb\x20\xde", 4) +
            std::string("\0\0\x04\0\0\0\0\0", 8) + std::string("\0\0", 2);
  }
  class Counting : public MemoryStore {
   public:
    Result<Bytes> Read(std::string_view key, ByteRange range) override {
      auto bytes = MemoryStore::Read(key, range);
      if (bytes.ok()) read_bytes += bytes->size();
      return bytes;
    }
    uint64_t read_bytes = 0;
  } store;
  store.Put("d/x", Bytes(file));
  const auto nodes = ScanForNodes(store, "d/x", file.size());
  ASSERT_TRUE(nodes.ok());
  EXPECT_TRUE(nodes->empty());
  EXPECT_LE(store.read_bytes, (kRereadsMax + 2) * file.size());
}

}  // namespace
}  // namespace holdfast
