#include "engine/check/checked_files.h"

#include <utility>

#include "engine/format/digest_file.h"
#include "engine/format/directory_names.h"
#include "ground/base/crc32c.h"
#include "ground/base/no_throw.h"
#include "ground/base/status_macros.h"
#include "holdfast/detail/checked_file.h"

namespace holdfast {

CheckedFiles CheckedFiles::Unchecked(std::shared_ptr<Store> store) {
  return CheckedFiles(std::move(store));
}

Status CheckDigestsAreThere(Store& store) {
  const Result<Bytes> marker = store.Read(kCommitMarkerFile);
  if (!marker.ok() || !MarkerTellsOfDigests(marker->view())) return Status();
  return DataLossError(
      store.Describe(kDigestFile) +
      " is gone: " + std::string(kCommitMarkerFile) +
      " says that the checkpoint was saved with it; without it bytes can be "
      "wrong without a trace");
}

Result<CheckedFiles::List> CheckedFiles::ReadList(Store& store, Bytes& text) {
  Result<Bytes> read = store.Read(kDigestFile);
  if (read.status().code() == StatusCode::kNotFound) {
    const Status there = CheckDigestsAreThere(store);
    if (!there.ok()) notes_.emplace_back(there.message());
    return List();
  }
  if (!read.ok()) return read.status();
  text = std::move(read).value();
  Result<DigestIndex> list = DigestIndex::Parse(text.view());
  if (!list.ok()) return list.status().WithContext(store.Describe(kDigestFile));
  return std::make_shared<const DigestIndex>(std::move(list).value());
}

void CheckedFiles::AddList(List list, std::string prefix) {
  if (list != nullptr) sums_.push_back({std::move(list), std::move(prefix)});
}

// Checks that the directory's list is this save's own. A list left by another
// save would vouch for that save's files.
Status CheckedFiles::CheckOwnList(const Bytes& text) {
  if (own_ != nullptr) return Check(kDigestFile, text.view());
  const Status gone = CheckGone(kDigestFile);
  if (!gone.ok()) notes_.emplace_back(gone.message());
  return Status();
}

Result<CheckedFiles> CheckedFiles::OfDirectory(std::shared_ptr<Store> store) {
  CheckedFiles files(std::move(store));
  Bytes text;
  HF_ASSIGN_OR_RETURN(files.own_, files.ReadList(*files.store_, text));
  files.AddList(files.own_, "");
  return files;
}

Result<CheckedFiles> CheckedFiles::OfItem(const Place& directory) {
  CheckedFiles files(directory.OpenStore());
  Bytes own_text;
  HF_ASSIGN_OR_RETURN(files.own_, files.ReadList(*files.store_, own_text));
  files.AddList(files.own_, "");
  Place above = directory;
  std::string prefix;
  List list = files.own_;
  // The last list found so far, which the next one may vouch for.
  Bytes below_text;
  std::string below_prefix;
  // A list higher up may cover the item, so the search continues to the
  // checkpoint's own root: the directory whose list has `_CHECKPOINT_METADATA`.
  for (int level = 0; level < kLevelsAboveMax; ++level) {
    if (list != nullptr && list->HasFile(kCheckpointMetadataFile)) break;
    Place parent = above.parent();
    if (parent.path() == above.path()) break;
    prefix = above.name() + "/" + prefix;
    above = std::move(parent);
    Bytes text;
    Result<List> read = files.ReadList(*above.OpenStore(), text);
    // A user who may read an item need not be allowed to read the directories
    // above it.
    if (read.status().code() == StatusCode::kPermissionDenied) break;
    HF_ASSIGN_OR_RETURN(list, std::move(read));
    files.AddList(list, prefix);
    if (list == nullptr) continue;
    if (!below_text.view().empty()) {
      const std::string below_list =
          prefix.substr(0, prefix.size() - below_prefix.size()) +
          std::string(kDigestFile);
      HF_RETURN_IF_ERROR(list->CheckFile(below_list, below_text.view())
                             .WithContext((above / below_list).path()));
    }
    below_text = std::move(text);
    below_prefix = prefix;
  }
  HF_RETURN_IF_ERROR(files.CheckOwnList(own_text));
  return files;
}

Result<std::shared_ptr<const DigestIndex>> CheckedFiles::ListFor(
    const std::shared_ptr<Store>& store, const Place& directory) {
  // In a bucket, each lookup in a directory above costs a request.
  const bool looks_above = store->requests_in_flight() <= 1;
  HF_ASSIGN_OR_RETURN(CheckedFiles files,
                      looks_above ? OfItem(directory) : OfDirectory(store));
  if (!looks_above && files.own_ == nullptr) {
    Result<CheckedFiles> above = OfDirectory(directory.parent().OpenStore());
    if (above.status().code() == StatusCode::kDataLoss) return above.status();
    if (above.ok()) files.AddList(above->own_, directory.name() + "/");
  }
  if (files.own_ != nullptr) return files.own_;
  for (const Sums& sums : files.sums_) {
    std::optional<DigestIndex> below = sums.list->Below(sums.prefix);
    if (below) return std::make_shared<const DigestIndex>(*std::move(below));
  }
  return std::shared_ptr<const DigestIndex>();
}

Result<CheckedFiles> CheckedFiles::Below(std::string_view name,
                                         std::shared_ptr<Store> store) const {
  CheckedFiles below(std::move(store));
  Bytes own_text;
  HF_ASSIGN_OR_RETURN(below.own_, below.ReadList(*below.store_, own_text));
  below.AddList(below.own_, "");
  for (const Sums& sums : sums_) {
    below.AddList(sums.list, sums.prefix + std::string(name) + "/");
  }
  HF_RETURN_IF_ERROR(below.CheckOwnList(own_text));
  return below;
}

Result<Bytes> CheckedFiles::Read(std::string_view name) const {
  Result<Bytes> content = store_->Read(name);
  // A listed file that is missing is damage, not "not found": a caller must not
  // fall back to a default.
  if (content.status().code() == StatusCode::kNotFound) {
    HF_RETURN_IF_ERROR(CheckGone(name));
  }
  if (content.ok()) HF_RETURN_IF_ERROR(Check(name, content->view()));
  return content;
}

Status CheckedFiles::Check(std::string_view name,
                           std::string_view content) const {
  for (const Sums& sums : sums_) {
    HF_RETURN_IF_ERROR(
        sums.list->CheckFile(sums.prefix + std::string(name), content)
            .WithContext(store_->Describe(name)));
  }
  return Status();
}

Status CheckedFiles::CheckGone(std::string_view name) const {
  if (!Lists(name)) return Status();
  return DataLossError(store_->Describe(name) +
                       " is gone: " + std::string(kDigestFile) +
                       " says that the checkpoint was saved with it");
}

bool CheckedFiles::Lists(std::string_view name) const {
  for (const Sums& sums : sums_) {
    if (sums.list->HasFile(sums.prefix + std::string(name))) return true;
  }
  return false;
}

void CheckedFiles::ForEachListed(
    std::string_view prefix,
    const std::function<void(const FileDigest&)>& visit) const {
  for (const Sums& sums : sums_) {
    const std::string wanted = sums.prefix + std::string(prefix);
    for (const FileDigest& row : sums.list->FilesBelow(wanted)) {
      visit({row.path.substr(sums.prefix.size()), row.byte_count, row.crc32c});
    }
  }
}

Result<Bytes> ReadChecked(const Place& file) {
  HF_ASSIGN_OR_RETURN(const CheckedFiles files,
                      CheckedFiles::OfItem(file.parent()));
  return files.Read(file.name());
}

Result<std::string> ReadCheckedFile(const std::string& path) {
  return CatchBadAlloc([&]() -> Result<std::string> {
    HF_ASSIGN_OR_RETURN(const Bytes content,
                        ReadChecked(Place(path).Absolute()));
    return content.ToString();
  });
}

Status DropDigests(Store& store) { return store.Delete(kDigestFile); }

Status ForgetListedItem(const std::string& path, const std::string& item,
                        std::optional<std::string_view> metadata) {
  return CatchBadAlloc([&]() -> Status {
    const std::shared_ptr<Store> store = Place(path).Absolute().OpenStore();
    const Result<Bytes> text = store->Read(kDigestFile);
    if (text.status().code() == StatusCode::kNotFound) return Status();
    HF_RETURN_IF_ERROR(text.status());
    Result<DigestFile> list = ParseDigestFile(text->view());
    if (!list.ok()) return store->Delete(kDigestFile);
    const auto is_gone = [&](const auto& row) {
      return row.path == kCheckpointMetadataFile ||
             row.path.starts_with(item + "/");
    };
    std::erase_if(list->files, is_gone);
    std::erase_if(list->values, is_gone);
    if (metadata) {
      list->files.push_back({std::string(kCheckpointMetadataFile),
                             metadata->size(), Crc32c(*metadata)});
    }
    return store->Write(kDigestFile, SerializeDigestFile(*list));
  });
}

}  // namespace holdfast
