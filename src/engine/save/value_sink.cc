#include "engine/save/value_sink.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <mutex>
#include <tuple>

#include "engine/commit/lease.h"
#include "engine/format/directory_names.h"
#include "engine/save/adopt.h"
#include "engine/save/append_sink.h"
#include "engine/save/float_sums.h"
#include "formats/ocdbt/bulk_writer.h"
#include "formats/ocdbt/merge.h"
#include "formats/zarr/format/metadata.h"
#include "ground/base/status_macros.h"
#include "ground/record/recorder.h"

namespace holdfast {
namespace {

constexpr uint32_t kMaxInlineValueBytes = 1024;  // Orbax's config

void AddPieces(std::span<const std::string_view> pieces, ValueSums& sums) {
  for (const std::string_view piece : pieces) sums.Add(piece);
}

bool IsFloat(const ValueSinkOptions& options, uint64_t index) {
  return options.floats != nullptr && options.floats->Wants(index);
}

Result<ocdbt::Uuid> UuidFromHex(const std::string& hex) {
  ocdbt::Uuid uuid{};
  const auto digit = [](char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                  : -1;
  };
  if (hex.size() != 2 * uuid.size()) {
    return InvalidArgumentError("random_hex gave \"" + hex +
                                "\", want 32 hex digits");
  }
  for (size_t i = 0; i < uuid.size(); ++i) {
    const int high = digit(hex[2 * i]), low = digit(hex[2 * i + 1]);
    if (high < 0 || low < 0) {
      return InvalidArgumentError("random_hex gave \"" + hex +
                                  "\", want 32 lowercase hex digits");
    }
    uuid[i] = static_cast<uint8_t>(16 * high + low);
  }
  return uuid;
}

Status CheckGuard(const ValueSinkOptions& options, double seconds) {
  if (options.guarded_path.empty()) return Status();
  return CheckLeasesAbove(options.guarded_path, seconds);
}

// Returns the options for writing a database, including the merged one.
Result<ocdbt::BulkWriteOptions> DatabaseWriteOptions(
    const ValueSinkOptions& options) {
  ocdbt::BulkWriteOptions write_options;
  HF_ASSIGN_OR_RETURN(write_options.uuid, UuidFromHex(options.random_hex()));
  write_options.max_inline_value_bytes = kMaxInlineValueBytes;
  write_options.target_data_file_bytes = options.target_data_file_bytes;
  write_options.commit_time_ns = options.commit_time_ns;
  write_options.new_file_name = options.random_hex;
  write_options.sync = options.sync;
  write_options.is_visible = false;  // FileWriter::SyncNames comes last
  return write_options;
}

// Adds the rows of the manifest. It is small and was just written, so it is
// read back, which also verifies that it was stored.
Status AddManifest(Store& store, const ValueSinkOptions& options,
                   const std::string& prefix, DigestFile& digests) {
  if (!options.write_digests) return Status();
  return AddManifestRows(store, prefix + std::string(kManifestFile), digests);
}

// References to files that the sink does not write, as a child database to
// merge.
class References {
 public:
  void Add(const ReferredArray& array, bool with_digests) {
    const StoredChunks& stored = *array.stored;
    if (list_.files.empty()) {
      for (const SourceFile& file : *stored.sources) {
        list_.files.push_back({file.path, 0});
      }
      sources_ = stored.sources;
      list_.owners.push_back(arena_);
    }
    for (size_t i = 0; i < stored.ranges.size(); ++i) {
      const StoredChunks::Range& range = stored.ranges[i];
      ocdbt::LeafEntry& entry = list_.entries.emplace_back();
      entry.key = arena_->Copy(array.keys[i]);
      entry.SetIndirect({range.file, range.offset, range.byte_count});
      if (!with_digests || stored.digests.empty()) continue;
      ValueDigest& row = rows_.emplace_back(stored.digests[i]);
      row.path = (*sources_)[range.file].path;
      row.offset = range.offset;
    }
  }

  void MoveTo(std::vector<ocdbt::MergeChild>& children, DigestFile& digests) {
    if (list_.entries.empty()) return;
    for (const SourceFile& row : *sources_) {
      if (!row.from.empty()) digests.sources.push_back(row);
    }
    ocdbt::SortByKey(list_.entries);
    children.push_back({"", std::move(list_)});
    // Several arrays may share the same bytes.
    const auto by_place = [](const ValueDigest& a, const ValueDigest& b) {
      return std::tie(a.path, a.offset, a.byte_count) <
             std::tie(b.path, b.offset, b.byte_count);
    };
    const auto same_place = [&](const ValueDigest& a, const ValueDigest& b) {
      return !by_place(a, b) && !by_place(b, a);
    };
    std::sort(rows_.begin(), rows_.end(), by_place);
    rows_.erase(std::unique(rows_.begin(), rows_.end(), same_place),
                rows_.end());
    std::move(rows_.begin(), rows_.end(), std::back_inserter(digests.values));
  }

