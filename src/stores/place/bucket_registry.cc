#include "stores/place/bucket_registry.h"

#include <utility>

#include "ground/base/status_macros.h"
#include "ground/base/text.h"
#include "stores/cloud/gcs/gcs_bucket.h"
#include "stores/cloud/http_bucket.h"
#include "stores/cloud/hub/hub_bucket.h"
#include "stores/cloud/s3/s3_bucket.h"
#include "stores/storage/url_path.h"

namespace holdfast {
namespace {

constexpr std::string_view kHubScheme = "hf";

std::string NameOf(const std::string& root) {
  return root.substr(root.find("://") + 3);
}

struct UrlHalves {
  std::string root;  // UrlRoot, the scheme in lower case
  std::string path;  // the rest, without slashes at its ends
};

Status BadUrl(std::string_view url, std::string_view why) {
  return InvalidArgumentError("URL " + std::string(url) + ": " +
                              std::string(why));
}

Result<UrlHalves> HalvesOf(std::string_view url) {
  const std::string scheme = UrlScheme(url);
  const std::string root = UrlRoot(url);
  const std::string name = NameOf(root);
  if (name.empty()) return BadUrl(url, "names no bucket or host");
  if (scheme != kHubScheme && name.find('@') != std::string::npos) {
    // The message must not repeat a possible password.
    return BadUrl(scheme + "://…",
                  "has a user or password, which belong in the environment");
  }
  std::string_view path = url.substr(root.size());
  while (path.starts_with('/')) path.remove_prefix(1);
  while (path.ends_with('/')) path.remove_suffix(1);
  return UrlHalves{scheme + "://" + name, std::string(path)};
}

bool IsWebScheme(std::string_view scheme) {
  return scheme == "http" || scheme == "https";
}

}  // namespace

BucketRegistry::BucketRegistry() {
  factories_["s3"] = [](const std::string& root, const RemoteOptions& options) {
    return OpenS3Bucket(NameOf(root), options);
  };
  factories_["gs"] = [](const std::string& root, const RemoteOptions& options) {
    return OpenGcsBucket(NameOf(root), options);
  };
  factories_["http"] = factories_["https"] = [](const std::string& root,
                                                const RemoteOptions& options) {
    return OpenHttpBucket(root, options);
  };
  factories_[std::string(kHubScheme)] = [](const std::string& root,
                                           const RemoteOptions& options) {
    return OpenHubBucket(root, options);
  };
}

BucketRegistry& BucketRegistry::Default() {
  // The registry is never destroyed: other static objects may use it while the
  // process exits.
  static BucketRegistry* const registry = new BucketRegistry;
  return *registry;
}

void BucketRegistry::Register(const std::string& scheme, Factory factory) {
  const std::lock_guard lock(mutex_);
  factories_[scheme] = std::move(factory);
  // Without this, buckets made by the old factory would stay in use.
  std::erase_if(buckets_, [&](const auto& entry) {
    return UrlScheme(entry.first) == scheme;
  });
}

void BucketRegistry::SetOptions(RemoteOptions options) {
  const std::lock_guard lock(mutex_);
  options_ = std::move(options);
  buckets_.clear();
}

RemoteOptions BucketRegistry::options() const {
  const std::lock_guard lock(mutex_);
  return options_;
}

Result<std::shared_ptr<Bucket>> BucketRegistry::Open(const std::string& url) {
  HF_ASSIGN_OR_RETURN(BucketPlace place, Find(url));
  return std::move(place.bucket);
}

Result<std::shared_ptr<Bucket>> BucketRegistry::OpenWith(
    const std::string& url, const RemoteOptions& options) {
  if (!IsUrl(url)) return BadUrl(url, "is a path");
  HF_ASSIGN_OR_RETURN(const UrlHalves halves, HalvesOf(url));
  Factory factory;
  {
    const std::lock_guard lock(mutex_);
    const auto found = factories_.find(UrlScheme(url));
    if (found != factories_.end()) factory = found->second;
  }
  if (factory == nullptr) {
    return UnimplementedError("open " + url + ": no store for this scheme");
  }
  return factory(halves.root, options);
}

Result<BucketPlace> BucketRegistry::Find(const std::string& url) {
  if (!IsUrl(url)) return BadUrl(url, "is a path");
  const std::string scheme = UrlScheme(url);
  if (scheme == "file") {
    return BadUrl(url, "is a path of this machine; give it as one: /dir/name");
  }
  HF_ASSIGN_OR_RETURN(UrlHalves halves, HalvesOf(url));
  if (IsWebScheme(scheme)) {
    if (url.find_first_of("?#") != std::string::npos) {
      return BadUrl(url.substr(0, url.find_first_of("?#")),
                    "has a query or fragment, which no file below it can have");
    }
    halves.path = PercentDecoded(halves.path);
  }
  if (halves.path.find('\0') != std::string::npos) {
    return BadUrl(halves.root, "has a NUL byte in its path");
  }
  const std::lock_guard lock(mutex_);
  const auto factory = factories_.find(scheme);
  if (factory == factories_.end()) {
    return UnimplementedError("open " + url + ": no store for the scheme \"" +
                              scheme + "\" (want gs, s3, hf, http or https)");
  }
  std::shared_ptr<Bucket>& bucket = buckets_[halves.root];
  // The commit of a branch is looked up again when nothing reads from it.
  if (scheme == kHubScheme && bucket.use_count() == 1) bucket = nullptr;
  if (bucket == nullptr) {
    Result<std::shared_ptr<Bucket>> made =
        factory->second(halves.root, options_);
    if (!made.ok()) return made.status().WithContext("open " + url);
    bucket = std::move(made).value();
  }
  return BucketPlace{bucket, std::move(halves.path)};
}

}  // namespace holdfast
