// BucketRegistry: finds the Bucket that a URL refers to.
//
// gs, s3, hf, http and https are built in; tests register others ("mem"). A
// bucket is created on first use, one for each root ("s3://bucket",
// "https://host:port"). It is kept, with its connections and credentials, until
// the process ends or the options change. A revision of a model hub
// ("hf://org/model@main") is kept only while it is in use, so that a later user
// sees what has been pushed since.
//
// Thread-safety: any thread. Ownership: shared; a bucket that is in use
// outlives its entry in the registry.
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

  // Returns the registry in which Place looks up URLs. It is never destroyed,
  // because threads of its buckets may run until the process ends.
  static BucketRegistry& Default();

  // Replaces the factory of the scheme, and forgets the scheme's buckets.
  void Register(const std::string& scheme, Factory factory);
  // Sets the options of buckets that are opened later. The registry forgets the
  // buckets that are open now.
  void SetOptions(RemoteOptions options);
  RemoteOptions options() const;

  Result<std::shared_ptr<Bucket>> Open(const std::string& url);
  // Opens a separate bucket with these options; the registry does not keep it.
  Result<std::shared_ptr<Bucket>> OpenWith(const std::string& url,
                                           const RemoteOptions& options);
  // Finds the bucket and the key of a URL. The paths of s3:// and gs:// URLs
  // are used as keys unchanged. The paths of http(s):// URLs are unescaped, and
  // must have no query.
  Result<BucketPlace> Find(const std::string& url);

 private:
  mutable std::mutex mutex_;
  RemoteOptions options_;
  std::map<std::string, Factory> factories_;
  std::map<std::string, std::shared_ptr<Bucket>> buckets_;  // by root
};

}  // namespace holdfast
