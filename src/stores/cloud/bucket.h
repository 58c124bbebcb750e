// Bucket: the operations that all object stores have in common.
//
// A bucket maps keys (any bytes but NUL, at most 1024) to objects. An object is
// only replaced as a whole, never changed. Its version (an ETag without its
// quotes, or a generation) differs when its content differs. Every call makes
// one request, or one per page or part, with retries inside
// (stores/http/http_client.h). Writes are visible to all readers and listings
// when they return.
//
// Thread-safety: any thread. Ownership: keys, pieces and targets are borrowed
// for the call. Units: bytes; times are the server's, nanoseconds since 1970.
// Errors: NotFound (no such object, or no such bucket: the message says which),
// PermissionDenied (missing, wrong or expired credentials, or no permission:
// the message says which, and which credentials were used, never their
// secrets), FailedPrecondition (a Condition does not hold), OutOfRange,
// DataLoss (the object's version is not the wanted one, or the answer does not
// match the request), Unavailable, DeadlineExceeded, Cancelled; each with the
// object's URL.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ground/base/bytes.h"
#include "ground/base/cancel.h"
#include "holdfast/status.h"
#include "stores/storage/store.h"

namespace holdfast {

struct ObjectEntry {
  std::string key;
  uint64_t byte_count = 0;
  std::string version;
  int64_t modified_ns = 0;
};

// The condition on which a write or delete happens.
struct Condition {
  enum class Kind : uint8_t { kNone, kAbsent, kVersion };
  Kind kind = Kind::kNone;
  std::string version;

  static Condition None() { return {}; }
  static Condition Absent() { return {Kind::kAbsent, ""}; }
  static Condition Version(std::string version) {
    return {Kind::kVersion, std::move(version)};
  }
};

struct GetRequest {
  std::string key;
  ByteRange range;
  std::string version;     // "": any; otherwise another one is DataLoss
  std::span<char> target;  // filled exactly; if empty, bytes are returned
};

struct GetResult {
  Bytes bytes;         // empty if there was a target
  ObjectEntry object;  // byte_count: of the complete object
};

struct ListRequest {
  std::string prefix;
  std::string delimiter;    // "" or "/"
  std::string start_after;  // only keys greater than this
  std::string page_token;   // from the previous page
  int entry_count_max = 1000;
};

struct ListPage {
  std::vector<ObjectEntry> objects;   // by key
  std::vector<std::string> prefixes;  // including their delimiter, sorted
  std::string next_page_token;        // "" on the last page
};

// An upload in parts that Finish turns into an object. If it is destroyed
// before Finish, it is aborted on the server, if the server can be reached.
class Upload {
 public:
  virtual ~Upload() = default;
  // Sends a part. Parts are numbered from 0, and all but the last have
  // bucket.part_bytes(i) bytes.
  //
  // If the bucket has parts_in_order, the parts must be sent in order and one
  // at a time, and the last part, which may then be empty, must be marked with
  // `is_last`. Otherwise any thread may send them in any order, each once.
  virtual Status Part(uint64_t index, std::span<const std::string_view> pieces,
                      bool is_last) = 0;
  // Completes the object and returns its version. Call after all parts.
  virtual Result<std::string> Finish(const Condition& condition) = 0;
  virtual void Abort() = 0;
};

struct UnfinishedUpload {
  std::string key;
  std::string upload_id;
  int64_t begun_ns = 0;
};

struct BucketTraits {
  bool can_write = true;
  bool can_list = true;
  bool parts_in_order = false;
  // True if the server checks the condition when it finishes an upload.
  // Otherwise Finish checks it first, and another writer may intervene.
  bool upload_conditions = true;
  // The maximum number of bytes that one request asks for.
  uint64_t get_bytes_max = 16 << 20;
  // Objects larger than this are uploaded in parts.
  uint64_t put_bytes_max = 16 << 20;
  int requests_in_flight = 32;  // useful number of concurrent requests
};

// How a bucket is reached, for display; never contains a secret.
struct BucketAccess {
  std::string endpoint;  // "https://s3.eu-west-1.amazonaws.com"
  std::string region;    // "" without a region
  // The kind of credentials and their owner: "environment, access key
  // AKIA…WXYZ", "none (anonymous)".
  std::string credentials;
};

class Bucket {
 public:
  virtual ~Bucket() = default;

  virtual const BucketTraits& traits() const = 0;
  // Returns "s3://bucket/key", "gs://bucket/key" or "https://host/path".
  virtual std::string UrlOf(std::string_view key) const = 0;

  virtual Result<ObjectEntry> Head(std::string_view key) = 0;
  // Reads ranges, each with one request, concurrently. Results are in the order
  // of the requests. A range past the end is OutOfRange; the range {n, kToEnd}
  // with n == size returns no bytes. Without a target, an answer of more than
  // 64 MiB is ResourceExhausted, and the range must be requested in parts.
  virtual std::vector<Result<GetResult>> Get(
      std::span<const GetRequest> requests,
      const CancelToken* cancel = nullptr) = 0;
  // Writes an object with one request, whatever its size. Returns the new
  // version.
  virtual Result<std::string> Put(std::string_view key,
                                  std::span<const std::string_view> pieces,
                                  const Condition& condition = {}) = 0;
  virtual Result<std::unique_ptr<Upload>> StartUpload(std::string_view key) = 0;
  // Returns the size of the part with this index, unless it is the last.
  virtual uint64_t part_bytes(uint64_t index) const = 0;
  // Deletes an object. A missing object is ok, unless the condition names a
  // version.
  virtual Status Delete(std::string_view key,
                        const Condition& condition = {}) = 0;
  // Deletes the objects with as few requests as the store allows. Tries all
  // keys, then returns the first failure. A missing key is ok.
  virtual Status DeleteAll(std::span<const std::string> keys) = 0;
  virtual Result<ListPage> List(const ListRequest& request) = 0;
  // Copies within the bucket, on the server, and returns the target's new
  // version. `condition` applies to the target. If `source_version` is not "",
  // any other version of the source is DataLoss.
  virtual Result<std::string> Copy(std::string_view source,
                                   std::string_view target,
                                   const Condition& condition = {},
                                   const std::string& source_version = "") = 0;
  // Lists the uploads below a prefix that were neither finished nor aborted.
  virtual Result<std::vector<UnfinishedUpload>> ListUploads(
      std::string_view prefix) = 0;
  virtual Status AbortUpload(const UnfinishedUpload& upload) = 0;
  // Returns the server's time, as its last answer reported it; 0 before the
  // first answer.
  virtual int64_t ServerTimeNs() const = 0;
  // Returns how the bucket is reached. May fetch credentials, as the first
  // request does.
  virtual Result<BucketAccess> Access() { return BucketAccess{}; }
};

}  // namespace holdfast
