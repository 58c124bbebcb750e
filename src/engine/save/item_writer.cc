#include "engine/save/item_writer.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <map>

#include "engine/format/array_metadatas.h"
#include "engine/format/directory_names.h"
#include "engine/format/own_documents.h"
#include "engine/format/part_file.h"
#include "engine/format/sharding_file.h"
#include "engine/format/strings_file.h"
#include "engine/format/tree_metadata.h"
#include "engine/save/adopt.h"
#include "engine/save/also_sink.h"
#include "engine/save/encode.h"
#include "engine/save/plan_checksums.h"
#include "engine/save/rich_tree.h"
#include "engine/save/save_options.h"
#include "ground/base/status_macros.h"
#include "ground/tree/value_type.h"

namespace holdfast {
namespace {

TreeMetadata MakeTreeMetadata(const SavePlan& plan,
                              const std::map<std::string, Shape>& adopted) {
  TreeMetadata metadata;
  metadata.use_ocdbt = plan.options->use_ocdbt;
  metadata.use_zarr3 = plan.zarr_format == 3;
  metadata.store_array_data_equal_to_fill_value = true;
  if (!plan.options->value_metadata_tree.empty()) {
    metadata.value_metadata_tree = plan.options->value_metadata_tree;
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
  if (plan.options->support_rich_types) {
    metadata.value_metadata_tree =
        RichTreeJson(*plan.tree, plan.leaves, metadata);
  }
  return metadata;
}

// Writes the files about jax arrays. Every process writes its own array
// metadata; the primary writes the sharding file.
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
    by_leaf.push_back({array.leaf,
                       {array.name, array.layout->write_shape,
                        array.layout->array->format.metadata.chunk_shape,
                        ExtMetadataOf(traits.prng_impl)}});
  }
  std::sort(by_leaf.begin(), by_leaf.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<ArrayMetadataRecord>& records = adopted.array_metadatas;
  for (auto& [leaf, record] : by_leaf) records.push_back(std::move(record));
  if (is_primary && !shardings.empty()) {
    HF_RETURN_IF_ERROR(
        files.Write(kShardingFile, SerializeShardingFile(shardings)));
  }
  return files.Write(ArrayMetadatasPath(rank),
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

std::map<std::string, Shape> WriteShapesOf(const AdoptedFiles& adopted) {
  std::map<std::string, Shape> write_shapes;
  for (const ArrayMetadataRecord& record : adopted.array_metadatas) {
    write_shapes[record.param_name] = record.write_shape;
  }
  return write_shapes;
}

// Writes the files that describe the complete item, except values and
// shardings.
Status WriteTreeFiles(const SavePlan& plan,
                      const std::map<std::string, Shape>& write_shapes,
                      StringsFile strings, FileWriter& files) {
  HF_RETURN_IF_ERROR(WriteStrings(plan, std::move(strings), files));
  TreeMetadata metadata = MakeTreeMetadata(plan, write_shapes);
  HF_ASSIGN_OR_RETURN(metadata.custom_metadata,
                      ParseJsonOption(plan.options->item_custom_metadata,
                                      "item_custom_metadata"));
  TakeOwnDocuments(metadata.custom_metadata);  // of another item
  HF_ASSIGN_OR_RETURN(
      metadata.documents,
      ParseJsonOption(plan.options->item_documents, "item_documents"));
  return files.Write(kTreeMetadataFile, SerializeTreeMetadata(metadata));
}

// Writes the values and merges adopted databases, if there are any. Returns the
// name of the part's database, if it has one.
Result<std::string> WriteItemValues(const ProcessPart* part,
                                    const AdoptedFiles& adopted,
                                    FileWriter& files, SaveCall& call) {
  const SavePlan& plan = call.plan;
  const bool must_merge =
      part == nullptr && plan.options->use_ocdbt && !adopted.databases.empty();
  if (plan.value_count == 0 && !must_merge) return std::string();
  ValueSinkOptions sink = SinkOptionsOf(plan, files);
  // With `also`, the database has values of other numbers.
  if (!plan.also) sink.floats = &call.floats;
  sink.adopted_databases = adopted.databases;
  if (part != nullptr) {
    sink.process = *ParseProcessDirectory(ProcessDirectoryOf(*part));
    sink.must_merge = false;
    // For values in files, the rows are also the list of existing files.
    sink.write_digests |= !sink.use_ocdbt || plan.also;
  }
  HF_RETURN_IF_ERROR(WriteValues(sink, files, call));
  const bool has_database =
      part != nullptr && sink.use_ocdbt && sink.value_count > 0;
  return has_database ? ProcessPrefix(sink) : std::string();
}

// Returns this process's part of each array's fingerprint. The process that
// writes an array's metadata also adds the tag of its dtype and shape. Nullopt
// if fingerprints are not requested.
std::optional<FingerprintTexts> FingerprintsOf(const SaveCall& call) {
  if (!call.plan.options->fingerprints) return std::nullopt;
  FingerprintTexts texts;
  for (size_t i = 0; i < call.sums.size(); ++i) {
    const PlannedArray& array = call.plan.arrays[i];
    // Elements that are only referred to were not read.
    if (array.stored != nullptr || array.value_count() == 0) continue;
    FingerprintSum sum = call.sums[i];
    if (array.has_metadata) {
      sum += TagOf(array.layout->dtype(), array.source.shape());
    }
    texts[array.name] = FingerprintHex(sum);
  }
  return texts;
}

// Writes the part file. It is the last file of a part, because it describes all
// others.
Status WritePartFile(const ProcessPart& part, const SaveCall& call,
                     const std::string& database, FileWriter& files) {
  PartFile record;
  record.rank = part.rank;
  record.is_primary = part.is_primary;
  record.save_id = part.save_id;
  record.plan = ChecksumsOf(call.plan);
  record.fingerprints = FingerprintsOf(call);
  record.database = database;
  if (!database.empty()) {
    HF_ASSIGN_OR_RETURN(
        const Bytes manifest,
        files.store().Read(database + std::string(kManifestFile)));
    record.manifest_checksum = ManifestChecksum(manifest.view());
  }
  record.digests = std::move(files.digests());
  HF_RETURN_IF_ERROR(
      files.WriteUnlisted(PartFileName(part.rank), SerializePartFile(record)));
  return files.SyncNames();
}

}  // namespace

SaveCall::SaveCall(const SavePlan& save_plan, const Stopwatch& begun)
    : plan(save_plan),
      run(plan.options->run),
      watch(begun),
      total(begun),
      floats(save_plan) {
  stats.plan_seconds = watch.Lap();
}

SaveResult SaveCall::Result() {
  stats.commit_seconds = watch.Lap();
  stats.total_seconds = total.Lap();
  return {stats, {}};
}

Status CheckFreeSpace(const SavePlan& plan, const Place& directory) {
  if (directory.is_remote()) return Status();
  struct statvfs info;
  if (statvfs(directory.path().c_str(), &info) != 0) return Status();
  const uint64_t free_bytes = uint64_t{info.f_bavail} * info.f_frsize;
  // Compressed data may need less space; only a hopeless save is refused.
  const bool is_compressed =
      plan.options->compression != Compression::kNone && !plan.also;
  if (is_compressed || free_bytes >= plan.decoded_bytes) {
    return Status();
  }
  return ResourceExhaustedError("save to " + directory.path() +
                                ": not enough free space (got " +
                                std::to_string(free_bytes) + " bytes, want " +
                                std::to_string(plan.decoded_bytes) + ")");
}

ValueSinkOptions SinkOptionsOf(const SavePlan& plan, const FileWriter& files) {
  const SaveOptions& options = *plan.options;
  ValueSinkOptions sink_options;
  sink_options.use_ocdbt = options.use_ocdbt;
  sink_options.value_count =
      plan.also ? DatabaseValueCount(plan) : plan.value_count;
  sink_options.sync = files.sync();
  sink_options.guarded_path = files.guarded_path();
  sink_options.write_digests = options.write_digests;
  sink_options.target_data_file_bytes = options.ocdbt_target_data_file_bytes;
  sink_options.commit_time_ns = options.now_ns();
  sink_options.random_hex = options.random_hex;
  return sink_options;
}

Status WriteValues(const ValueSinkOptions& options, FileWriter& files,
                   SaveCall& call) {
  if (call.plan.also && !options.guarded_path.empty()) {
    return UnimplementedError(
        "save to " + options.guarded_path +
        ": files that are of another format, too, are written only to a file "
        "system; save there, and copy that (holdfast cp)");
  }
  Run& run = call.run;
  // Bytes that wait to be sent count in addition to those being encoded.
  const uint64_t bytes_max = run.budget().bytes_max();
  if (bytes_max != 0) files.store().BoundBuffers(bytes_max / 2);
  HF_ASSIGN_OR_RETURN(std::unique_ptr<ValueSink> sink,
                      MakeValueSink(&files.store(), options));
  if (call.plan.also) {
    if (options.replaced) {
      return UnimplementedError(
          "save in files of another format, too: not into an existing "
          "checkpoint");
    }
    HF_ASSIGN_OR_RETURN(
        sink, MakeAlsoSink(&files.store(), call.plan, options.sync, call.floats,
                           std::move(sink)));
  }
  run.StartPhase("write", call.plan.decoded_bytes);
  HF_RETURN_IF_ERROR(
      EncodeValues(call.plan, *sink, run, call.stats, call.sums));
  call.stats.transfer_seconds = call.watch.Lap();
  run.StartPhase("sync", 0);
  HF_RETURN_IF_ERROR(sink->Finish(files.digests()));
  call.stats.sync_seconds = call.watch.Lap();
  call.stats.decoded_bytes = call.plan.decoded_bytes;
  call.stats.chunk_count = call.plan.chunk_count;
  call.stats.memory_bytes_peak = run.budget().peak_bytes();
  return Status();
}

Status WriteItem(const ProcessPart* part, FileWriter& files, SaveCall& call) {
  const SavePlan& plan = call.plan;
  const ProcessPart mine = part != nullptr ? *part : ProcessPart();
  AdoptedFiles adopted;
  if (plan.options->adopt_existing) {
    HF_ASSIGN_OR_RETURN(adopted, ReadAdoptedFiles(files.store(), mine.rank));
  }
  const std::map<std::string, Shape> write_shapes = WriteShapesOf(adopted);
  HF_ASSIGN_OR_RETURN(const std::string database,
                      WriteItemValues(part, adopted, files, call));
  StringsFile strings = std::move(adopted.strings);
  if (plan.has_jax_arrays) {
    HF_RETURN_IF_ERROR(WriteJaxFiles(plan, std::move(adopted), mine.rank,
                                     mine.is_primary, files));
  }
  if (mine.is_primary) {
    if (plan.also) {
      for (const AlsoFiles::Text& text : plan.also->texts) {
        HF_RETURN_IF_ERROR(files.Write(text.path, text.content));
      }
    }
    HF_RETURN_IF_ERROR(
        WriteTreeFiles(plan, write_shapes, std::move(strings), files));
  }
  if (plan.options->write_digests) {
    files.digests().floats = plan.options->floats != nullptr
                                 ? *plan.options->floats
                                 : call.floats.Total();
  }
  if (part != nullptr) return WritePartFile(mine, call, database, files);
  const auto fingerprints = FingerprintsOf(call);
  return fingerprints ? WriteFingerprints(*fingerprints, files) : Status();
}

Status CloseItem(const Place& directory, const FinishItemOptions& options,
                 FileWriter& files) {
  if (options.adopt_existing) {
    HF_RETURN_IF_ERROR(AdoptFiles(directory, options.write_digests,
                                  RulesOfItem(options.use_ocdbt, files),
                                  files));
  }
  if (options.write_digests) HF_RETURN_IF_ERROR(files.WriteDigests());
  return files.SyncNames();
}

Status WriteFingerprints(const FingerprintTexts& tensors, FileWriter& files) {
  return files.Write(
      kFingerprintsFile,
      SerializeFingerprintsFile({std::string(kFingerprintAlgorithm), tensors}));
}

std::string ProcessDirectoryOf(const ProcessPart& part) {
  return std::string(kProcessDirectoryPrefix) +
         (part.id.empty() ? std::to_string(part.rank) : part.id);
}

}  // namespace holdfast
