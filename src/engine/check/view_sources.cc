#include "engine/check/view_sources.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "ground/base/status_macros.h"
#include "stores/place/directory_ops.h"
#include "stores/place/file_set.h"
#include "stores/storage/read_only_store.h"

namespace holdfast {
namespace {

// Reads sources through their links, and everything else from the directory
// itself.
class ViewStore final : public ReadOnlyStore {
 public:
  // `sources` are sorted by path, as in a DigestIndex.
  ViewStore(std::shared_ptr<Store> files, std::shared_ptr<Store> linked,
            const std::vector<SourceFile>& sources)
      : files_(std::move(files)), linked_(std::move(linked)) {
    for (const SourceFile& row : sources) names_.push_back(row.path);
  }

  std::string Describe(std::string_view key) const override {
    return Of(key).Describe(key);
  }
  int requests_in_flight() const override {
    return std::max(files_->requests_in_flight(),
                    linked_->requests_in_flight());
  }
  Result<ObjectInfo> Stat(std::string_view key) override {
    return Of(key).Stat(key);
  }
  Result<Bytes> Read(std::string_view key, ByteRange range) override {
    return Of(key).Read(key, range);
  }
  Status ReadInto(std::string_view key, uint64_t offset,
                  std::span<char> target) override {
    return Of(key).ReadInto(key, offset, target);
  }
  // Sends consecutive requests to the same store together.
  Status ReadBatch(std::span<const RangeRead> requests,
                   const CancelToken* cancel) override {
    while (!requests.empty()) {
      Store& store = Of(requests.front().key);
      size_t count = 1;
      while (count < requests.size() && &Of(requests[count].key) == &store) {
        ++count;
      }
      HF_RETURN_IF_ERROR(store.ReadBatch(requests.first(count), cancel));
      requests = requests.subspan(count);
    }
    return Status();
  }
  Status List(
      std::string_view prefix,
      const std::function<Status(std::string_view key, const ObjectInfo& info)>&
          fn) override {
    return files_->List(prefix, fn);
  }

 private:
  Store& Of(std::string_view key) const {
    return std::binary_search(names_.begin(), names_.end(), key) ? *linked_
                                                                 : *files_;
  }

  const std::shared_ptr<Store> files_;
  const std::shared_ptr<Store> linked_;
  std::vector<std::string> names_;
};

Status SourceError(const SourceFile& row, const std::string& why) {
  // A copy belongs to the view, and is as old as the view.
  const bool is_own = row.modified_ns == 0;
  return DataLossError(
      (is_own ? "the view's copy " + row.path + " of " : "the view's source ") +
      row.from + " " + why +
      "; put the file back as it was, or make the view again");
}

// Returns the size and time of the file that the place leads to.
Result<ObjectInfo> StatFile(const std::string& path, const Place& place) {
  HF_ASSIGN_OR_RETURN(const std::shared_ptr<Store> file,
                      MakeFileSet({{path, place}}));
  return file->Stat(path);
}

Status CompareSource(const SourceFile& row, const Result<ObjectInfo>& now,
                     const DigestIndex& list) {
  if (now.status().code() == StatusCode::kNotFound) {
    return SourceError(row, "is gone");
  }
  HF_RETURN_IF_ERROR(now.status());
  // If reads check the bytes, appended bytes do not matter.
  const bool is_summed = !list.RowsOf(row.path).empty();
  if (is_summed ? now->byte_count < row.byte_count
                : now->byte_count != row.byte_count) {
    return SourceError(
        row, "has changed (got " + std::to_string(now->byte_count) +
                 " bytes, want " + std::to_string(row.byte_count) + ")");
  }
  const bool both_known = now->modified_ns != 0 && row.modified_ns != 0;
  if (both_known && !is_summed && now->modified_ns != row.modified_ns) {
    return SourceError(row,
                       "has changed: it was written again since the view "
                       "was made");
  }
  return Status();
}

}  // namespace

Result<SourceFile> DescribeSource(const std::string& path, const Place& place) {
  HF_ASSIGN_OR_RETURN(const ObjectInfo info, StatFile(path, place));
  return SourceFile{path, info.byte_count, info.modified_ns,
                    place.Absolute().path()};
}

Status CheckSource(const Place& directory, const SourceFile& row,
                   const DigestIndex& list) {
  return CompareSource(row, StatFile(row.path, directory / row.path), list);
}

bool MayHaveLinks(const Place& directory) {
  if (directory.is_remote()) return false;
  const auto names = ListDirectory(directory);
  if (!names.ok()) return true;
  return std::any_of(names->begin(), names->end(),
                     [&](const std::string& name) {
                       if (name == kSourcesDirectory) return true;
                       const auto kind = GetPathKind(directory / name);
                       return !kind.ok() || *kind == PathKind::kSymlink;
                     });
}

Result<std::shared_ptr<Store>> WithSources(std::shared_ptr<Store> files,
                                           const Place& directory,
                                           const DigestIndex& list,
                                           bool must_match) {
  const std::vector<SourceFile>& sources = list.sources();
  if (sources.empty()) return files;
  std::map<std::string, Place> places;
  for (const SourceFile& row : sources) {
    const Result<ObjectInfo> now = StatFile(row.path, directory / row.path);
    if (must_match) HF_RETURN_IF_ERROR(CompareSource(row, now, list));
    if (now.ok()) places.emplace(row.path, directory / row.path);
  }
  if (directory.is_remote()) return files;  // has no links
  HF_ASSIGN_OR_RETURN(std::shared_ptr<Store> linked, MakeFileSet(places));
  return std::shared_ptr<Store>(std::make_shared<ViewStore>(
      std::move(files), std::move(linked), sources));
}

}  // namespace holdfast