 private:
  ocdbt::EntryList list_;
  std::shared_ptr<ocdbt::TextArena> arena_ =
      std::make_shared<ocdbt::TextArena>();
  std::shared_ptr<const std::vector<SourceFile>> sources_;
  std::vector<ValueDigest> rows_;
};

class OcdbtSink final : public ValueSink {
 public:
  OcdbtSink(Store* store, ValueSinkOptions options)
      : store_(store),
        options_(std::move(options)),
        prefix_(ProcessPrefix(options_)) {}

  Status Open() {
    if (options_.value_count == 0) return Status();
    HF_ASSIGN_OR_RETURN(const ocdbt::BulkWriteOptions write_options,
                        DatabaseWriteOptions(options_));
    HF_ASSIGN_OR_RETURN(
        writer_, ocdbt::BulkWriter::Create(store_, prefix_, write_options));
    return Status();
  }

  Status Put(uint64_t index, std::string key, EncodedChunk value,
             ValueKnownBy known_by,
             std::shared_ptr<const void> keepalive) override {
    if (options_.write_digests &&
        (value.byte_count > kMaxInlineValueBytes || IsFloat(options_, index))) {
      ValueSums sums(known_by);
      AddPieces(value.pieces, sums);
      AddRow(index, key, sums.Finish());
    }
    return writer_->Put(index, key, std::move(value), std::move(keepalive));
  }

  Status PutStream(uint64_t index, std::string key, ValueKnownBy known_by,
                   const StreamFn& produce) override {
    if (!options_.write_digests) {
      return writer_->PutStream(index, key, produce);
    }
    ValueSums sums(known_by);
    const auto summing = [&](const WriteFn& write) {
      return produce([&](std::span<const std::string_view> pieces) {
        AddPieces(pieces, sums);
        return write(pieces);
      });
    };
    HF_RETURN_IF_ERROR(writer_->PutStream(index, key, summing));
    AddRow(index, key, sums.Finish());
    return Status();
  }

  Status Refer(const ReferredArray& array) override {
    references_.Add(array, options_.write_digests);
    return Status();
  }

  void Abort(const Status& status) override {
    if (writer_ != nullptr) writer_->Abort(status);
  }

  Status Finish(DigestFile& digests) override {
    std::vector<ocdbt::MergeChild> children;
    // From here on file names are fixed, so a rival that took over uses them
    // too.
    HF_RETURN_IF_ERROR(CheckGuard(options_, 0));
    if (writer_ != nullptr) {
      HF_ASSIGN_OR_RETURN(ocdbt::BulkWriteSummary summary, writer_->Finish());
      AddValueDigests(summary.entries, digests);
      HF_RETURN_IF_ERROR(AddManifest(*store_, options_, prefix_, digests));
      children.push_back({prefix_, std::move(summary.entries)});
    }
    references_.MoveTo(children, digests);
    if (!options_.must_merge) return Status();
    HF_RETURN_IF_ERROR(AddAdoptedDatabases(
        *store_, options_.adopted_databases,
        options_.write_digests ? &digests : nullptr, children));
    return MergeIntoRoot(store_, options_, std::move(children), digests);
  }

 private:
  void AddRow(uint64_t index, const std::string& key, ValueDigest row) {
    if (IsFloat(options_, index)) options_.floats->Add(key, row);
    if (row.byte_count <= kMaxInlineValueBytes) return;  // a node has it
    std::lock_guard lock(mutex_);
    rows_.emplace_back(key, std::move(row));
  }

  // Adds the rows of the values in `list`, whose entries are sorted by key; the
  // rows here are sorted the same way.
  void AddValueDigests(const ocdbt::EntryList& list, DigestFile& digests) {
    std::sort(rows_.begin(), rows_.end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
    auto next = rows_.begin();
    for (const ocdbt::LeafEntry& entry : list.entries) {
      if (entry.is_inline() || next == rows_.end()) continue;
      if (next->first != entry.key) continue;
      ValueDigest& row = digests.values.emplace_back(std::move(next->second));
      row.path = prefix_ + list.files[entry.file_index].path;
      row.offset = entry.offset;
      ++next;
    }
  }

  Store* const store_;
  const ValueSinkOptions options_;
  const std::string prefix_;
  std::unique_ptr<ocdbt::BulkWriter> writer_;
  References references_;
  std::mutex mutex_;
  std::vector<std::pair<std::string, ValueDigest>> rows_;  // by key
};

class DirectorySink final : public ValueSink {
 public:
  DirectorySink(Store* store, ValueSinkOptions options)
      : store_(store), options_(std::move(options)) {
    if (options_.write_digests) rows_.resize(options_.value_count);
  }

