// BucketRegistry: which Bucket a URL means.
//
// gs, s3, hf, http and https are built in; tests register others ("mem").
// Buckets are made on first use and kept, one for each root ("s3://bucket",
// "https://host:port"), with their connections and credentials, as long as the
// process lives or until the options change. A revision of a model hub
// ("hf://org/model@main") is kept as long as somebody holds it, so that who
// comes later sees what was pushed meanwhile.
//
// Thread-safety: any thread. Ownership: shared; a bucket outlives its place in
// the registry while somebody holds it.
// Errors: InvalidArgument (bad URL), Unimplemented (no such scheme). No I/O.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "holdfast/status.h"
#include "stores/cloud/bucket.h"
#include "stores/cloud/remote_options.h"
#include "stores/place/place.h"

namespace holdfast {

class BucketRegistry {
 public:
  // `root` is the URL without its path.
  using Factory = std::function<Result<std::shared_ptr<Bucket>>(
      const std::string& root, const RemoteOptions& options)>;

  BucketRegistry();  // with the built-in schemes

  // The one that paths are looked up in. Never destroyed: its buckets' threads
  // may run until the process ends.
  static BucketRegistry& Default();

  // Replaces what is there for the scheme, and forgets its buckets.
  void Register(const std::string& scheme, Factory factory);
  // For buckets that are opened later; open ones are forgotten.
  void SetOptions(RemoteOptions options);
  RemoteOptions options() const;

  Result<std::shared_ptr<Bucket>> Open(const std::string& url);
  // A bucket of its own with these options; the registry does not keep it.
  Result<std::shared_ptr<Bucket>> OpenWith(const std::string& url,
                                           const RemoteOptions& options);
  // Paths of s3:// and gs:// are keys as they stand; those of http(s):// are
  // unescaped, and must have no query.
  Result<BucketPlace> Find(const std::string& url);

 private:
  mutable std::mutex mutex_;
  RemoteOptions options_;
  std::map<std::string, Factory> factories_;
  std::map<std::string, std::shared_ptr<Bucket>> buckets_;  // by root
};

}  // namespace holdfast
