// Save: plan, encode and write the values, merge, write the metadata files,
// commit. doc/architecture.md, "The way of a save", tells it step by step.
#include <openssl/rand.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>

#include "base/coding.h"
#include "base/crc32c.h"
#include "base/no_throw.h"
#include "base/status_macros.h"
#include "checkpoint/array_index.h"
#include "checkpoint/commit.h"
#include "checkpoint/format/array_metadatas.h"
#include "checkpoint/format/checkpoint_metadata.h"
#include "checkpoint/format/directory_names.h"
#include "checkpoint/format/sharding_file.h"
#include "checkpoint/format/strings_file.h"
#include "checkpoint/format/tree_metadata.h"
#include "checkpoint/layout.h"
#include "checkpoint/run.h"
#include "checkpoint/save_plan.h"
#include "checkpoint/value_sink.h"
#include "holdfast/checkpoint.h"
#include "storage/file_store.h"
#include "tree/value_type.h"
#include "zarr/format/chunk_key.h"

namespace holdfast {
namespace {

uint64_t SystemNowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::string SystemRandomHex() {
  char bytes[16];
  // The system's generator does not fail once it is seeded.
  RAND_bytes(reinterpret_cast<unsigned char*>(bytes), sizeof bytes);
  return ToHex({bytes, sizeof bytes});
}

SaveOptions WithSources(SaveOptions options) {
  if (!options.now_ns) options.now_ns = SystemNowNs;
  if (!options.random_hex) options.random_hex = SystemRandomHex;
  return options;
}

// Empty text is null.
Result<nlohmann::ordered_json> ParseJsonObject(const std::string& text,
                                               const char* what) {
  if (text.empty()) return nlohmann::ordered_json();
  auto json = nlohmann::ordered_json::parse(text, nullptr, false);
  if (json.is_object()) return json;
  return InvalidArgumentError(std::string(what) +
                              " must be the text of a JSON object (got " +
                              text.substr(0, 60) + ")");
}

// Hands out batches in order and takes each one's bytes from the budget in the
// same order, so that the batch the data file waits for always has room.
class BatchQueue {
 public:
  BatchQueue(const SavePlan& plan, ByteBudget& budget)
      : plan_(plan), budget_(budget) {}

  // Null when none is left.
  const PlannedBatch* Take(ByteBudget::Lease& lease) {
    std::lock_guard lock(mutex_);
    if (next_ == plan_.batches.size()) return nullptr;
    const PlannedBatch& batch = plan_.batches[next_++];
    lease = budget_.Acquire(batch.byte_count);
    return &batch;
  }

 private:
  const SavePlan& plan_;
  ByteBudget& budget_;
  std::mutex mutex_;
  size_t next_ = 0;
};

class Encoder {
 public:
  Encoder(const SavePlan& plan, ValueSink& sink, Run& run)
      : plan_(plan), sink_(sink), run_(run), queue_(plan, run.budget()) {}

  Status EncodeAll() {
    return run_.executor().ParallelFor(
        run_.executor().thread_count(),
        [&](size_t, int worker) { return Work(run_.codec_context(worker)); },
        &run_.cancel());
  }

 private:
  Status Work(CodecContext& context) {
    while (!failed_.load(std::memory_order_relaxed)) {
      HF_RETURN_IF_ERROR(run_.cancel().Check());
      ByteBudget::Lease lease;
      const PlannedBatch* batch = queue_.Take(lease);
      if (batch == nullptr) break;
      const Status encoded = EncodeBatch(
          *batch, context,
          std::make_shared<const ByteBudget::Lease>(std::move(lease)));
      if (!encoded.ok()) {
        failed_.store(true, std::memory_order_relaxed);
        return encoded;
      }
      run_.AddDone(batch->byte_count);
    }
    return Status();
  }

  Status EncodeBatch(const PlannedBatch& batch, CodecContext& context,
                     const std::shared_ptr<const void>& keepalive) {
    size_t array_index = batch.array;
    for (uint64_t value = batch.first; value < batch.last; ++value) {
      const PlannedArray* array = &plan_.arrays[array_index];
      if (value > array->first_value + array->layout->chunk_count) {
        array = &plan_.arrays[++array_index];
      }
      HF_RETURN_IF_ERROR(EncodeValue(*array, value, context, keepalive));
    }
    return Status();
  }

