#include "engine/save/append_sink.h"

#include <mutex>
#include <unordered_set>
#include <utility>
#include <vector>

#include "engine/restore/array_index.h"
#include "formats/ocdbt/append.h"
#include "ground/base/status_macros.h"

namespace holdfast {
namespace {

class AppendSink final : public ValueSink {
 public:
  AppendSink(Store* store, const ValueSinkOptions& options,
             ocdbt::BulkWriteOptions write_options)
      : store_(store),
        directory_(ProcessPrefix(options)),
        options_(std::move(write_options)) {
    for (const std::string& name : *options.replaced) {
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

std::unique_ptr<ValueSink> MakeAppendSink(
    Store* store, const ValueSinkOptions& options,
    ocdbt::BulkWriteOptions write_options) {
  return std::make_unique<AppendSink>(store, options, std::move(write_options));
}

}  // namespace holdfast
