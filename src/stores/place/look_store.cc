// The Store of a directory that a Look covers.
#include <algorithm>
#include <cstring>
#include <utility>

#include "ground/base/status_macros.h"
#include "stores/place/look.h"

namespace holdfast {
namespace {

class LookStore final : public Store {
 public:
  using Store::Write;

  LookStore(std::shared_ptr<Look> look, const std::string& key)
      : look_(std::move(look)),
        directory_(key.empty() ? "" : key + "/"),
        inner_prefix_(directory_.substr(look_->root().prefix().size())) {}

  std::string Describe(std::string_view key) const override {
    return look_->root().bucket->UrlOf(FullKey(key));
  }
  int requests_in_flight() const override {
    return inner().requests_in_flight();
  }

  Result<ObjectInfo> Stat(std::string_view key) override {
    HF_RETURN_IF_ERROR(CheckKey(key));
    const Look::Known known = look_->Find(FullKey(key));
    if (known.presence == Look::Presence::kPresent) {
      return ObjectInfo{known.object.byte_count, known.object.modified_ns};
    }
    if (known.presence == Look::Presence::kAbsent) return Absent(key);
    return inner().Stat(InnerKey(key));
  }

  Result<Bytes> Read(std::string_view key, ByteRange range) override {
    HF_RETURN_IF_ERROR(CheckKey(key));
    HF_ASSIGN_OR_RETURN(const std::optional<Bytes> content,
                        look_->Fetch(FullKey(key)));
    if (content) {
      HF_ASSIGN_OR_RETURN(range,
                          ResolveRange(range, content->size(), Describe(key)));
      return content->Slice(range.offset, range.byte_count);
    }
    if (IsAbsent(key)) return Absent(key);
    return inner().Read(InnerKey(key), range);
  }

  Status ReadInto(std::string_view key, uint64_t offset,
                  std::span<char> target) override {
    const RangeRead request{key, offset, target};
    return ReadBatch({&request, 1});
  }

  Status ReadBatch(std::span<const RangeRead> requests,
                   const CancelToken* cancel = nullptr) override {
    std::vector<std::string> keys;  // of `asked`
    keys.reserve(requests.size());
    std::vector<RangeRead> asked;
    for (const RangeRead& request : requests) {
      HF_RETURN_IF_ERROR(CheckKey(request.key));
      HF_ASSIGN_OR_RETURN(const std::optional<Bytes> content,
                          look_->Fetch(FullKey(request.key)));
      if (content) {
        HF_RETURN_IF_ERROR(CopyOut(*content, request));
        continue;
      }
      if (IsAbsent(request.key)) return Absent(request.key);
      keys.push_back(InnerKey(request.key));
      asked.push_back({keys.back(), request.offset, request.target});
    }
    return asked.empty() ? Status() : inner().ReadBatch(asked, cancel);
  }

  // Returns a location that includes the size if the Look already knows it.
  Result<ObjectLocation> Locate(std::string_view key) override {
    HF_RETURN_IF_ERROR(CheckKey(key));
    const Look::Known known = look_->Find(FullKey(key));
    if (known.presence == Look::Presence::kAbsent) return Absent(key);
    ObjectLocation location{.store = this, .key = std::string(key)};
    if (known.presence == Look::Presence::kPresent) {
      location.byte_count = known.object.byte_count;
    }
    return location;
  }

  Status List(
      std::string_view prefix,
      const std::function<Status(std::string_view key, const ObjectInfo& info)>&
          fn) override {
    HF_ASSIGN_OR_RETURN(const auto objects, look_->Below(FullKey(prefix)));
    if (objects) {
      for (const ObjectEntry& object : *objects) {
        HF_RETURN_IF_ERROR(
            fn(std::string_view(object.key).substr(directory_.size()),
               {object.byte_count}));
      }
      return {};
    }
    return inner().List(InnerKey(prefix),
                        [&](std::string_view key, const ObjectInfo& info) {
                          return fn(key.substr(inner_prefix_.size()), info);
                        });
  }

  Status Write(std::string_view key, std::span<const std::string_view> pieces,
               const WriteOptions& options) override {
    // A write makes the Look outdated, even for other keys (a marker changes
    // the kind of a directory).
    look_->Forget();
    return inner().Write(InnerKey(key), pieces, options);
  }
  Result<std::unique_ptr<ObjectWriter>> Create(std::string_view key) override {
    look_->Forget();
    return inner().Create(InnerKey(key));
  }
  Status Delete(std::string_view key) override {
    look_->Forget();
    return inner().Delete(InnerKey(key));
  }
  Status SyncNames() override { return inner().SyncNames(); }
  Status Flush() override { return inner().Flush(); }
  int writers_in_flight() const override { return inner().writers_in_flight(); }
  void BoundBuffers(uint64_t bytes_max) override {
    inner().BoundBuffers(bytes_max);
  }

 private:
  Store& inner() const { return look_->store(); }
  std::string FullKey(std::string_view key) const {
    return directory_ + std::string(key);
  }
  std::string InnerKey(std::string_view key) const {
    return inner_prefix_ + std::string(key);
  }
  bool IsAbsent(std::string_view key) const {
    return look_->Find(FullKey(key)).presence == Look::Presence::kAbsent;
  }
  Status Absent(std::string_view key) const {
    return NotFoundError("read " + Describe(key) + ": there is no such object");
  }
  Status CopyOut(const Bytes& content, const RangeRead& request) const {
    HF_ASSIGN_OR_RETURN(const ByteRange range,
                        ResolveRange({request.offset, request.target.size()},
                                     content.size(), Describe(request.key)));
    if (range.byte_count == 0) return {};
    std::memcpy(request.target.data(), content.view().data() + range.offset,
                range.byte_count);
    return {};
  }

  const std::shared_ptr<Look> look_;
  const std::string directory_;     // in the bucket; "" or ends in '/'
  const std::string inner_prefix_;  // below the Look's root
};

}  // namespace

std::shared_ptr<Store> MakeLookStore(std::shared_ptr<Look> look,
                                     const std::string& key) {
  return std::make_shared<LookStore>(std::move(look), key);
}

}  // namespace holdfast
