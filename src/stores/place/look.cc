#include "stores/place/look.h"

#include <algorithm>
#include <span>
#include <utility>

#include "ground/base/status_macros.h"
#include "stores/cloud/bucket_store.h"
#include "stores/place/bucket_listing.h"
#include "stores/place/well_known_names.h"

namespace holdfast {
namespace {

// Limits of one batch.
constexpr size_t kFetchCountMax = 128;
constexpr uint64_t kOpeningFileBytesMax = 16 << 20;
constexpr uint64_t kDataFileBytesMax = 1 << 20;
constexpr uint64_t kDataBytesMax = 16 << 20;

// Returns "a" for "x/a/b".
std::string_view DirectoryPart(std::string_view key) {
  const size_t slash = key.rfind('/');
  return slash == std::string_view::npos ? "" : NameOfKey(key.substr(0, slash));
}

template <typename Names>
bool IsOneOf(std::string_view name, const Names& names) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

bool IsOpeningFile(std::string_view key) {
  return IsOneOf(NameOfKey(key), kOpeningNames) ||
         IsOneOf(DirectoryPart(key), kOpeningDirectories);
}

bool IsDataFile(std::string_view key) {
  return DirectoryPart(key) == kDataDirectory;
}

// Returns "x/" for "x/a/".
std::string ParentOfPrefix(std::string_view prefix) {
  prefix.remove_suffix(prefix.empty() ? 0 : 1);
  const size_t slash = prefix.rfind('/');
  return std::string(prefix.substr(0, slash == prefix.npos ? 0 : slash + 1));
}

size_t DepthOf(std::string_view key) {
  return std::count(key.begin(), key.end(), '/');
}

// Returns the first key after all keys that begin with `prefix`, which ends in
// '/' ('0' is the byte after '/').
std::string EndOf(const std::string& prefix) {
  std::string end = prefix;
  if (!end.empty()) end.back() = '/' + 1;
  return end;
}

}  // namespace

Store& Look::store() { return *store_; }

Look::Look(BucketPlace root, LookFor what)
    : root_(std::move(root)),
      what_(what),
      store_(std::make_shared<BucketStore>(root_.bucket, root_.key)) {}

bool Look::Covers(const BucketPlace& place) const {
  return place.bucket == root_.bucket &&
         (place.key == root_.key || place.key.starts_with(root_.prefix()));
}

std::string Look::ParentPrefix(const std::string& key) const {
  const size_t slash = key.rfind('/');
  return slash == std::string::npos ? "" : key.substr(0, slash + 1);
}

void Look::AddFile(ObjectEntry object) {
  const bool is_told =
      !object.version.empty() && !IsDirectoryMarker(object.key);
  if (is_told) store_->Remember(object);
  absent_.erase(object.key);
  std::string key = object.key;
  files_.insert_or_assign(std::move(key), std::move(object));
}

Status Look::Start() {
  if (mode_ != Mode::kNotYet) return {};
  if (!root_.bucket->traits().can_list) {
    mode_ = Mode::kProbing;
    return {};
  }
  mode_ = Mode::kListing;
  const Status listed = ListFlat();
  if (listed.ok()) return listed;
  // Some credentials may read but not list.
  if (listed.code() == StatusCode::kPermissionDenied ||
      listed.code() == StatusCode::kUnimplemented) {
    mode_ = Mode::kProbing;
    HF_RETURN_IF_ERROR(Probe(root_.prefix()));
    if (!contents_.empty()) return {};
  }
  mode_ = Mode::kNotYet;
  return listed;
}

Status Look::ListFlat() {
  ListRequest request{.prefix = root_.prefix()};
  for (int page_count = 0; page_count < kFlatPagesMax; ++page_count) {
    HF_ASSIGN_OR_RETURN(ListPage page, root_.bucket->List(request));
    // Pages are in order, so everything up to the last key is known even if the
    // listing stops here.
    if (!page.objects.empty()) known_until_ = page.objects.back().key;
    for (ObjectEntry& object : page.objects) AddFile(std::move(object));
    request.page_token = std::move(page.next_page_token);
    if (request.page_token.empty()) {
      knows_all_ = true;
      return {};
    }
  }
  return {};
}

Status Look::ListOne(const std::string& prefix) {
  if (KnowsEntries(prefix)) return {};
  HF_ASSIGN_OR_RETURN(DirectoryEntries entries,
                      ListEntries(*root_.bucket, prefix));
  Listed& listed = listed_[prefix];
  listed.directories.insert(entries.directories.begin(),
                            entries.directories.end());
  for (ObjectEntry& file : entries.files) AddFile(std::move(file));
  return {};
}

bool Look::KnowsTree(const std::string& prefix) const {
  return knows_all_ || (!known_until_.empty() && !prefix.empty() &&
                        EndOf(prefix) <= known_until_);
}

bool Look::KnowsEntries(const std::string& prefix) const {
  return KnowsTree(prefix) || listed_.contains(prefix);
}

bool Look::HasBelow(const std::string& prefix) const {
  const auto first = files_.lower_bound(prefix);
  return first != files_.end() && first->first.starts_with(prefix);
}

Look::Known Look::FindLocked(const std::string& key) const {
  const auto file = files_.find(key);
  if (file != files_.end()) return {Presence::kPresent, file->second};
  const bool is_absent =
      absent_.contains(key) ||
      (mode_ == Mode::kListing &&
       (knows_all_ || (!known_until_.empty() && key <= known_until_) ||
        listed_.contains(ParentPrefix(key))));
  return {is_absent ? Presence::kAbsent : Presence::kUnknown, {}};
}

Look::Known Look::Find(const std::string& key) {
  const std::lock_guard lock(mutex_);
  if (mode_ == Mode::kForgotten) return {};
  return FindLocked(key);
}

Result<Look::MaybeKind> Look::Kind(const std::string& key) {
  const std::lock_guard lock(mutex_);
  HF_RETURN_IF_ERROR(Start());
  if (mode_ == Mode::kForgotten) return MaybeKind(std::nullopt);
  const std::string prefix = key.empty() ? "" : key + "/";
  const std::string parent = ParentPrefix(key);
  const bool is_root = key == root_.key;
  if (mode_ == Mode::kProbing) {
    if (is_root) HF_RETURN_IF_ERROR(Probe(prefix));
    if (HasBelow(prefix)) return MaybeKind(local::PathKind::kDirectory);
    HF_RETURN_IF_ERROR(ProbeFile(key));
    const bool is_file = FindLocked(key).presence == Presence::kPresent;
    if (is_root && !is_file) {
      HF_RETURN_IF_ERROR(ProbeFile(prefix + std::string(kProbedModel)));
      if (HasBelow(prefix)) return MaybeKind(local::PathKind::kDirectory);
    }
    return MaybeKind(is_file ? local::PathKind::kFile
                             : local::PathKind::kMissing);
  }
  if (HasBelow(prefix)) return MaybeKind(local::PathKind::kDirectory);
  if (is_root) return MaybeKind(std::nullopt);
  if (!KnowsTree(prefix)) HF_RETURN_IF_ERROR(ListOne(parent));
  const auto listed = listed_.find(parent);
  if (listed != listed_.end() &&
      listed->second.directories.contains(std::string(NameOfKey(key)))) {
    return MaybeKind(local::PathKind::kDirectory);
  }
  return MaybeKind(FindLocked(key).presence == Presence::kPresent
                       ? local::PathKind::kFile
                       : local::PathKind::kMissing);
}

Result<Look::MaybeNames> Look::Names(const std::string& key) {
  const std::lock_guard lock(mutex_);
  HF_RETURN_IF_ERROR(Start());
  if (mode_ == Mode::kForgotten) return MaybeNames(std::nullopt);
  const std::string prefix = key.empty() ? "" : key + "/";
  if (mode_ == Mode::kProbing) {
    HF_RETURN_IF_ERROR(Probe(prefix));
  } else {
    HF_RETURN_IF_ERROR(ListOne(prefix));
  }
  std::set<std::string> names;
  const auto listed = listed_.find(prefix);
  if (listed != listed_.end()) names = listed->second.directories;
  bool is_there = false;
  for (auto file = files_.lower_bound(prefix);
       file != files_.end() && file->first.starts_with(prefix); ++file) {
    is_there = true;
    const std::string_view rest =
        std::string_view(file->first).substr(prefix.size());
    const std::string_view name = rest.substr(0, rest.find('/'));
    if (!name.empty()) names.emplace(name);
  }
  if (names.empty() && !is_there)
    return MaybeNames(std::nullopt);  // so that the bucket reports the error
  return MaybeNames(std::vector<std::string>(names.begin(), names.end()));
}

Result<Look::MaybeObjects> Look::Below(const std::string& prefix) {
  const std::lock_guard lock(mutex_);
  HF_RETURN_IF_ERROR(Start());
  if (mode_ == Mode::kForgotten) return MaybeObjects(std::nullopt);
  if (mode_ == Mode::kProbing) {
    HF_RETURN_IF_ERROR(Probe(prefix.substr(0, prefix.rfind('/') + 1)));
  } else if (!KnowsTree(prefix)) {
    return MaybeObjects(std::nullopt);
  }
  std::vector<ObjectEntry> objects;
  for (auto file = files_.lower_bound(prefix);
       file != files_.end() && file->first.starts_with(prefix); ++file) {
    if (!IsDirectoryMarker(file->first)) objects.push_back(file->second);
  }
  return MaybeObjects(objects);
}

void Look::Keep(const std::string& key, Bytes content) {
  if (content_bytes_ + content.size() > kFetchedBytesMax) return;
  content_bytes_ += content.size();
  contents_.insert_or_assign(key, std::move(content));
}

// Returns whether the caller's LookFor needs this file, which is one of those
// that are fetched together.
bool Look::IsWanted(const std::string& key) const {
  const std::string directory = ParentPrefix(key);
  const std::string_view name = NameOfKey(key);
  // The marker's content matters only if the list of checksums that it mentions
  // is missing.
  if (name == kPlaceCommitMarker &&
      files_.contains(directory + std::string(kDigestsName))) {
    return false;
  }
  if (what_ == LookFor::kStep && !IsOneOf(name, kStepNames)) return false;
  if (what_ == LookFor::kLeaves && name == kMetadataName) return false;
  const std::string database =
      IsDataFile(key) ? ParentOfPrefix(directory) : directory;
  const bool is_part =
      !database.empty() &&
      files_.contains(ParentOfPrefix(database) + std::string(kManifestName));
  if (!is_part) return true;
  // A database above merges this part with others, and also has the part's
  // nodes. Only the part's values are read from the part itself.
  if (IsDataFile(key)) return what_ == LookFor::kValues;
  return name != kManifestName;
}

// Returns the file `key` first, then all opening files below its directory
// (those nearest to it first), then data files.
std::vector<const ObjectEntry*> Look::WorthFetching(
    const std::string& key) const {
  const std::string around = ParentPrefix(key);
  std::vector<const ObjectEntry*> opening, data;
  for (auto file = files_.lower_bound(around);
       file != files_.end() && file->first.starts_with(around); ++file) {
    const ObjectEntry& object = file->second;
    if (contents_.contains(file->first)) continue;
    if (file->first != key && !IsWanted(file->first)) continue;
    if (IsOpeningFile(file->first)) {
      if (object.byte_count <= kOpeningFileBytesMax) opening.push_back(&object);
    } else if (IsDataFile(file->first) &&
               object.byte_count <= kDataFileBytesMax) {
      data.push_back(&object);
    }
  }
  const auto comes_first = [&](const ObjectEntry* a, const ObjectEntry* b) {
    if ((a->key == key) != (b->key == key)) return a->key == key;
    return DepthOf(a->key) < DepthOf(b->key);
  };
  std::stable_sort(opening.begin(), opening.end(), comes_first);
  std::stable_sort(data.begin(), data.end(), comes_first);
  // Half of the batch is reserved for data files, so that many items cannot
  // displace the data of a small item.
  if (opening.size() > kFetchCountMax / 2) opening.resize(kFetchCountMax / 2);
  uint64_t data_bytes = 0;
  for (const ObjectEntry* object : data) {
    data_bytes += object->byte_count;
    if (opening.size() == kFetchCountMax || data_bytes > kDataBytesMax) break;
    opening.push_back(object);
  }
  return opening;
}

Status Look::FetchAround(const std::string& key) {
  std::vector<GetRequest> requests;
  uint64_t byte_count = content_bytes_;
  for (const ObjectEntry* object : WorthFetching(key)) {
    byte_count += object->byte_count;
    if (byte_count > kFetchedBytesMax) break;
    if (object->byte_count == 0) {
      Keep(object->key, Bytes());
      continue;
    }
    requests.push_back({object->key, {}, object->version, {}});
  }
  if (requests.empty()) return {};
  std::vector<Result<GetResult>> results = root_.bucket->Get(requests);
  for (size_t i = 0; i < requests.size(); ++i) {
    if (!results[i].ok()) {
      // Errors of the other files are reported when those files are read.
      if (requests[i].key == key) return results[i].status();
      continue;
    }
    Keep(requests[i].key, std::move(results[i]->bytes));
  }
  return {};
}

Result<Look::MaybeBytes> Look::Fetch(const std::string& key) {
  const std::lock_guard lock(mutex_);
  HF_RETURN_IF_ERROR(Start());
  if (mode_ == Mode::kForgotten) return MaybeBytes(std::nullopt);
  auto content = contents_.find(key);
  if (content != contents_.end()) return MaybeBytes(content->second);
  if (!IsOpeningFile(key)) return MaybeBytes(std::nullopt);
  if (mode_ == Mode::kProbing) {
    HF_RETURN_IF_ERROR(Probe(ParentPrefix(key)));
  } else if (FindLocked(key).presence == Presence::kPresent) {
    HF_RETURN_IF_ERROR(FetchAround(key));
  }
  content = contents_.find(key);
  if (content == contents_.end()) return MaybeBytes(std::nullopt);
  return MaybeBytes(content->second);
}

void Look::Forget() {
  const std::lock_guard lock(mutex_);
  mode_ = Mode::kForgotten;
  files_.clear();
  listed_.clear();
  absent_.clear();
  contents_.clear();
}

void Look::Settle() {
  const std::lock_guard lock(mutex_);
  // Metadata is read once, during opening. Data files are kept for later reads.
  std::erase_if(contents_, [&](const auto& content) {
    if (IsDataFile(content.first)) return false;
    content_bytes_ -= content.second.size();
    return true;
  });
}

LookScope::LookScope(const Place& place, LookFor what) : place_(place) {
  // A path to a bare file means the arrays next to it.
  const bool is_bare = IsOneOf(place.name(), kBareNames);
  const Result<BucketPlace> root =
      is_bare ? place.parent().InBucket() : place.InBucket();
  if (!root.ok() || place.look() != nullptr) return;
  look_ = std::make_shared<Look>(*root, what);
  place_ = place.WithLook(look_);
}

LookScope::~LookScope() {
  if (look_ != nullptr) look_->Settle();
}

}  // namespace holdfast
