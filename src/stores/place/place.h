// Place: a directory or file in any kind of storage, made from a path or a URL.
//
// A path becomes a Place where it enters the library, and the Place is passed
// on. The bucket of a URL is thus looked up once, and names below it are joined
// without another lookup. A Place carries the Look (look.h) of the call that
// uses it, and passes it to all places made from it.
//
// Any string that is not a URL is a file-system path. Neither making a Place
// nor joining names does I/O. An invalid URL makes a Place whose every use
// fails with the reason.
//
// Thread-safety: a value; const methods from any thread.
// Ownership: shares the bucket and the Look. Errors: InBucket fails with
// InvalidArgument (a path, a bad URL) or Unimplemented (unknown scheme).
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "holdfast/status.h"
#include "stores/cloud/bucket.h"
#include "stores/storage/store.h"
#include "stores/storage/url_path.h"

namespace holdfast {

// The target of a URL: an object, or the directory of objects below it.
struct BucketPlace {
  std::shared_ptr<Bucket> bucket;
  std::string key;  // "" for the whole bucket; no slash at either end

  // Returns the prefix of keys below the place: "key/", or "".
  std::string prefix() const { return key.empty() ? "" : key + "/"; }
  std::string url() const { return bucket->UrlOf(key); }
};

class Look;

class Place {
 public:
  // Normalizes URLs (stores/storage/url_path.h); a path stays as it is until
  // Absolute().
  explicit Place(std::string path);
  Place() = default;  // leads nowhere

  // Makes a place in a bucket that no URL leads to. `path` is its name in
  // messages.
  static Place OfBucket(std::string path, BucketPlace at);

  const std::string& path() const { return path_; }
  // Returns the last component: "x" for "/a/x" and for "gs://b/x", "" for
  // "gs://b".
  std::string name() const;
  Place parent() const;                          // a whole bucket: itself
  Place operator/(std::string_view name) const;  // for "": itself
  // Returns the place with its path made absolute by AbsolutePath.
  Place Absolute() const;

  // Whether the place is in an object store or on a web server.
  bool is_remote() const { return remote_ != nullptr; }
  // Whether a directory can be locked, and renamed in one step. Otherwise it is
  // copied, and savers coordinate by leases and a marker.
  bool can_rename() const { return !is_remote(); }
  // Whether names and bytes become durable only by a sync.
  bool needs_sync() const { return !is_remote(); }

  // Opens the store of everything below the place. If that is impossible, every
  // call of the store fails with the reason. Never null.
  std::shared_ptr<Store> OpenStore() const;

  // Returns Unimplemented where writing is impossible: on a web server and in a
  // hub's repository. Makes no request.
  Status CheckWritable() const;

  // Returns the place's bucket and key, for stores/place and for callers that
  // use buckets directly.
  Result<BucketPlace> InBucket() const;
  // Returns the Look that covers this place, or null without one.
  const std::shared_ptr<Look>& look() const { return look_; }
  Place WithLook(const std::shared_ptr<Look>& look) const;

 private:
  using Remote = Result<BucketPlace>;
  Place(std::string path, std::shared_ptr<const Remote> remote,
        const std::shared_ptr<Look>& look);

  std::string path_;
  std::shared_ptr<const Remote> remote_;  // null for paths
  std::shared_ptr<Look> look_;
};

}  // namespace holdfast