  Status EncodeValue(const PlannedArray& array, uint64_t value,
                     CodecContext& context,
                     const std::shared_ptr<const void>& keepalive) {
    const ArrayLayout& layout = *array.layout->array;
    const std::string prefix = ArrayPrefix(array.name);
    if (value == array.first_value) {
      std::string key =
          prefix +
          std::string(zarr::MetadataKey(layout.format.metadata.zarr_format));
      EncodedChunk metadata;
      metadata.pieces.push_back(array.layout->metadata_text);
      metadata.byte_count = array.layout->metadata_text.size();
      return sink_.Put(value, std::move(key), std::move(metadata), keepalive);
    }
    const Shape index = layout.grid.ChunkIndex(value - array.first_value - 1);
    std::string key = zarr::ChunkKey(prefix, layout.format.metadata, index);
    const ConstArrayView chunk =
        Subview(array.view, layout.grid.ChunkBox(index));
    Result<EncodedChunk> encoded = layout.format.codec->Encode(chunk, context);
    if (!encoded.ok()) {
      return encoded.status().WithContext("leaf " + array.name);
    }
    return sink_.Put(value, std::move(key), std::move(encoded).value(),
                     keepalive);
  }

  const SavePlan& plan_;
  ValueSink& sink_;
  Run& run_;
  BatchQueue queue_;
  std::atomic<bool> failed_{false};
};

// The small files of one directory, remembered for their checksums.
class FileWriter {
 public:
  FileWriter(Store& store, bool sync) : store_(store), sync_(sync) {}

  Status Write(std::string_view name, std::string_view text) {
    digests_.files.push_back({std::string(name), text.size(), Crc32c(text)});
    return WriteUnlisted(name, text);
  }

  // For files that are listed before they are written, and the list itself.
  Status WriteUnlisted(std::string_view name, std::string_view text) {
    WriteOptions options;
    options.sync = sync_;
    options.atomic = false;  // nobody can look before the commit
    return store_.Write(name, text, options);
  }

  DigestFile& digests() { return digests_; }