  Status Put(uint64_t index, std::string key, EncodedChunk value,
             ValueKnownBy known_by,
             std::shared_ptr<const void> /*keepalive*/) override {
    WriteOptions write_options;
    write_options.sync = options_.sync;
    write_options.must_create = !options_.guarded_path.empty();
    write_options.may_queue = write_options.must_create;
    // Every name here is fixed, so a saver that was taken over must notice that
    // before each write.
    HF_RETURN_IF_ERROR(CheckGuard(options_, kLeaseGuardSeconds));
    write_options.atomic = false;  // not visible before the commit
    {
      const PhaseScope scope(Phase::kWrite, key, value.byte_count);
      HF_RETURN_IF_ERROR(store_->Write(key, value.pieces, write_options));
    }
    if (options_.write_digests) {
      ValueSums sums(known_by);
      AddPieces(value.pieces, sums);
      SetRow(index, std::move(key), sums);
    }
    return Status();
  }

  Status PutStream(uint64_t index, std::string key, ValueKnownBy known_by,
                   const StreamFn& produce) override {
    HF_ASSIGN_OR_RETURN(const std::unique_ptr<ObjectWriter> file,
                        store_->Create(key));
    uint64_t byte_count = 0;
    ValueSums sums(known_by);
    HF_RETURN_IF_ERROR(produce([&](std::span<const std::string_view> pieces) {
      const uint64_t offset = byte_count;
      byte_count += TotalBytes(pieces);
      if (options_.write_digests) AddPieces(pieces, sums);
      const PhaseScope scope(Phase::kWrite, key, byte_count - offset, offset);
      return file->WriteAt(offset, pieces);
    }));
    {
      const PhaseScope scope(Phase::kSync, key, byte_count);
      HF_RETURN_IF_ERROR(file->Finish(options_.sync));
    }
    if (options_.write_digests) SetRow(index, std::move(key), sums);
    return Status();
  }

  void Abort(const Status& /*status*/) override {}

  Status Finish(DigestFile& digests) override {
    for (ValueDigest& row : rows_) {
      if (zarr::IsMetadataKey(row.path)) {
        digests.files.push_back(
            {std::move(row.path), row.byte_count, row.crc32c});
      } else {
        digests.values.push_back(std::move(row));
      }
    }
    rows_.clear();
    return Status();
  }

 private:
  void SetRow(uint64_t index, std::string key, ValueSums& sums) {
    rows_[index] = sums.Finish();
    if (IsFloat(options_, index)) options_.floats->Add(key, rows_[index]);
    rows_[index].path = std::move(key);
  }

  Store* const store_;
  const ValueSinkOptions options_;
  std::vector<ValueDigest> rows_;  // each written by the thread that puts it
};

}  // namespace

Status ValueSink::Refer(const ReferredArray& /*array*/) {
  return UnimplementedError(
      "refer to chunks where they lie: want a new OCDBT database");
}

std::string ProcessPrefix(const ValueSinkOptions& options) {
  const std::string prefix = ProcessDirectoryName(options.process) + "/";
  const auto& taken = options.adopted_databases;
  if (std::find(taken.begin(), taken.end(), prefix) == taken.end()) {
    return prefix;
  }
  const ProcessDirectory own{"holdfast" + options.process.id,
                             options.process.is_replica};
  return ProcessDirectoryName(own) + "/";
}

Status MergeIntoRoot(Store* store, const ValueSinkOptions& options,
                     std::vector<ocdbt::MergeChild> children,
                     DigestFile& digests) {
  HF_ASSIGN_OR_RETURN(const ocdbt::BulkWriteOptions write_options,
                      DatabaseWriteOptions(options));
  HF_ASSIGN_OR_RETURN(
      const ocdbt::BulkWriteSummary merged,
      ocdbt::MergeEntries(store, "", std::move(children), write_options));
  if (options.write_digests) AddNodeRows(merged, digests);
  return AddManifest(*store, options, "", digests);
}

Result<std::unique_ptr<ValueSink>> MakeValueSink(Store* store,
                                                 ValueSinkOptions options) {
  if (!options.use_ocdbt) {
    return std::unique_ptr<ValueSink>(
        std::make_unique<DirectorySink>(store, std::move(options)));
  }
  if (options.replaced) {
    HF_ASSIGN_OR_RETURN(ocdbt::BulkWriteOptions write_options,
                        DatabaseWriteOptions(options));
    write_options.is_visible = true;  // readers see the old or the new file
    return MakeAppendSink(store, options, std::move(write_options));
  }
  auto sink = std::make_unique<OcdbtSink>(store, std::move(options));
  HF_RETURN_IF_ERROR(sink->Open());
  return std::unique_ptr<ValueSink>(std::move(sink));
}

}  // namespace holdfast
