#include "tiers/manager/step_files.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "engine/commit/file_writer.h"
#include "engine/save/item_parts.h"
#include "engine/save/item_writer.h"
#include "engine/save/save_options.h"
#include "ground/base/status_macros.h"
#include "stores/cloud/bucket_store.h"
#include "stores/storage/memory_store.h"

namespace holdfast {
namespace {

constexpr std::string_view kRootKey = "step";
constexpr std::string_view kRootPrefix = "step/";
constexpr std::string_view kVersion = "1";
constexpr int kReaderCount = 8;
constexpr uint64_t kAnswerBytesMax = uint64_t{4} << 20;

// A store on top of another store, which it does not change: writes are kept in
// memory, and deleted objects are hidden.
class OverlayStore final : public Store {
 public:
  using Store::Write;
  explicit OverlayStore(std::shared_ptr<Store> base) : base_(std::move(base)) {}

  MemoryStore& written() { return written_; }
  const std::set<std::string, std::less<>>& deleted() const { return deleted_; }

  std::string Describe(std::string_view key) const override {
    return base_->Describe(key);
  }
  Result<ObjectInfo> Stat(std::string_view key) override {
    return From(key).Stat(key);
  }
  Result<Bytes> Read(std::string_view key, ByteRange range) override {
    return From(key).Read(key, range);
  }
  Status ReadInto(std::string_view key, uint64_t offset,
                  std::span<char> target) override {
    return From(key).ReadInto(key, offset, target);
  }
  Status List(
      std::string_view prefix,
      const std::function<Status(std::string_view key, const ObjectInfo& info)>&
          fn) override {
    std::map<std::string, ObjectInfo> all;
    const auto add = [&](std::string_view key, const ObjectInfo& info) {
      if (!deleted_.contains(key)) all[std::string(key)] = info;
      return Status();
    };
    HF_RETURN_IF_ERROR(base_->List(prefix, add));
    HF_RETURN_IF_ERROR(written_.List(prefix, add));
    for (const auto& [key, info] : all) HF_RETURN_IF_ERROR(fn(key, info));
    return Status();
  }
  Status Write(std::string_view key, std::span<const std::string_view> pieces,
               const WriteOptions& options) override {
    return written_.Write(key, pieces, options);
  }
  Result<std::unique_ptr<ObjectWriter>> Create(std::string_view key) override {
    return written_.Create(key);
  }
  Status Delete(std::string_view key) override {
    deleted_.emplace(key);
    return written_.Delete(key);
  }
  Status SyncNames() override { return Status(); }

 private:
  Store& From(std::string_view key) {
    if (deleted_.contains(key) || written_.Stat(key).ok()) return written_;
    return *base_;
  }