 private:
  Store& store_;
  const bool sync_;
  DigestFile digests_;
};

TreeMetadata MakeTreeMetadata(const SavePlan& plan, const SaveOptions& options,
                              nlohmann::ordered_json custom_metadata) {
  TreeMetadata metadata;
  metadata.use_ocdbt = options.use_ocdbt;
  metadata.use_zarr3 = plan.zarr_format == 3;
  metadata.store_array_data_equal_to_fill_value = true;
  metadata.custom_metadata = std::move(custom_metadata);
  metadata.entries.reserve(plan.leaves.size());
  for (const FlatLeaf& leaf : plan.leaves) {
    TreeMetadataEntry entry;
    entry.path = leaf.path;
    entry.value_type = leaf.value_type;
    entry.skip_deserialize = IsEmptyValueType(leaf.value_type);
    if (leaf.value_type == kValueTypeJaxArray) {
      entry.write_shape = leaf.leaf->array().shape();
    }
    metadata.entries.push_back(std::move(entry));
  }
  return metadata;
}

Status WriteJaxFiles(const SavePlan& plan, FileWriter& files) {
  ShardingFile shardings;
  std::vector<std::pair<size_t, ArrayMetadataRecord>> by_leaf;
  for (const PlannedArray& array : plan.arrays) {
    const FlatLeaf& leaf = plan.leaves[array.leaf];
    if (leaf.value_type != kValueTypeJaxArray) continue;
    shardings[array.name] = std::string(leaf.leaf->sharding_json());
    by_leaf.push_back(
        {array.leaf,
         {array.name, array.view.shape,
          array.layout->array->format.metadata.chunk_shape, nullptr}});
  }
  std::sort(by_leaf.begin(), by_leaf.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<ArrayMetadataRecord> records;
  for (auto& [leaf, record] : by_leaf) records.push_back(std::move(record));
  HF_RETURN_IF_ERROR(
      files.Write(kShardingFile, SerializeShardingFile(shardings)));
  return files.Write(
      std::string(kArrayMetadatasDirectory) + "/" + ArrayMetadatasFileName(0),
      SerializeArrayMetadatas(records));
}

Status WriteStrings(const SavePlan& plan, FileWriter& files) {
  StringsFile strings;
  for (const FlatLeaf& leaf : plan.leaves) {
    if (leaf.value_type != kValueTypeString) continue;
    strings[ParamName(leaf.path)] = leaf.leaf->text();
  }
  if (strings.empty()) return Status();
  HF_ASSIGN_OR_RETURN(const std::string text, SerializeStringsFile(strings));
  return files.Write(kStringsFile, text);
}

// One save, from the plan to the commit.
class Saver {
 public:
  // `watch` has run since the call began.
  Saver(const SavePlan& plan, const SaveOptions& options, Stopwatch watch)
      : plan_(plan),
        options_(options),
        run_(options.run),
        watch_(watch),
        total_(watch) {}

  Result<SaveResult> Execute(const std::string& path) {
    const uint64_t init_time_ns = options_.now_ns();
    HF_ASSIGN_OR_RETURN(
        item_custom_metadata_,
        ParseJsonObject(options_.item_custom_metadata, "item_custom_metadata"));
    HF_ASSIGN_OR_RETURN(
        custom_metadata_,
        ParseJsonObject(options_.custom_metadata, "custom_metadata"));
    HF_ASSIGN_OR_RETURN(auto pending,
                        PendingCheckpoint::Begin(path, options_.overwrite));
    HF_RETURN_IF_ERROR(CheckFreeSpace(pending->directory()));
    FileStore root(pending->directory());
    if (options_.format == Format::kOrbaxV1) {
      FileStore item(pending->directory() + "/" + options_.checkpointable_name);
      FileWriter item_files(item, options_.sync);
      HF_RETURN_IF_ERROR(WriteItem(item, item_files));
      HF_RETURN_IF_ERROR(WriteDigests(item_files));
      HF_RETURN_IF_ERROR(SyncNames(item));
      FileWriter root_files(root, options_.sync);
      HF_RETURN_IF_ERROR(root_files.Write(kV1MarkerFile, ""));
      HF_RETURN_IF_ERROR(WriteRoot(path, init_time_ns, root_files));
    } else {
      FileWriter files(root, options_.sync);
      HF_RETURN_IF_ERROR(WriteItem(root, files));
      HF_RETURN_IF_ERROR(WriteRoot(path, init_time_ns, files));
    }
    HF_RETURN_IF_ERROR(SyncNames(root));
    HF_RETURN_IF_ERROR(run_.cancel().Check());
    HF_RETURN_IF_ERROR(pending->Commit());
    result_.stats.commit_seconds = watch_.Lap();
    result_.stats.total_seconds = total_.Lap();
    return result_;
  }

 private:
  // An early, clear refusal; running out later is handled as well.
  Status CheckFreeSpace(const std::string& directory) const {
    struct statvfs info;
    if (statvfs(directory.c_str(), &info) != 0) return Status();
    const uint64_t free_bytes = uint64_t{info.f_bavail} * info.f_frsize;
    // Compressed data may take less; only the hopeless case is refused.
    if (options_.compression != Compression::kNone ||
        free_bytes >= plan_.decoded_bytes) {
      return Status();
    }
    return ResourceExhaustedError("save to " + directory +
                                  ": not enough free space (got " +
                                  std::to_string(free_bytes) + " bytes, want " +
                                  std::to_string(plan_.decoded_bytes) + ")");
  }

  Status SyncNames(Store& store) {
    return options_.sync ? store.SyncNames() : Status();
  }

  Status WriteItem(Store& store, FileWriter& files) {
    result_.stats.plan_seconds = watch_.Lap();
    if (!plan_.arrays.empty()) {
      HF_RETURN_IF_ERROR(WriteValues(store, files.digests()));
    }
    if (plan_.has_jax_arrays) HF_RETURN_IF_ERROR(WriteJaxFiles(plan_, files));
    HF_RETURN_IF_ERROR(WriteStrings(plan_, files));
    return files.Write(kTreeMetadataFile,
                       SerializeTreeMetadata(MakeTreeMetadata(
                           plan_, options_, item_custom_metadata_)));
  }

  Status WriteValues(Store& store, DigestFile& digests) {
    ValueSinkOptions sink_options;
    sink_options.value_count = plan_.value_count;
    sink_options.sync = options_.sync;
    sink_options.write_digests = options_.write_digests;
    sink_options.target_data_file_bytes = options_.ocdbt_target_data_file_bytes;
    sink_options.commit_time_ns = options_.now_ns();
    sink_options.random_hex = options_.random_hex;
    std::unique_ptr<ValueSink> sink;
    if (options_.use_ocdbt) {
      HF_ASSIGN_OR_RETURN(sink, MakeOcdbtSink(&store, sink_options));
    } else {
      sink = MakeDirectorySink(&store, sink_options);
    }
    run_.StartPhase("write", plan_.decoded_bytes);
    HF_RETURN_IF_ERROR(Encoder(plan_, *sink, run_).EncodeAll());
    result_.stats.transfer_seconds = watch_.Lap();
    run_.StartPhase("sync", 0);
    HF_RETURN_IF_ERROR(sink->Finish(digests));
    result_.stats.sync_seconds = watch_.Lap();
    result_.stats.decoded_bytes = plan_.decoded_bytes;
    result_.stats.chunk_count = plan_.value_count - plan_.arrays.size();
    result_.stats.in_flight_bytes_peak = run_.budget().peak_bytes();
    for (const ValueDigest& value : digests.values) {
      result_.stats.stored_bytes += value.byte_count;
    }
    return Status();
  }

  ItemHandlers Handlers() const {
    if (options_.format == Format::kOrbax) {
      return std::string(kPyTreeHandlerTypestr);
    }
    return CompositeHandlers{
        {options_.checkpointable_name, std::string(kV1PyTreeHandlerTypestr)}};
  }

  Status WriteDigests(FileWriter& files) {
    if (!options_.write_digests) return Status();
    return files.WriteUnlisted(kDigestFile,
                               SerializeDigestFile(files.digests()));
  }

  // The marker is the last file, and listed before it is written.
  Status WriteRoot(const std::string& path, uint64_t init_time_ns,
                   FileWriter& files) {
    CheckpointMetadata metadata;
    metadata.item_handlers = Handlers();
    metadata.init_timestamp_nsecs = init_time_ns;
    metadata.commit_timestamp_nsecs = options_.now_ns();
    if (!custom_metadata_.is_null()) {
      metadata.custom_metadata = custom_metadata_;
    }
    HF_RETURN_IF_ERROR(files.Write(kCheckpointMetadataFile,
                                   SerializeCheckpointMetadata(metadata)));
    const std::string marker = CommitMarkerText(path);
    files.digests().files.push_back(
        {std::string(kCommitMarkerFile), marker.size(), Crc32c(marker)});
    HF_RETURN_IF_ERROR(WriteDigests(files));
    return files.WriteUnlisted(kCommitMarkerFile, marker);
  }

  const SavePlan& plan_;
  const SaveOptions& options_;
  Run run_;
  Stopwatch watch_;  // since the last phase
  Stopwatch total_;
  SaveResult result_;
  nlohmann::ordered_json item_custom_metadata_;
  nlohmann::ordered_json custom_metadata_;
};

Status CheckCheckpointableName(const std::string& name) {
  if (name == "metrics" || name == "AUTO" || name == "_CHECKPOINT_DELETION") {
    return InvalidArgumentError("checkpointable name \"" + name +
                                "\" is reserved");
  }
  return CheckKey(name).WithContext("checkpointable name");
}

}  // namespace

Result<SaveResult> Save(const std::string& path, const Tree& tree,
                        const SaveOptions& options) {
  const Stopwatch watch;
  if (path.empty() || path.find('\0') != std::string::npos) {
    return InvalidArgumentError("checkpoint path is empty or holds a NUL byte");
  }
  HF_RETURN_IF_ERROR(CheckCheckpointableName(options.checkpointable_name));
  const SaveOptions complete = WithSources(options);
  return CatchBadAlloc([&]() -> Result<SaveResult> {
    HF_ASSIGN_OR_RETURN(const SavePlan plan, MakeSavePlan(tree, complete));
    return Saver(plan, complete, watch).Execute(AbsolutePath(path));
  });
}

}  // namespace holdfast
