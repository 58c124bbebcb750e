#include "formats/ocdbt/format/manifest.h"

#include <string>

#include "ground/base/status_macros.h"

namespace holdfast::ocdbt {
namespace {

std::string At(const char* name, size_t index) {
  return std::string(name) + "[" + std::to_string(index) + "]";
}

Status CheckReference(const BodyReader& reader,
                      const std::vector<VersionNodeReference>& nodes, size_t i,
                      int arity_log2) {
  const VersionNodeReference& node = nodes[i];
  const int height_max = VersionTreeHeightMax(arity_log2);
  if (node.height < 1 || node.height > height_max) {
    return reader.DataLoss(At("entry_height", i) + " outside valid range [1, " +
                           std::to_string(height_max) + "]");
  }
  HF_RETURN_IF_ERROR(CheckNonZeroGeneration(reader, i, node.generation));
  HF_RETURN_IF_ERROR(CheckAligned(reader, i, node.generation,
                                  uint64_t{1} << arity_log2 * node.height));
  if (i == 0) return Status();
  const VersionNodeReference& before = nodes[i - 1];
  if (node.generation <= before.generation) {
    return reader.DataLoss(At("generation_number", i) + "=" +
                           std::to_string(node.generation) +
                           " <= " + At("generation_number", i - 1) + "=" +
                           std::to_string(before.generation));
  }
  if (node.height < before.height) return Status();
  return reader.DataLoss(
      At("entry_height", i) + "=" + std::to_string(node.height) +
      " >= " + At("entry_height", i - 1) + "=" + std::to_string(before.height));
}

Status CheckInSlot(const BodyReader& reader, size_t index,
                   const VersionNodeReference& node,
                   const VersionNodeSlot& slot) {
  if (node.generation < slot.first_generation ||
      node.generation > slot.last_generation) {
    return reader.DataLoss(
        At("generation_number", index) + "=" + std::to_string(node.generation) +
        " is outside expected range [" + std::to_string(slot.first_generation) +
        ", " + std::to_string(slot.last_generation) + "] for height " +
        std::to_string(slot.height));
  }
  return CheckGenerationCount(reader, index, node,
                              node.generation - slot.first_generation + 1);
}

// Matches references (highest first) with slots (lowest first).
Status CheckSlots(const BodyReader& reader, const Manifest& manifest) {
  const std::vector<VersionNodeReference>& nodes = manifest.version_nodes;
  const uint64_t newest = manifest.versions.back().generation;
  size_t left = nodes.size();
  for (const VersionNodeSlot& slot :
       VersionNodeSlots(newest, manifest.config.version_tree_arity_log2)) {
    if (left == 0 || nodes[left - 1].height != slot.height) continue;
    --left;
    HF_RETURN_IF_ERROR(CheckInSlot(reader, left, nodes[left], slot));
  }
  if (left == 0) return Status();
  const VersionNodeReference& node = nodes[left - 1];
  return reader.DataLoss(
      "Unexpected child with " + At("generation_number", left - 1) + "=" +
      std::to_string(node.generation) + " and " + At("entry_height", left - 1) +
      "=" + std::to_string(node.height) +
      " given last generation_number=" + std::to_string(newest));
}

Status CheckVersionNodes(const BodyReader& reader, const Manifest& manifest) {
  const std::vector<VersionNodeReference>& nodes = manifest.version_nodes;
  for (size_t i = 0; i < nodes.size(); ++i) {
    HF_RETURN_IF_ERROR(CheckReference(reader, nodes, i,
                                      manifest.config.version_tree_arity_log2));
  }
  HF_RETURN_IF_ERROR(CheckCommitTimes(reader, nodes));
  const uint64_t oldest_ns = manifest.versions.front().commit_time_ns;
  if (!nodes.empty() && nodes.back().commit_time_ns >= oldest_ns) {
    return reader.DataLoss(
        "version_tree_nodes.back().commit_time=" +
        CommitTimeText(nodes.back().commit_time_ns) +
        " >= versions.front().commit_time=" + CommitTimeText(oldest_ns));
  }
  return CheckSlots(reader, manifest);
}

Status ReadBody(BodyReader& reader, std::string_view directory,
                Manifest& manifest) {
  HF_ASSIGN_OR_RETURN(manifest.config, ReadConfig(reader));
  if (manifest.config.manifest_kind == ManifestKind::kNumbered) {
    return Status();
  }
  const int arity_log2 = manifest.config.version_tree_arity_log2;
  HF_ASSIGN_OR_RETURN(manifest.files, ReadDataFileTable(reader, directory));
  HF_ASSIGN_OR_RETURN(manifest.versions,
                      ReadVersions(reader, arity_log2, manifest.files));
  HF_ASSIGN_OR_RETURN(
      manifest.version_nodes,
      ReadVersionNodeReferences(reader, VersionTreeHeightMax(arity_log2),
                                kHeightStored, manifest.files));
  return CheckVersionNodes(reader, manifest);
}

}  // namespace

std::vector<VersionNodeSlot> VersionNodeSlots(uint64_t newest_generation,
                                              int arity_log2) {
  std::vector<VersionNodeSlot> slots;
  uint64_t top = (newest_generation - 1) >> arity_log2 << arity_log2;
  for (int height = 1; top > 0; ++height) {
    const int shift = (height + 1) * arity_log2;
    const uint64_t next = shift >= 64 ? 0 : (top - 1) >> shift << shift;
    slots.push_back({height, next + 1, top});
    top = next;
  }
  return slots;
}

Result<Manifest> DecodeManifest(const Bytes& object, std::string_view directory,
                                const DecodeLimits& limits) {
  const auto decode = [&]() -> Result<Manifest> {
    HF_ASSIGN_OR_RETURN(const OpenedObject opened,
                        OpenEnvelope(object, ObjectKind::kManifest, limits));
    BodyReader reader(opened.body.view(), opened.body_offset);
    Manifest manifest;
    HF_RETURN_IF_ERROR(ReadBody(reader, directory, manifest));
    HF_RETURN_IF_ERROR(reader.ExpectEnd(opened.unread_byte_count));
    return manifest;
  };
  Result<Manifest> manifest = decode();
  if (manifest.ok()) return manifest;
  return manifest.status().WithContext("Error decoding manifest");
}

Bytes EncodeManifestBody(const Manifest& manifest) {
  DataFileTableWriter files(manifest.files);
  for (const Version& version : manifest.versions) {
    files.Use(version.root.file_index);
  }
  for (const VersionNodeReference& node : manifest.version_nodes) {
    files.Use(node.node.file_index);
  }
  files.Sort();
  BodyWriter writer(
      kConfigBytesMax + files.BytesMax() +
      VersionsBytesMax(manifest.versions.size()) +
      VersionNodeReferencesBytesMax(manifest.version_nodes.size()));
  WriteConfig(manifest.config, writer);
  if (manifest.config.manifest_kind == ManifestKind::kSingle) {
    files.Write(writer);
    WriteVersions(manifest.versions, files, writer);
    WriteVersionNodeReferences(manifest.version_nodes, kHeightStored, files,
                               writer);
  }
  return std::move(writer).Take();
}

}  // namespace holdfast::ocdbt
