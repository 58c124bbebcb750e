// Place: a directory or a file, wherever it is: what a path or a URL comes to.
//
// A path is made a place where it enters, and the place is handed down: which
// bucket a URL means is asked once, and what can be done there is asked of the
// place, not of its text. Names below are joined without asking. A place has
// the Look (look.h) of the call that it is used in, and so have all made from
// it. A text that is no URL is a path. Neither making nor joining does I/O; a
// URL that leads nowhere makes a place whose every use fails so.
//
// Thread-safety: a value; const methods from any thread.
// Ownership: shares the bucket and the Look. Errors: of InBucket:
// InvalidArgument (a path, a bad URL), Unimplemented (no such scheme).
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "holdfast/status.h"
#include "stores/cloud/bucket.h"
#include "stores/storage/store.h"
#include "stores/storage/url_path.h"

namespace holdfast {

// The place that a URL names: an object, or the directory of objects below it.
struct BucketPlace {
  std::shared_ptr<Bucket> bucket;
  std::string key;  // "" for the whole bucket; no slash at either end

  // Keys below the place begin with this: "key/", or "".
  std::string prefix() const { return key.empty() ? "" : key + "/"; }
  std::string url() const { return bucket->UrlOf(key); }
};

class Look;

class Place {
 public:
  // Not explicit: whoever has a path has a place. URLs are normalized
  // (stores/storage/url_path.h); a path stays as it is, until Absolute.
  Place(std::string path);
  Place() = default;  // nowhere
  Place(const char* path) : Place(std::string(path)) {}

  // In a bucket that no URL leads to; `path` is what it is called.
  static Place OfBucket(std::string path, BucketPlace at);

  const std::string& path() const { return path_; }
  // The last part: "x" of "/a/x" and of "gs://b/x"; "" of "gs://b".
  std::string name() const;
  Place parent() const;                          // of a whole bucket: itself
  Place operator/(std::string_view name) const;  // of "": itself
  // With a path made absolute, as AbsolutePath does.
  Place Absolute() const;

  // In an object store or on a web server.
  bool is_remote() const { return remote_ != nullptr; }
  // Whether a directory gets another name in one step, and can be locked; else
  // it is copied, and savers meet by leases and a marker.
  bool can_rename() const { return !is_remote(); }
  // Whether names and bytes are durable only when somebody syncs them.
  bool needs_sync() const { return !is_remote(); }

  // The store of all below it; when there can be none, one whose every call
  // says why. Never null.
  std::shared_ptr<Store> OpenStore() const;

  // Unimplemented where nothing can be written: on a web server, in a
  // repository of a hub. Asks nobody.
  Status CheckWritable() const;

  // For place/ and those who speak to buckets.
  Result<BucketPlace> InBucket() const;
  // The Look that covers this place; null without one.
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
