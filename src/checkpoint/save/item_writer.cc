#include "checkpoint/save/item_writer.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <map>

#include "base/clock.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "checkpoint/format/array_metadatas.h"
#include "checkpoint/format/directory_names.h"
#include "checkpoint/format/json_text.h"
#include "checkpoint/format/part_file.h"
#include "checkpoint/format/sharding_file.h"
#include "checkpoint/format/strings_file.h"
#include "checkpoint/format/tree_metadata.h"
#include "checkpoint/save/adopt.h"
#include "checkpoint/save/encode.h"
#include "checkpoint/save/plan_checksums.h"
#include "checkpoint/save/value_sink.h"
#include "storage/url_path.h"
#include "tree/value_type.h"

namespace holdfast {
namespace {

bool IsExternal(const FlatLeaf& leaf) {
  return leaf.leaf->is_leaf() && leaf.leaf->leaf_kind() == LeafKind::kExternal;
}

TreeMetadata MakeTreeMetadata(const SavePlan& plan, const SaveOptions& options,
                              const nlohmann::ordered_json& custom_metadata,
                              const std::map<std::string, Shape>& adopted) {
  TreeMetadata metadata;
  metadata.use_ocdbt = options.use_ocdbt;
  metadata.use_zarr3 = plan.zarr_format == 3;
  metadata.store_array_data_equal_to_fill_value = true;
  metadata.custom_metadata = custom_metadata;
  if (!options.value_metadata_tree.empty()) {
    metadata.value_metadata_tree = options.value_metadata_tree;
  }
  metadata.entries.reserve(plan.leaves.size());
  for (const FlatLeaf& leaf : plan.leaves) {
    TreeMetadataEntry entry;
    entry.path = leaf.path;
    entry.value_type = leaf.value_type;
    entry.skip_deserialize = IsEmptyValueType(leaf.value_type);
    if (leaf.value_type == kValueTypeJaxArray) {
      if (!IsExternal(leaf)) {
        entry.write_shape = leaf.leaf->array_shape();
      } else if (const auto it = adopted.find(ParamName(leaf.path));
                 it != adopted.end()) {
        entry.write_shape = it->second;
      }
    }
    metadata.entries.push_back(std::move(entry));
  }
  for (const PlannedArray& array : plan.arrays) {
    std::optional<Shape>& shape = metadata.entries[array.leaf].write_shape;
    if (shape) *shape = array.layout->write_shape;
  }
  return metadata;
}

// Array metadata is every process's own; the sharding file is the primary's.
Status WriteJaxFiles(const SavePlan& plan, AdoptedFiles adopted, int64_t rank,
                     bool is_primary, FileWriter& files) {
  ShardingFile& shardings = adopted.shardings;
  std::vector<std::pair<size_t, ArrayMetadataRecord>> by_leaf;
  for (const PlannedArray& array : plan.arrays) {
    const FlatLeaf& leaf = plan.leaves[array.leaf];
    if (leaf.value_type != kValueTypeJaxArray) continue;
    const ArrayTraits& traits = leaf.leaf->array_traits();
    if (!traits.sharding_json.empty()) {
      shardings[array.name] = traits.sharding_json;
    }
    nlohmann::ordered_json ext_metadata;
    if (!traits.prng_impl.empty()) {
      ext_metadata = {{"random_key_impl", traits.prng_impl}};
    }
    by_leaf.push_back({array.leaf,
                       {array.name, array.layout->write_shape,
                        array.layout->array->format.metadata.chunk_shape,
                        std::move(ext_metadata)}});
  }
  std::sort(by_leaf.begin(), by_leaf.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<ArrayMetadataRecord>& records = adopted.array_metadatas;
  for (auto& [leaf, record] : by_leaf) records.push_back(std::move(record));
  if (is_primary && !shardings.empty()) {
    HF_RETURN_IF_ERROR(
        files.Write(kShardingFile, SerializeShardingFile(shardings)));
  }
  return files.Write(std::string(kArrayMetadatasDirectory) + "/" +
                         ArrayMetadatasFileName(rank),
                     SerializeArrayMetadatas(records));
}

Status WriteStrings(const SavePlan& plan, StringsFile strings,
                    FileWriter& files) {
  bool has_own = false;
  for (const FlatLeaf& leaf : plan.leaves) {
    if (leaf.value_type != kValueTypeString || IsExternal(leaf)) continue;
    strings[ParamName(leaf.path)] = leaf.leaf->text();
    has_own = true;
  }
  if (!has_own) return Status();
  HF_ASSIGN_OR_RETURN(const std::string text, SerializeStringsFile(strings));
  return files.Write(kStringsFile, text);
}

ValueSinkOptions SinkOptions(const SavePlan& plan, const SaveOptions& options,
                             const AdoptedFiles& adopted,
                             const FileWriter& files) {
  ValueSinkOptions sink_options;
  sink_options.value_count = plan.value_count;
  sink_options.sync = files.sync();
  sink_options.guarded_path = files.guarded_path();
  sink_options.write_digests = options.write_digests;
  sink_options.target_data_file_bytes = options.ocdbt_target_data_file_bytes;
  sink_options.commit_time_ns = options.now_ns();
  sink_options.random_hex = options.random_hex;
  sink_options.adopted_databases = adopted.databases;
  return sink_options;
}

Status WriteValues(const SavePlan& plan, bool use_ocdbt,
                   const ValueSinkOptions& sink_options, FileWriter& files,
                   Run& run, Stopwatch& watch, Stats& stats) {
  std::unique_ptr<ValueSink> sink;
  // What waits to be sent comes on top of what is being encoded.
  const uint64_t bytes_max = run.budget().bytes_max();
  if (bytes_max != 0) files.store().BoundBuffers(bytes_max / 2);
  if (use_ocdbt) {
    HF_ASSIGN_OR_RETURN(sink, MakeOcdbtSink(&files.store(), sink_options));
  } else {
    sink = MakeDirectorySink(&files.store(), sink_options);
  }
  run.StartPhase("write", plan.decoded_bytes);
  HF_RETURN_IF_ERROR(EncodeValues(plan, *sink, run, stats));
  stats.transfer_seconds = watch.Lap();
  run.StartPhase("sync", 0);
  HF_RETURN_IF_ERROR(sink->Finish(files.digests()));
  stats.sync_seconds = watch.Lap();
  stats.decoded_bytes = plan.decoded_bytes;
  stats.chunk_count = plan.chunk_count;
  stats.in_flight_bytes_peak = run.budget().peak_bytes();
  return Status();
}

}  // namespace

SaveOptions WithSources(SaveOptions options) {
  if (!options.now_ns) options.now_ns = SystemNowNs;
  if (!options.random_hex) options.random_hex = RandomHex32;
  return options;
}

SaveOptions ItemOptions(SaveOptions options) {
  options.format = Format::kOrbax;
  return WithSources(std::move(options));
}

Result<nlohmann::ordered_json> ParseJsonObject(const std::string& text,
                                               const char* what) {
  if (text.empty()) return nlohmann::ordered_json();
  Result<nlohmann::ordered_json> json = ParseJsonText(text);
  if (json.ok() && json->is_object()) return json;
  return InvalidArgumentError(std::string(what) +
                              " must be the text of a JSON object (got " +
                              text.substr(0, 60) + ")");
}

int64_t DefaultDataFileBytes(const std::string& directory) {
  constexpr int64_t kRemoteDataFileBytes = int64_t{400} << 20;
  return IsUrl(directory) ? kRemoteDataFileBytes
                          : SaveOptions().ocdbt_target_data_file_bytes;
}

SaveOptions OptionsFor(const std::string& path, SaveOptions options) {
  if (!IsUrl(path)) return options;
  options.sync = false;
  if (options.ocdbt_target_data_file_bytes ==
      SaveOptions().ocdbt_target_data_file_bytes) {
    options.ocdbt_target_data_file_bytes = DefaultDataFileBytes(path);
  }
  return options;
}

Status CheckFreeSpace(const SavePlan& plan, const SaveOptions& options,
                      const std::string& directory) {
  if (IsUrl(directory)) return Status();
  struct statvfs info;
  if (statvfs(directory.c_str(), &info) != 0) return Status();
  const uint64_t free_bytes = uint64_t{info.f_bavail} * info.f_frsize;
  // Compressed data may take less; only the hopeless case is refused.
  if (options.compression != Compression::kNone ||
      free_bytes >= plan.decoded_bytes) {
    return Status();
  }
  return ResourceExhaustedError("save to " + directory +
                                ": not enough free space (got " +
                                std::to_string(free_bytes) + " bytes, want " +
                                std::to_string(plan.decoded_bytes) + ")");
}

std::string ProcessDirectoryOf(const ProcessPart& part) {
  return std::string(kProcessDirectoryPrefix) +
         (part.id.empty() ? std::to_string(part.rank) : part.id);
}

Status CheckProcessPart(const ProcessPart& part) {
  if (part.rank >= 0 && ParseProcessDirectory(ProcessDirectoryOf(part))) {
    return Status();
  }
  return InvalidArgumentError("process " + std::to_string(part.rank) +
                              ": bad rank or id \"" + part.id +
                              "\" (want letters and digits)");
}

namespace {

std::map<std::string, Shape> WriteShapesOf(const AdoptedFiles& adopted) {
  std::map<std::string, Shape> write_shapes;
  for (const ArrayMetadataRecord& record : adopted.array_metadatas) {
    write_shapes[record.param_name] = record.write_shape;
  }
  return write_shapes;
}

// What speaks of the item as a whole, values and shardings excepted.
Status WriteTreeFiles(const SavePlan& plan, const SaveOptions& options,
                      const nlohmann::ordered_json& custom_metadata,
                      const std::map<std::string, Shape>& write_shapes,
                      StringsFile strings, FileWriter& files) {
  HF_RETURN_IF_ERROR(WriteStrings(plan, std::move(strings), files));
  return files.Write(kTreeMetadataFile,
                     SerializeTreeMetadata(MakeTreeMetadata(
                         plan, options, custom_metadata, write_shapes)));
}

}  // namespace

Status WriteItem(const SavePlan& plan, const SaveOptions& options,
                 const nlohmann::ordered_json& custom_metadata,
                 FileWriter& files, Run& run, Stopwatch& watch, Stats& stats) {
  stats.plan_seconds = watch.Lap();
  AdoptedFiles adopted;
  if (options.adopt_existing) {
    HF_ASSIGN_OR_RETURN(adopted, ReadAdoptedFiles(files.store()));
  }
  const std::map<std::string, Shape> write_shapes = WriteShapesOf(adopted);
  const bool must_merge = options.use_ocdbt && !adopted.databases.empty();
  if (!plan.arrays.empty() || must_merge) {
    HF_RETURN_IF_ERROR(WriteValues(plan, options.use_ocdbt,
                                   SinkOptions(plan, options, adopted, files),
                                   files, run, watch, stats));
  }
  StringsFile strings = std::move(adopted.strings);
  if (plan.has_jax_arrays) {
    HF_RETURN_IF_ERROR(WriteJaxFiles(plan, std::move(adopted), 0, true, files));
  }
  return WriteTreeFiles(plan, options, custom_metadata, write_shapes,
                        std::move(strings), files);
}

Status WriteItemPart(const SavePlan& plan, const SaveOptions& options,
                     const ProcessPart& part,
                     const nlohmann::ordered_json& custom_metadata,
                     FileWriter& files, Run& run, Stopwatch& watch,
                     Stats& stats) {
  stats.plan_seconds = watch.Lap();
  AdoptedFiles adopted;
  if (options.adopt_existing) {
    HF_ASSIGN_OR_RETURN(adopted, ReadAdoptedFiles(files.store(), part.rank));
  }
  PartFile record;
  record.rank = part.rank;
  record.is_primary = part.is_primary;
  record.save_id = part.save_id;
  record.plan = ChecksumsOf(plan);
  if (plan.value_count > 0) {
    ValueSinkOptions sink = SinkOptions(plan, options, adopted, files);
    sink.process = *ParseProcessDirectory(ProcessDirectoryOf(part));
    sink.must_merge = false;
    // Of values in files the rows are also the list of what is there.
    sink.write_digests |= !options.use_ocdbt;
    if (options.use_ocdbt) record.database = ProcessPrefix(sink);
    HF_RETURN_IF_ERROR(
        WriteValues(plan, options.use_ocdbt, sink, files, run, watch, stats));
  }
  if (!record.database.empty()) {
    HF_ASSIGN_OR_RETURN(
        const Bytes manifest,
        files.store().Read(record.database + std::string(kManifestFile)));
    record.manifest_checksum = ManifestChecksum(manifest.view());
  }
  const std::map<std::string, Shape> write_shapes = WriteShapesOf(adopted);
  StringsFile strings = std::move(adopted.strings);
  if (plan.has_jax_arrays) {
    HF_RETURN_IF_ERROR(WriteJaxFiles(plan, std::move(adopted), part.rank,
                                     part.is_primary, files));
  }
  if (part.is_primary) {
    HF_RETURN_IF_ERROR(WriteTreeFiles(plan, options, custom_metadata,
                                      write_shapes, std::move(strings), files));
  }
  record.digests = std::move(files.digests());
  HF_RETURN_IF_ERROR(
      files.WriteUnlisted(PartFileName(part.rank), SerializePartFile(record)));
  return files.SyncNames();
}

}  // namespace holdfast
