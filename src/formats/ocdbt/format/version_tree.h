// The version tree node, and the lists that it and manifests hold: lists of
// versions, and of references to version tree nodes.
//
// With a = version_tree_arity_log2, a node of height h covers an aligned span
// of 2^(a*(h+1)) generations.
//
// Thread-safety: values and pure functions. Units: bytes; nanoseconds since
// 1970-01-01 UTC. Errors: DataLoss or InvalidArgument, as in TensorStore.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/ocdbt/format/body_reader.h"
#include "formats/ocdbt/format/body_writer.h"
#include "formats/ocdbt/format/data_file_table.h"
#include "formats/ocdbt/format/envelope.h"
#include "ground/base/bytes.h"
#include "holdfast/status.h"

namespace holdfast::ocdbt {

// The B+tree of one generation.
struct Version {
  uint64_t generation = 0;
  uint8_t root_height = 0;
  Reference root;  // may be missing: no keys
  Statistics statistics;
  uint64_t commit_time_ns = 0;

  bool operator==(const Version&) const = default;
};

struct VersionNodeReference {
  uint64_t generation = 0;  // the last one below
  Reference node;
  uint64_t generation_count = 0;
  uint64_t commit_time_ns = 0;  // of the first generation below
  uint8_t height = 0;

  bool operator==(const VersionNodeReference&) const = default;
};

struct VersionTreeNode {
  uint8_t version_tree_arity_log2 = 0;
  uint8_t height = 0;
  DataFileTable files;
  std::vector<Version> versions;               // height 0
  std::vector<VersionNodeReference> children;  // height > 0

  uint64_t LastGeneration() const {
    return height == 0 ? versions.back().generation
                       : children.back().generation;
  }
};

// Returns the largest height that a version tree node can have.
int VersionTreeHeightMax(int arity_log2);

// Returns "2023-11-14T22:13:20.5+00:00".
std::string CommitTimeText(uint64_t commit_time_ns);

Result<std::vector<Version>> ReadVersions(BodyReader& reader, int arity_log2,
                                          const DataFileTable& files);
uint64_t VersionsBytesMax(size_t version_count);
void WriteVersions(const std::vector<Version>& versions,
                   const DataFileTableWriter& files, BodyWriter& writer);

// With `child_height` >= 0, all references have this height. With
// kHeightStored, their heights are stored in a column.
inline constexpr int kHeightStored = -1;
Result<std::vector<VersionNodeReference>> ReadVersionNodeReferences(
    BodyReader& reader, uint64_t count_max, int child_height,
    const DataFileTable& files);
uint64_t VersionNodeReferencesBytesMax(size_t count);
void WriteVersionNodeReferences(
    const std::vector<VersionNodeReference>& references, int child_height,
    const DataFileTableWriter& files, BodyWriter& writer);

// Manifests and version tree nodes share these checks.
Status CheckCommitTimes(const BodyReader& reader,
                        const std::vector<VersionNodeReference>& references);
Status CheckNonZeroGeneration(const BodyReader& reader, size_t index,
                              uint64_t generation);
Status CheckAligned(const BodyReader& reader, size_t index, uint64_t generation,
                    uint64_t step);
Status CheckGenerationCount(const BodyReader& reader, size_t index,
                            const VersionNodeReference& reference,
                            uint64_t count_max);

// `transitive_base` is the base path of the file that holds the node.
Result<VersionTreeNode> DecodeVersionTreeNode(const Bytes& object,
                                              std::string_view transitive_base,
                                              const DecodeLimits& limits = {});
// Encodes the body only. REQUIRES: at least one entry.
Bytes EncodeVersionTreeNodeBody(const VersionTreeNode& node);

}  // namespace holdfast::ocdbt
