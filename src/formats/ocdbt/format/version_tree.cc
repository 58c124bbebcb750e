#include "formats/ocdbt/format/version_tree.h"

#include <chrono>
#include <cstdio>

#include "formats/ocdbt/format/config.h"
#include "ground/base/status_macros.h"

namespace holdfast::ocdbt {
namespace {

// The smallest size of a record: one byte per varint column, eight per time.
constexpr uint64_t kVersionBytesMin = 1 + 1 + 3 + 3 + 8;
constexpr uint64_t kVersionNodeReferenceBytesMin = 1 + 3 + 1 + 8;

std::string Indexed(const char* name, size_t index, uint64_t value) {
  return std::string(name) + "[" + std::to_string(index) +
         "]=" + std::to_string(value);
}

std::string IndexedTime(size_t index, uint64_t commit_time_ns) {
  return "commit_time[" + std::to_string(index) +
         "]=" + CommitTimeText(commit_time_ns);
}

Status TimesNotIncreasing(const BodyReader& reader, size_t index,
                          uint64_t before_ns, uint64_t here_ns) {
  return reader.DataLoss(IndexedTime(index, here_ns) +
                         " <= " + IndexedTime(index - 1, before_ns));
}

Status TooManyChildren(const BodyReader& reader, uint64_t count,
                       uint64_t count_max) {
  return reader.DataLoss("Stored num_children=" + std::to_string(count) +
                         " exceeds maximum of " + std::to_string(count_max));
}

Status NoChildren(const BodyReader& reader, uint64_t count_max) {
  return reader.DataLoss("num_children=0 outside valid range [1, " +
                         std::to_string(count_max) + "]");
}

Status CheckMissingRoot(const BodyReader& reader, size_t index,
                        const Version& version) {
  if (!version.root.missing()) return Status();
  if (version.root_height != 0) {
    return reader.DataLoss(
        "non-zero root_height=" + std::to_string(version.root_height) +
        " for empty generation " + std::to_string(version.generation));
  }
  if (version.statistics == Statistics()) return Status();
  return reader.DataLoss(
      "non-zero statistics " + StatisticsText(version.statistics) +
      " for empty " + Indexed("generation_number", index, version.generation));
}

// No shift overflows: both `2^(a*(H+1)) + 2^a` and its parts fit into 64 bits,
// as a*(H+1) <= 63.
Status CheckGenerationCeiling(const BodyReader& reader, uint64_t last,
                              int arity_log2) {
  const int levels = VersionTreeHeightMax(arity_log2) + 1;
  const uint64_t ceiling =
      (uint64_t{1} << arity_log2 * levels) + (uint64_t{1} << arity_log2);
  if (last <= ceiling) return Status();
  return reader.DataLoss(
      "generation_number=" + std::to_string(last) + " exceeds maximum " +
      std::to_string(ceiling) +
      " for version_tree_arity_log2=" + std::to_string(arity_log2));
}

Status CheckVersions(const BodyReader& reader,
                     const std::vector<Version>& versions, int arity_log2) {
  for (size_t i = 0; i < versions.size(); ++i) {
    const Version& version = versions[i];
    HF_RETURN_IF_ERROR(CheckMissingRoot(reader, i, version));
    HF_RETURN_IF_ERROR(CheckNonZeroGeneration(reader, i, version.generation));
    if (i > 0 && version.generation <= versions[i - 1].generation) {
      return reader.DataLoss(
          Indexed("generation_number", i, version.generation) + " <= " +
          Indexed("generation_number", i - 1, versions[i - 1].generation));
    }
  }
  for (size_t i = 1; i < versions.size(); ++i) {
    if (versions[i].commit_time_ns > versions[i - 1].commit_time_ns) continue;
    return TimesNotIncreasing(reader, i, versions[i - 1].commit_time_ns,
                              versions[i].commit_time_ns);
  }
  const uint64_t last = versions.back().generation;
  HF_RETURN_IF_ERROR(CheckGenerationCeiling(reader, last, arity_log2));
  const uint64_t first = versions.front().generation;
  const uint64_t lowest = last - ((last - 1) & ((1u << arity_log2) - 1));
  if (first >= lowest) return Status();
  return reader.DataLoss("Generation range [" + std::to_string(first) + ", " +
                         std::to_string(last) + "] exceeds maximum of [" +
                         std::to_string(lowest) + ", " + std::to_string(last) +
                         "]");
}

Status CheckChild(const BodyReader& reader,
                  const std::vector<VersionNodeReference>& children, size_t i,
                  uint64_t step) {
  const uint64_t generation = children[i].generation;
  HF_RETURN_IF_ERROR(CheckNonZeroGeneration(reader, i, generation));
  if (i > 0 && generation <= children[i - 1].generation) {
    return reader.DataLoss(
        Indexed("generation_number", i - 1, children[i - 1].generation) +
        " >= " + Indexed("generation_number", i, generation));
  }
  HF_RETURN_IF_ERROR(CheckAligned(reader, i, generation, step));
  return CheckGenerationCount(reader, i, children[i], step);
}

// `height` (>= 1) is the height of the node itself.
Status CheckChildren(const BodyReader& reader,
                     const std::vector<VersionNodeReference>& children,
                     int arity_log2, int height) {
  const uint64_t step = uint64_t{1} << arity_log2 * height;
  for (size_t i = 0; i < children.size(); ++i) {
    HF_RETURN_IF_ERROR(CheckChild(reader, children, i, step));
  }
  HF_RETURN_IF_ERROR(CheckCommitTimes(reader, children));
  // arity_log2 * (height + 1) <= 63 since height <= VersionTreeHeightMax.
  const int span_log2 = arity_log2 * (height + 1);
  const uint64_t first = children.front().generation;
  const uint64_t last = children.back().generation;
  if ((first - 1) >> span_log2 == (last - 1) >> span_log2) return Status();
  return reader.DataLoss(
      Indexed("generation_number", 0, first) +
      " cannot be in the same node as " +
      Indexed("generation_number", children.size() - 1, last));
}

Status ReadColumns(BodyReader& reader, const DataFileTable& files,
                   std::vector<Version>& versions) {
  for (Version& version : versions) {
    HF_RETURN_IF_ERROR(reader.ReadVarint64(version.generation));
  }
  for (Version& version : versions) {
    HF_RETURN_IF_ERROR(reader.ReadByte(version.root_height));
  }
  std::vector<Reference> roots(versions.size());
  HF_RETURN_IF_ERROR(ReadReferences(reader, files, AllowMissing::kYes, roots));
  std::vector<Statistics> statistics(versions.size());
  HF_RETURN_IF_ERROR(ReadStatistics(reader, statistics));
  for (size_t i = 0; i < versions.size(); ++i) {
    versions[i].root = roots[i];
    versions[i].statistics = statistics[i];
    HF_RETURN_IF_ERROR(reader.ReadU64Little(versions[i].commit_time_ns));
  }
  return Status();
}

// Writes the file, offset and length columns of one reference field.
template <typename Records, typename Get>
void WriteReferences(const Records& records, const Get& get,
                     const DataFileTableWriter& files, BodyWriter& writer) {
  for (const auto& record : records) {
    writer.PutVarint(files.WrittenIndex(get(record).file_index));
  }
  for (const auto& record : records) writer.PutVarint(get(record).offset);
  for (const auto& record : records) writer.PutVarint(get(record).byte_count);
}

Status ReadVersionNodeBody(BodyReader& reader, std::string_view transitive_base,
                           VersionTreeNode& node) {
  HF_RETURN_IF_ERROR(ReadArityLog2(reader, node.version_tree_arity_log2));
  HF_RETURN_IF_ERROR(reader.ReadByte(node.height));
  const int arity_log2 = node.version_tree_arity_log2;
  const int height_max = VersionTreeHeightMax(arity_log2);
  if (node.height > height_max) {
    return reader.DataLoss(
        "height=" + std::to_string(node.height) + " exceeds maximum of " +
        std::to_string(height_max) +
        " for version_tree_arity_log2=" + std::to_string(arity_log2));
  }
  HF_ASSIGN_OR_RETURN(node.files, ReadDataFileTable(reader, transitive_base));
  if (node.height == 0) {
    HF_ASSIGN_OR_RETURN(node.versions,
                        ReadVersions(reader, arity_log2, node.files));
    return Status();
  }
  const uint64_t count_max = uint64_t{1} << arity_log2;
  HF_ASSIGN_OR_RETURN(node.children,
                      ReadVersionNodeReferences(reader, count_max,
                                                node.height - 1, node.files));
  if (node.children.empty()) return NoChildren(reader, count_max);
  return CheckChildren(reader, node.children, arity_log2, node.height);
}

}  // namespace

int VersionTreeHeightMax(int arity_log2) { return 63 / arity_log2 - 1; }

std::string CommitTimeText(uint64_t commit_time_ns) {
  constexpr uint64_t kSecond = 1000000000;
  const uint64_t seconds = commit_time_ns / kSecond;
  const std::chrono::year_month_day date(
      std::chrono::sys_days(std::chrono::days(seconds / 86400)));
  char text[40];
  std::snprintf(text, sizeof text, "%04d-%02u-%02uT%02u:%02u:%02u",
                static_cast<int>(date.year()),
                static_cast<unsigned>(date.month()),
                static_cast<unsigned>(date.day()),
                static_cast<unsigned>(seconds / 3600 % 24),
                static_cast<unsigned>(seconds / 60 % 60),
                static_cast<unsigned>(seconds % 60));
  std::string result = text;
  if (commit_time_ns % kSecond != 0) {
    std::snprintf(text, sizeof text, ".%09u",
                  static_cast<unsigned>(commit_time_ns % kSecond));
    result += text;
    result.erase(result.find_last_not_of('0') + 1);
  }
  return result + "+00:00";
}

Result<std::vector<Version>> ReadVersions(BodyReader& reader, int arity_log2,
                                          const DataFileTable& files) {
  uint64_t count = 0;
  HF_RETURN_IF_ERROR(reader.ReadVarint64(count));
  const uint64_t count_max = uint64_t{1} << arity_log2;
  if (count > count_max) return TooManyChildren(reader, count, count_max);
  if (count == 0) return NoChildren(reader, count_max);
  HF_RETURN_IF_ERROR(reader.CheckRoomFor(count, kVersionBytesMin));
  std::vector<Version> versions(count);
  HF_RETURN_IF_ERROR(ReadColumns(reader, files, versions));
  HF_RETURN_IF_ERROR(CheckVersions(reader, versions, arity_log2));
  return versions;
}

uint64_t VersionsBytesMax(size_t version_count) {
  return kVarint64BytesMax +
         version_count * (7 * kVarint64BytesMax + 1 + sizeof(uint64_t));
}

void WriteVersions(const std::vector<Version>& versions,
                   const DataFileTableWriter& files, BodyWriter& writer) {
  writer.PutVarint(versions.size());
  for (const Version& version : versions) {
    writer.PutVarint(version.generation);
  }
  for (const Version& version : versions) writer.PutByte(version.root_height);
  WriteReferences(
      versions, [](const Version& v) { return v.root; }, files, writer);
  for (const Version& version : versions) {
    writer.PutVarint(version.statistics.key_count);
  }
  for (const Version& version : versions) {
    writer.PutVarint(version.statistics.tree_byte_count);
  }
  for (const Version& version : versions) {
    writer.PutVarint(version.statistics.indirect_value_byte_count);
  }
  for (const Version& version : versions) {
    writer.PutU64(version.commit_time_ns);
  }
}

Result<std::vector<VersionNodeReference>> ReadVersionNodeReferences(
    BodyReader& reader, uint64_t count_max, int child_height,
    const DataFileTable& files) {
  uint64_t count = 0;
  HF_RETURN_IF_ERROR(reader.ReadVarint64(count));
  if (count > count_max) return TooManyChildren(reader, count, count_max);
  HF_RETURN_IF_ERROR(reader.CheckRoomFor(count, kVersionNodeReferenceBytesMin));
  std::vector<VersionNodeReference> references(count);
  for (VersionNodeReference& reference : references) {
    HF_RETURN_IF_ERROR(reader.ReadVarint64(reference.generation));
  }
  std::vector<Reference> nodes(count);
  HF_RETURN_IF_ERROR(ReadReferences(reader, files, AllowMissing::kNo, nodes));
  for (size_t i = 0; i < count; ++i) {
    references[i].node = nodes[i];
    HF_RETURN_IF_ERROR(reader.ReadVarint64(references[i].generation_count));
  }
  for (VersionNodeReference& reference : references) {
    HF_RETURN_IF_ERROR(reader.ReadU64Little(reference.commit_time_ns));
  }
  for (VersionNodeReference& reference : references) {
    reference.height = static_cast<uint8_t>(child_height);
    if (child_height != kHeightStored) continue;
    HF_RETURN_IF_ERROR(reader.ReadByte(reference.height));
  }
  return references;
}

uint64_t VersionNodeReferencesBytesMax(size_t count) {
  return kVarint64BytesMax +
         count * (5 * kVarint64BytesMax + 1 + sizeof(uint64_t));
}

void WriteVersionNodeReferences(
    const std::vector<VersionNodeReference>& references, int child_height,
    const DataFileTableWriter& files, BodyWriter& writer) {
  writer.PutVarint(references.size());
  for (const VersionNodeReference& reference : references) {
    writer.PutVarint(reference.generation);
  }
  WriteReferences(
      references, [](const VersionNodeReference& r) { return r.node; }, files,
      writer);
  for (const VersionNodeReference& reference : references) {
    writer.PutVarint(reference.generation_count);
  }
  for (const VersionNodeReference& reference : references) {
    writer.PutU64(reference.commit_time_ns);
  }
  if (child_height != kHeightStored) return;
  for (const VersionNodeReference& reference : references) {
    writer.PutByte(reference.height);
  }
}

Status CheckCommitTimes(const BodyReader& reader,
                        const std::vector<VersionNodeReference>& references) {
  for (size_t i = 1; i < references.size(); ++i) {
    const uint64_t before_ns = references[i - 1].commit_time_ns;
    const uint64_t here_ns = references[i].commit_time_ns;
    if (here_ns > before_ns) continue;
    return TimesNotIncreasing(reader, i, before_ns, here_ns);
  }
  return Status();
}

Status CheckNonZeroGeneration(const BodyReader& reader, size_t index,
                              uint64_t generation) {
  if (generation != 0) return Status();
  return reader.DataLoss("generation_number[" + std::to_string(index) +
                         "] must be non-zero");
}

Status CheckAligned(const BodyReader& reader, size_t index, uint64_t generation,
                    uint64_t step) {
  if (generation % step == 0) return Status();
  return reader.DataLoss(Indexed("generation_number", index, generation) +
                         " is not a multiple of " + std::to_string(step));
}

Status CheckGenerationCount(const BodyReader& reader, size_t index,
                            const VersionNodeReference& reference,
                            uint64_t count_max) {
  const uint64_t count = reference.generation_count;
  if (count >= 1 && count <= count_max) return Status();
  return reader.DataLoss(
      Indexed("num_generations", index, count) + " for " +
      Indexed("generation_number", index, reference.generation) +
      " is outside valid range [1, " + std::to_string(count_max) + "]");
}

Result<VersionTreeNode> DecodeVersionTreeNode(const Bytes& object,
                                              std::string_view transitive_base,
                                              const DecodeLimits& limits) {
  const auto decode = [&]() -> Result<VersionTreeNode> {
    HF_ASSIGN_OR_RETURN(
        const OpenedObject opened,
        OpenEnvelope(object, ObjectKind::kVersionTreeNode, limits));
    BodyReader reader(opened.body.view(), opened.body_offset);
    VersionTreeNode node;
    HF_RETURN_IF_ERROR(ReadVersionNodeBody(reader, transitive_base, node));
    HF_RETURN_IF_ERROR(reader.ExpectEnd(opened.unread_byte_count));
    return node;
  };
  Result<VersionTreeNode> node = decode();
  if (node.ok()) return node;
  return node.status().WithContext("Error decoding version tree node");
}

Bytes EncodeVersionTreeNodeBody(const VersionTreeNode& node) {
  DataFileTableWriter files(node.files);
  for (const Version& version : node.versions) {
    files.Use(version.root.file_index);
  }
  for (const VersionNodeReference& child : node.children) {
    files.Use(child.node.file_index);
  }
  files.Sort();
  BodyWriter writer(2 + files.BytesMax() +
                    VersionsBytesMax(node.versions.size()) +
                    VersionNodeReferencesBytesMax(node.children.size()));
  writer.PutByte(node.version_tree_arity_log2);
  writer.PutByte(node.height);
  files.Write(writer);
  if (node.height == 0) {
    WriteVersions(node.versions, files, writer);
  } else {
    WriteVersionNodeReferences(node.children, node.height - 1, files, writer);
  }
  return std::move(writer).Take();
}

}  // namespace holdfast::ocdbt
