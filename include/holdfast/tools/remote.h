// Object stores: settings for accessing them, copies of complete directory
// trees between any two places, and diagnosis of a store that cannot be
// reached.
//
//   holdfast::RemoteSettings settings;
//   settings.endpoint = "http://127.0.0.1:9000";
//   holdfast::SetRemoteSettings(settings);
//   auto copied = holdfast::Copy("/ckpt/7", "s3://bucket/run/7");
//
// Every path that holdfast accepts may be gs://bucket/key, s3://bucket/key or,
// for reading, http(s)://host/path and hf://org/model[@revision][/path]. No
// setting is required: empty settings are read from the environment, as the
// stores' own tools do (doc/remote.md).
//
// Thread-safety: any thread. Settings apply to the process; files that are
// already open keep the settings they were opened with.
// Units: bytes, seconds.
// Errors: see below. Messages never contain a secret, nor a URL's user or
// query.
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
  // If empty, for S3: AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, the profile's, or
  // Amazon's; for GCS: STORAGE_EMULATOR_HOST, TENSORSTORE_GCS_HTTP_URL, or
  // Google's.
  std::string endpoint;
  std::string region;   // S3: "": AWS_REGION, AWS_DEFAULT_REGION, the profile's
  std::string profile;  // S3: "": AWS_PROFILE
  bool anonymous = false;  // sign nothing, send no token
  enum class AddressStyle : uint8_t { kAuto, kPath, kVirtualHost };
  AddressStyle address_style = AddressStyle::kAuto;  // S3
  bool requester_pays = false;
  std::string user_project;  // GCS

  int requests_in_flight_max = 64;
  int attempt_count_max = 12;  // per request
  double connect_seconds = 10;
  double stall_seconds = 30;     // time without a byte until a new attempt
  double request_seconds = 300;  // all attempts of a request
  // Send a second request for a read that takes much longer than the others. At
  // most 2 % of the bytes, plus one read, are received twice.
  bool hedge = true;
  // A file of trusted certificates. If empty: HOLDFAST_CA_BUNDLE,
  // AWS_CA_BUNDLE, SSL_CERT_FILE, CURL_CA_BUNDLE, or the system's.
  std::string ca_bundle;
};

// Replaces the settings. InvalidArgument for an invalid number; no setting is
// then changed.
Status SetRemoteSettings(const RemoteSettings& settings);
RemoteSettings GetRemoteSettings();

// Sets the path of a libcurl to load if the system does not have one.
// HOLDFAST_LIBCURL, if set, takes precedence. Must be called before the first
// request.
void SetLibcurlPath(const std::string& path);

// Counts of this process's requests to object stores since it started.
struct RemoteCounters {
  uint64_t requests = 0;
  uint64_t attempts = 0;
  uint64_t retries = 0;
  uint64_t throttled = 0;  // responses 429 and 503
  uint64_t hedges = 0;
  uint64_t hedge_bytes = 0;  // received twice
  uint64_t connections = 0;
  uint64_t sent_bytes = 0;      // bodies
  uint64_t received_bytes = 0;  // bodies
};
RemoteCounters GetRemoteCounters();

// ---------------------------------------------------------------------------

struct CopyOptions {
  // threads is the number of pieces that are copied concurrently (0: 16
  // with an object store, otherwise one per CPU); memory_bytes limits
  // the memory; progress has the phases "copy" and "verify".
  RunOptions run;
  // Replace an existing checkpoint or file. If false, that is AlreadyExists.
  bool overwrite = false;
  // Compare the data with the checkpoint's digests, if it has them. If a file
  // differs, the copy does not appear, and DataLoss names the first such file.
  bool check = true;
  // Verify the copy, as Verify does. FailedPrecondition if the source is not a
  // checkpoint; DataLoss names the first damage.
  bool verify = false;
  // Also copy files again that an earlier run has copied.
  bool restart = false;
  // Copy the targets of all symbolic links below a local source. If false,
  // links to files below the source are followed, and any other link is
  // FailedPrecondition, naming the link. The source itself may be a link.
  bool follow_links = false;
};

struct CopyResult {
  uint64_t file_count = 0;
  uint64_t byte_count = 0;  // of all files
  // The files and bytes of these that an earlier run had copied (kept), and
  // those that a server copied by itself.
  uint64_t kept_file_count = 0;
  uint64_t kept_byte_count = 0;
  uint64_t server_file_count = 0;
  uint64_t server_byte_count = 0;
  uint64_t checkpoint_count = 0;
  bool is_verified = false;
  double total_seconds = 0;
};

// Copies `source`, a file or a directory with everything below it (a
// checkpoint, a root of steps, anything), to `target`, the exact path. Only
// data in transit is held in memory, and nothing is staged on disk.
//
// In every checkpoint (a directory with `_CHECKPOINT_METADATA`, `_METADATA`,
// `manifest.ocdbt` or `commit_success.txt`) the marker is copied last. In an
// object store, a checkpoint without a marker gets one, because only a marker
// makes a directory a checkpoint there. A local directory gets its name when
// all its files are copied and on stable storage. So an interrupted copy does
// not look like a checkpoint.
//
// Repeating the call continues an interrupted copy: files with the right size,
// and with the checksum or version in the first run's journal, are kept.
// Unfinished checkpoints, leases and temporary directories are left out.
//
// Errors: NotFound, AlreadyExists, those of the stores; FailedPrecondition if
// the source changes during the copy; Unimplemented for a target that cannot be
// written (http) or a source that cannot be listed: over http(s), only a
// checkpoint with `_HOLDFAST_DIGESTS` and single files can be copied.
Result<CopyResult> Copy(const std::string& source, const std::string& target,
                        const CopyOptions& options = {});

// ---------------------------------------------------------------------------

enum class CheckOutcome : uint8_t { kFine, kWarning, kFailed, kSkipped };
// Returns the outcome's name: "fine", "warning", "failed", "skipped".
std::string_view CheckOutcomeName(CheckOutcome outcome);

// An operation that was tried, e.g. "list", and its result in words.
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
  std::string credentials;  // their source and owner, without secrets
  std::string libcurl;      // version and file, or why it could not be loaded
  std::string ca_bundle;
  // These are 0 if they were not measured.
  double latency_seconds = 0;  // the median of small requests
  double read_bytes_per_second = 0;
  double write_bytes_per_second = 0;
  double clock_skew_seconds = 0;  // the server's clock minus ours
  bool has_clock = false;
  // In the order in which they were tried: "libcurl", "connect", "list",
  // "read", "write", "conditional write", "multipart", "delete", "clock".
  std::vector<RemoteCheck> checks;

  bool has_failed() const;
};

// Tries all operations that holdfast needs from the store at `url`, below that
// path, and leaves nothing in the store. Failures are listed in `checks` and do
// not fail the call.
// Errors: InvalidArgument (not a URL of a store), Cancelled.
Result<Diagnosis> Diagnose(const std::string& url,
                           const DiagnoseOptions& options = {});

}  // namespace holdfast
