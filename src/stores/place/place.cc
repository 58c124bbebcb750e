#include "stores/place/place.h"

#include <utility>

#include "stores/cloud/bucket_store.h"
#include "stores/place/broken_store.h"
#include "stores/place/bucket_registry.h"
#include "stores/place/look.h"
#include "stores/storage/file_store.h"
#include "stores/storage/url_path.h"

namespace holdfast {
namespace {

std::string Joined(std::string_view above, std::string_view name) {
  std::string joined(above);
  if (!joined.empty() && joined.back() != '/') joined += '/';
  return joined += name;
}

}  // namespace

Place::Place(std::string path) : path_(std::move(path)) {
  if (path_ == "~" || path_.starts_with("~/")) {
    remote_ = std::make_shared<const Remote>(InvalidArgumentError(
        "path " + path_ +
        ": a shell expands \"~\", and holdfast does not; give the path of the "
        "home directory, or ./~ for a directory of this name"));
    return;
  }
  if (!IsUrl(path_)) return;
  path_ = AbsolutePath(path_);
  remote_ =
      std::make_shared<const Remote>(BucketRegistry::Default().Find(path_));
}

Place::Place(std::string path, std::shared_ptr<const Remote> remote,
             const std::shared_ptr<Look>& look)
    : path_(std::move(path)), remote_(std::move(remote)) {
  const bool is_covered = look != nullptr && remote_ != nullptr &&
                          remote_->ok() && look->Covers(**remote_);
  if (is_covered) look_ = look;
}

Place Place::OfBucket(std::string path, BucketPlace at) {
  return Place(std::move(path), std::make_shared<const Remote>(std::move(at)),
               nullptr);
}

std::string Place::name() const { return FileNameOf(path_); }

Place Place::parent() const {
  std::shared_ptr<const Remote> above = remote_;
  if (above != nullptr && above->ok()) {
    const size_t slash = (*above)->key.rfind('/');
    const size_t byte_count = slash == std::string::npos ? 0 : slash;
    above = std::make_shared<const Remote>(
        BucketPlace{(*above)->bucket, (*above)->key.substr(0, byte_count)});
  }
  return Place(ParentDirectory(path_), std::move(above), look_);
}

Place Place::operator/(std::string_view name) const {
  if (name.empty()) return *this;
  std::shared_ptr<const Remote> below = remote_;
  if (below != nullptr && below->ok()) {
    below = std::make_shared<const Remote>(
        BucketPlace{(*below)->bucket, Joined((*below)->key, name)});
  }
  return Place(Joined(path_, name), std::move(below), look_);
}

Place Place::Absolute() const {
  return Place(AbsolutePath(path_), remote_, look_);
}

std::shared_ptr<Store> Place::OpenStore() const {
  if (!is_remote()) return std::make_shared<FileStore>(path_);
  if (!remote_->ok()) {
    return std::make_shared<BrokenStore>(path_, remote_->status());
  }
  const BucketPlace& at = **remote_;
  if (look_ != nullptr) return MakeLookStore(look_, at.key);
  return std::make_shared<BucketStore>(at.bucket, at.key);
}

Status Place::CheckWritable() const {
  if (!is_remote() || !remote_->ok()) return {};
  if ((*remote_)->bucket->traits().can_write) return {};
  return UnimplementedError("write to " + path_ +
                            ": web servers and repositories of a hub are only "
                            "read from; write to a path, gs:// or s3://");
}

Result<BucketPlace> Place::InBucket() const {
  if (is_remote()) return *remote_;
  return InvalidArgumentError("URL " + path_ + ": is a path");
}

Place Place::WithLook(const std::shared_ptr<Look>& look) const {
  return Place(path_, remote_, look);
}

}  // namespace holdfast
