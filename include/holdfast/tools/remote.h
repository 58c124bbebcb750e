// Object stores: how they are reached, whole trees copied from anywhere to
// anywhere, and what is wrong when one cannot be reached.
//
//   holdfast::RemoteSettings settings;
//   settings.endpoint = "http://127.0.0.1:9000";
//   holdfast::SetRemoteSettings(settings);
//   auto copied = holdfast::Copy("/ckpt/7", "s3://bucket/run/7");
//
// Every path that holdfast takes may be gs://bucket/key, s3://bucket/key or,
// for reading, http(s)://host/path and hf://org/model[@revision][/path].
// Nothing has to be set: what is empty comes from the environment, as the
// stores' own tools read it (doc/remote.md).
//
// Thread-safety: any thread. Settings are the process's; what is open already
// keeps those it was opened with. Units: bytes, seconds.
// Errors: below; messages never hold a secret, nor a URL's user or query.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/export.h"
#include "holdfast/options.h"
#include "holdfast/status.h"

namespace holdfast HOLDFAST_EXPORT {

struct RemoteSettings {
  // S3: "": AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, the profile's, Amazon's.
  // GCS: "": STORAGE_EMULATOR_HOST, TENSORSTORE_GCS_HTTP_URL, Google's.
  std::string endpoint;
  std::string region;   // S3: "": AWS_REGION, AWS_DEFAULT_REGION, the profile's
  std::string profile;  // S3: "": AWS_PROFILE
  bool anonymous = false;  // sign nothing, send no token
  enum class AddressStyle : uint8_t { kAuto, kPath, kVirtualHost };
  AddressStyle address_style = AddressStyle::kAuto;  // S3
  bool requester_pays = false;
  std::string user_project;  // GCS

  int requests_in_flight_max = 64;
  int attempt_count_max = 12;  // of one request
  double connect_seconds = 10;
  double stall_seconds = 30;     // without a byte: a lost connection
  double request_seconds = 300;  // all attempts of a request
  // A second copy of a read that lags far behind the others. At most
  // 2 % of the bytes come twice, and one read more.
  bool hedge = true;
  // A file of trusted certificates; "": HOLDFAST_CA_BUNDLE, AWS_CA_BUNDLE,
  // SSL_CERT_FILE, CURL_CA_BUNDLE or the system's.
  std::string ca_bundle;
};

// InvalidArgument when a number makes no sense; nothing is changed then.
Status SetRemoteSettings(const RemoteSettings& settings);
RemoteSettings GetRemoteSettings();

// A libcurl to load where the system has none (HOLDFAST_LIBCURL, if set, counts
// before all). Before the first request.
void SetLibcurlPath(const std::string& path);

// Counts the requests of this process to object stores since it began.
struct RemoteCounters {
  uint64_t requests = 0;
  uint64_t attempts = 0;
  uint64_t retries = 0;
  uint64_t throttled = 0;  // answers 429 and 503
  uint64_t hedges = 0;
  uint64_t hedge_bytes = 0;  // received twice
  uint64_t connections = 0;
  uint64_t sent_bytes = 0;      // bodies
  uint64_t received_bytes = 0;  // bodies
};
RemoteCounters GetRemoteCounters();

// ---------------------------------------------------------------------------

struct CopyOptions {
  // Threads are pieces copied at once (0: 16 with an object store, else one a
  // CPU); in_flight_bytes_max bounds what is held; progress has the phases
  // "copy" and "verify".
  RunOptions run;
  // Replace an existing checkpoint or file. Without, AlreadyExists.
  bool overwrite = false;
  // Compares what is copied with the digests of its checkpoint, where it has
  // some: DataLoss names the first file that differs, and nothing is published.
  bool check = true;
  // Verifies the copy, as Verify does, when the source is a checkpoint.
  // FailedPrecondition when it is not a checkpoint; DataLoss names the first
  // damage.
  bool verify = false;
  // Copy files again that an earlier run has copied.
  bool restart = false;
  // Copy what symbolic links below a local source lead to, wherever that is.
  // Without, links to files below the source are followed, and any other is
  // FailedPrecondition, naming the link. The source itself may be a link.
  bool follow_links = false;
};

struct CopyResult {
  uint64_t file_count = 0;
  uint64_t byte_count = 0;  // of all files
  // The part of those that an earlier run left, or that a server copied by
  // itself.
  uint64_t kept_file_count = 0;
  uint64_t kept_byte_count = 0;
  uint64_t server_file_count = 0;
  uint64_t server_byte_count = 0;
  uint64_t checkpoint_count = 0;
  bool is_verified = false;
  double total_seconds = 0;
};

// Copies `source`, a file or a directory with all below it (a checkpoint, a
// root of steps, anything), to `target`, the exact place. Nothing is held but
// what is under way, and nothing is staged on disk.
//
// Files of every checkpoint (a directory with `_CHECKPOINT_METADATA`,
// `_METADATA`, `manifest.ocdbt` or `commit_success.txt`) come first, its marker
// last. In an object store a directory without a marker gets one, since there
// only that makes it count; a local directory gets its name when all is there
// and on stable storage. So a copy that was cut off looks like no checkpoint,
// and the same call goes on: what has the size, and the checksum or version
// that the journal of the first run knows, stays.
// Unfinished checkpoints, leases and temporary directories are left out.
//
// Errors: NotFound, AlreadyExists, those of the stores; FailedPrecondition when
// the source changes meanwhile; Unimplemented for a target that cannot be
// written (http) or a source that nothing lists: of http(s) a checkpoint with
// `_HOLDFAST_DIGESTS`, and single files.
Result<CopyResult> Copy(const std::string& source, const std::string& target,
                        const CopyOptions& options = {});

// ---------------------------------------------------------------------------

enum class CheckOutcome : uint8_t { kFine, kWarning, kFailed, kSkipped };
// "fine", "warning", "failed", "skipped".
std::string_view CheckOutcomeName(CheckOutcome outcome);

// One thing that was tried: "list", and what came of it in words.
struct RemoteCheck {
  std::string name;
  CheckOutcome outcome = CheckOutcome::kFine;
  std::string text;
};

struct DiagnoseOptions {
  bool read_only = false;  // write no probe object
  uint64_t probe_bytes = uint64_t{8} << 20;
  int latency_probe_count = 9;
  const std::atomic<bool>* cancel = nullptr;  // borrowed
};

struct Diagnosis {
  std::string url;
  std::string store;  // "s3", "gcs", "http"
  std::string endpoint;
  std::string region;       // "" if the store has none
  std::string credentials;  // where they are from and whose; never a secret
  std::string libcurl;      // version and file, or why it could not be loaded
  std::string ca_bundle;
  // 0 where not measured.
  double latency_seconds = 0;  // the median of small requests
  double read_bytes_per_second = 0;
  double write_bytes_per_second = 0;
  double clock_skew_seconds = 0;  // the server's clock less ours
  bool has_clock = false;
  // In the order in which they were tried: "libcurl", "connect", "list",
  // "read", "write", "conditional write", "multipart", "delete", "clock".
  std::vector<RemoteCheck> checks;

  bool has_failed() const;
};

// Tries everything that holdfast needs of the store at `url`, below that place.
// Failures are listed in `checks` and do not fail the call; nothing is left
// behind.
// Errors: InvalidArgument (no URL of a store), Cancelled.
Result<Diagnosis> Diagnose(const std::string& url,
                           const DiagnoseOptions& options = {});

}  // namespace holdfast