  const std::shared_ptr<Store> base_;
  MemoryStore written_;
  std::set<std::string, std::less<>> deleted_;
};

}  // namespace

StepFiles::StepFiles(const TierStep& step,
                     std::vector<std::vector<TierFile>> files,
                     std::vector<int64_t> holders, TierPeers& peers)
    : ReadOnlyBucket("steps of the local tier"),
      step_(step),
      holders_(std::move(holders)),
      peers_(peers),
      readers_(kReaderCount) {
  traits_.can_write = false;
  traits_.requests_in_flight = kReaderCount;
  for (size_t rank = 0; rank < files.size(); ++rank) {
    uint64_t offset = 0;
    for (const TierFile& file : files[rank]) {
      files_.emplace(
          file.path,
          File{static_cast<int64_t>(rank), offset, file.byte_count, {}});
      offset += file.byte_count;
    }
  }
}

Status StepFiles::Finish(const std::shared_ptr<StepFiles>& files,
                         const std::string& item, const SaveOptions& save) {
  const std::string root = std::string(kRootPrefix) + item;
  OverlayStore store(std::make_shared<BucketStore>(files, root));
  FinishItemOptions options =
      FinishOptionsOf(WithSources(save), files->step_.save_id,
                      static_cast<int64_t>(files->holders_.size()));
  FileWriter writer(store, /*sync=*/false);
  HF_RETURN_IF_ERROR(FinishItemParts(options, writer));
  HF_RETURN_IF_ERROR(CloseItem(Place(root), options, writer));
  const std::string prefix = item + "/";
  for (const std::string& key : store.deleted()) {
    files->files_.erase(prefix + key);
  }
  return store.written().List(
      "", [&](std::string_view key, const ObjectInfo& info) -> Status {
        File file;
        file.byte_count = info.byte_count;
        HF_ASSIGN_OR_RETURN(file.bytes, store.written().Read(key));
        files->files_.insert_or_assign(prefix + std::string(key),
                                       std::move(file));
        return Status();
      });
}

Place StepFiles::PlaceOf(const std::shared_ptr<StepFiles>& files,
                         const std::string& item) {
  const Place root =
      Place::OfBucket("tier://step/" + std::to_string(files->step_.step),
                      {files, std::string(kRootKey)});
  return root / item;
}

std::string StepFiles::UrlOf(std::string_view key) const {
  const File* file = FileOf(key);
  const std::string path(key.substr(std::min(key.size(), kRootPrefix.size())));
  std::string url = "tier://step/" + std::to_string(step_.step) + "/" + path;
  if (file == nullptr || file->rank < 0) return url;
  return url + " (of rank " + std::to_string(file->rank) + ", at " +
         peers_.NameOf(holders_[file->rank]) + ")";
}

const StepFiles::File* StepFiles::FileOf(std::string_view key) const {
  if (!key.starts_with(kRootPrefix)) return nullptr;
  const auto found = files_.find(key.substr(kRootPrefix.size()));
  return found == files_.end() ? nullptr : &found->second;
}

Result<Bytes> StepFiles::Read(std::string_view path, ByteRange range) {
  GetRequest request;
  request.key = std::string(kRootPrefix) + std::string(path);
  request.range = range;
  HF_ASSIGN_OR_RETURN(GetResult result, GetOne(request));
  return std::move(result.bytes);
}

Result<ObjectEntry> StepFiles::Head(std::string_view key) {
  const File* file = FileOf(key);
  if (file == nullptr) return NotFoundError("File not found: " + UrlOf(key));
  return ObjectEntry{std::string(key), file->byte_count, std::string(kVersion),
                     0};
}

Status StepFiles::Fill(const File& file, uint64_t offset,
                       std::span<char> target) {
  if (file.rank < 0) {
    std::memcpy(target.data(), file.bytes.data() + offset, target.size());
    return Status();
  }
  while (!target.empty()) {
    const size_t count = std::min<uint64_t>(target.size(), kAnswerBytesMax);
    const BlockRange range{
        {step_, file.rank}, BlockKind::kData, file.offset + offset, count};
    HF_RETURN_IF_ERROR(
        peers_.Read(holders_[file.rank], range, target.first(count)));
    offset += count;
    target = target.subspan(count);
  }
  return Status();
}

Result<GetResult> StepFiles::GetOne(const GetRequest& request) {
  GetResult result;
  HF_ASSIGN_OR_RETURN(result.object, Head(request.key));
  const File& file = *FileOf(request.key);
  HF_ASSIGN_OR_RETURN(
      const ByteRange range,
      ResolveRange(request.range, file.byte_count, UrlOf(request.key)));
  if (range.byte_count == 0) return result;
  if (!request.target.empty()) {
    HF_RETURN_IF_ERROR(Fill(file, range.offset, request.target));
    return result;
  }
  Buffer bytes = Buffer::TryAllocate(range.byte_count);
  if (bytes.data() == nullptr) {
    return ResourceExhaustedError("read " + UrlOf(request.key) +
                                  ": no memory for " +
                                  std::to_string(range.byte_count) + " bytes");
  }
  HF_RETURN_IF_ERROR(
      Fill(file, range.offset, {bytes.data(), range.byte_count}));
  result.bytes = Bytes(std::move(bytes), range.byte_count);
  return result;
}

std::vector<Result<GetResult>> StepFiles::Get(
    std::span<const GetRequest> requests, const CancelToken* cancel) {
  std::vector<Result<GetResult>> results(requests.size(),
                                         Result<GetResult>(GetResult()));
  // A failure only concerns its own request; the other requests are still
  // executed.
  static_cast<void>(
      readers_.ParallelFor(requests.size(), [&](size_t i, int) -> Status {
        const Status status = cancel != nullptr ? cancel->Check() : Status();
        results[i] = status.ok() ? GetOne(requests[i]) : status;
        return Status();
      }));
  return results;
}

Result<ListPage> StepFiles::List(const ListRequest& request) {
  return ListNames(request, kRootPrefix, files_,
                   [](const std::string& key, const File& file) {
                     return ObjectEntry{key, file.byte_count,
                                        std::string(kVersion), 0};
                   });
}

}  // namespace holdfast
