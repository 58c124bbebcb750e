#include "checkpoint/save/process_sink.h"

#include <mutex>
#include <unordered_set>
#include <vector>

#include "base/status_macros.h"
#include "checkpoint/format/directory_names.h"
#include "checkpoint/restore/array_index.h"
#include "ocdbt/append.h"
#include "ocdbt/bulk_writer.h"

namespace holdfast {
namespace {

class NewDatabaseSink final : public ValueSink {
 public:
  explicit NewDatabaseSink(std::unique_ptr<ocdbt::BulkWriter> writer)
      : writer_(std::move(writer)) {}

  Status Put(uint64_t index, std::string key, EncodedChunk value, ValueKnownBy,
             std::shared_ptr<const void> keepalive) override {
    return writer_->Put(index, key, std::move(value), std::move(keepalive));
  }
  Status PutStream(uint64_t index, std::string key, ValueKnownBy,
                   const StreamFn& produce) override {
    return writer_->PutStream(index, key, produce);
  }
  void Abort(const Status& status) override { writer_->Abort(status); }
  Status Finish(DigestFile& /*digests*/) override {
    return writer_->Finish().status();
  }

 private:
  const std::unique_ptr<ocdbt::BulkWriter> writer_;
};

class AppendSink final : public ValueSink {
 public:
  AppendSink(Store* store, std::string directory,
             std::vector<std::string> replaced, ocdbt::BulkWriteOptions options)
      : store_(store),
        directory_(std::move(directory)),
        options_(std::move(options)) {
    for (const std::string& name : replaced) {
      replaced_.insert(ArrayPrefix(name));
    }
  }

  Status Put(uint64_t /*index*/, std::string key, EncodedChunk value,
             ValueKnownBy, std::shared_ptr<const void> keepalive) override {
    const std::lock_guard lock(mutex_);
    values_.push_back(
        {std::move(key), std::move(value), std::move(keepalive), {}});
    return Status();
  }

  Status PutStream(uint64_t /*index*/, std::string key, ValueKnownBy,
                   const StreamFn& produce) override {
    const auto text = std::make_shared<std::string>();
    HF_RETURN_IF_ERROR(produce([&](std::span<const std::string_view> pieces) {
      for (const std::string_view piece : pieces) text->append(piece);
      return Status();
    }));
    const std::lock_guard lock(mutex_);
    values_.push_back({std::move(key), {}, {}, text});
    return Status();
  }

  void Abort(const Status& /*status*/) override {}

  Status Finish(DigestFile& /*digests*/) override {
    std::vector<ocdbt::AppendEntry> entries;
    entries.reserve(values_.size());
    for (Value& value : values_) {
      if (value.text != nullptr) {
        entries.push_back(ocdbt::BorrowEntry(value.key, *value.text));
      } else {
        entries.push_back({value.key, std::move(value.chunk)});
      }
    }
    const auto is_replaced = [&](std::string_view key) {
      for (size_t end = key.find('/'); end != std::string_view::npos;
           end = key.find('/', end + 1)) {
        if (replaced_.contains(std::string(key.substr(0, end + 1)))) {
          return true;
        }
      }
      return false;
    };
    return ocdbt::AppendEntries(store_, directory_, entries, options_,
                                is_replaced)
        .status();
  }

 private:
  struct Value {
    std::string key;
    EncodedChunk chunk;
    std::shared_ptr<const void> keepalive;
    std::shared_ptr<const std::string> text;  // of a streamed value
  };

  Store* const store_;
  const std::string directory_;
  const ocdbt::BulkWriteOptions options_;
  std::unordered_set<std::string> replaced_;
  std::mutex mutex_;
  std::vector<Value> values_;
};

}  // namespace

Result<std::unique_ptr<ValueSink>> MakeProcessSink(
    Store* store, std::string directory, std::vector<std::string> replaced,
    ValueSinkOptions options) {
  ocdbt::BulkWriteOptions write_options;
  write_options.target_data_file_bytes = options.target_data_file_bytes;
  write_options.commit_time_ns = options.commit_time_ns;
  write_options.sync = options.sync;
  const Status found =
      store->Stat(directory + std::string(kManifestFile)).status();
  if (found.ok()) {
    return std::unique_ptr<ValueSink>(std::make_unique<AppendSink>(
        store, std::move(directory), std::move(replaced), write_options));
  }
  if (found.code() != StatusCode::kNotFound) return found;
  write_options.is_visible = false;  // FileWriter::SyncNames comes last
  HF_ASSIGN_OR_RETURN(
      auto writer,
      ocdbt::BulkWriter::Create(store, std::move(directory), write_options));
  return std::unique_ptr<ValueSink>(
      std::make_unique<NewDatabaseSink>(std::move(writer)));
}

}  // namespace holdfast
