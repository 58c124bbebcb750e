// Diagnose: tries every operation that holdfast needs from a store once.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <random>
#include <thread>

#include "ground/base/no_throw.h"
#include "ground/base/sha256.h"
#include "ground/base/status_macros.h"
#include "holdfast/tools/remote.h"
#include "stores/cloud/bucket.h"
#include "stores/http/ca_bundle.h"
#include "stores/http/libcurl_file.h"
#include "stores/http/url.h"
#include "stores/place/place.h"
#include "stores/storage/url_path.h"

namespace holdfast {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::string_view kProbeDirectory = ".holdfast-doctor-";
// If the clocks differ by more than this, the server refuses signatures or soon
// will.
constexpr double kSkewSecondsMax = 300;
constexpr double kSkewSecondsNoted = 5;

double SecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

std::string StoreOfScheme(std::string_view scheme) {
  if (scheme == "gs") return "gcs";
  if (scheme == "https") return "http";
  return std::string(scheme);
}

// Explains a failure to the person who sets up a store.
std::string InWords(const Status& status, std::string_view right) {
  std::string text(status.message());
  if (status.code() == StatusCode::kPermissionDenied) {
    return "no permission to " + std::string(right) + ": " + text;
  }
  return text;
}

class Examination {
 public:
  Examination(BucketPlace place, const DiagnoseOptions& options)
      : place_(std::move(place)),
        bucket_(*place_.bucket),
        options_(options),
        probe_(place_.prefix() + std::string(kProbeDirectory) + RandomHex32() +
               "/") {}

  Result<Diagnosis> Execute(const std::string& url) {
    found_.url = RedactUrl(url);
    found_.store = StoreOfScheme(UrlScheme(url));
    if (!FindLibcurl(UrlScheme(url))) return std::move(found_);
    FindAccess();
    HF_RETURN_IF_ERROR(CheckCancelled());
    if (!Connect()) return std::move(found_);
    List();
    HF_RETURN_IF_ERROR(CheckCancelled());
    MeasureLatency();
    HF_RETURN_IF_ERROR(CheckCancelled());
    const Status probed = Probe();
    CompareClocks();
    HF_RETURN_IF_ERROR(probed);
    return std::move(found_);
  }

 private:
  using Outcome = CheckOutcome;

  void Add(std::string name, Outcome outcome, std::string text) {
    found_.checks.push_back({std::move(name), outcome, std::move(text)});
  }

  Status CheckCancelled() const {
    const bool is_cancelled =
        options_.cancel != nullptr && options_.cancel->load();
    return is_cancelled ? CancelledError("doctor: cancelled") : Status();
  }

  // Finds libcurl and its certificates. Stores that tests register do not need
  // it.
  bool FindLibcurl(std::string_view scheme) {
    const bool is_built_in = scheme == "gs" || scheme == "s3" ||
                             scheme == "http" || scheme == "https";
    if (!is_built_in) return true;
    const Result<std::string> bundle = FindCaBundle("");
    found_.ca_bundle =
        bundle.ok() ? *bundle : std::string(bundle.status().message());
    const Result<std::string> libcurl = DescribeLibcurl();
    if (libcurl.ok()) {
      found_.libcurl = *libcurl;
      Add("libcurl", Outcome::kFine, *libcurl);
      return true;
    }
    found_.libcurl = libcurl.status().message();
    Add("libcurl", Outcome::kFailed, found_.libcurl);
    return false;
  }

  void FindAccess() {
    const Result<BucketAccess> access = bucket_.Access();
    if (!access.ok()) {
      Add("credentials", Outcome::kFailed,
          std::string(access.status().message()));
      return;
    }
    found_.endpoint = RedactUrl(access->endpoint);
    found_.region = access->region;
    found_.credentials = access->credentials;
    Add("credentials", Outcome::kFine,
        access->credentials.empty() ? "none needed" : access->credentials);
  }

  // Checks that the server answers. Even NotFound is an answer.
  bool Connect() {
    const Status status = Touch();
    const StatusCode code = status.code();
    const bool is_answer = status.ok() || code == StatusCode::kNotFound ||
                           code == StatusCode::kPermissionDenied;
    if (!is_answer) {
      Add("connect", Outcome::kFailed, std::string(status.message()));
      return false;
    }
    Add("connect", Outcome::kFine,
        found_.endpoint.empty() ? "the server answers"
                                : found_.endpoint + " answers");
    return true;
  }

  Status Touch() {
    const std::string key = place_.key.empty() ? probe_ + "absent" : place_.key;
    return bucket_.Head(key).status();
  }

  void List() {
    if (!bucket_.traits().can_list) {
      Add("list", Outcome::kSkipped,
          "a web server cannot be listed: checkpoints open by the names of "
          "their files");
      return;
    }
    const Result<ListPage> page =
        bucket_.List({.prefix = place_.prefix(), .entry_count_max = 10});
    if (!page.ok()) {
      Add("list", Outcome::kFailed, InWords(page.status(), "list"));
      return;
    }
    for (const ObjectEntry& object : page->objects) {
      if (object.byte_count > sample_.byte_count) sample_ = object;
    }
    Add("list", Outcome::kFine,
        page->objects.empty() ? "may list; nothing is there yet" : "may list");
  }

  void MeasureLatency() {
    std::vector<double> seconds;
    for (int i = 0; i < options_.latency_probe_count; ++i) {
      const Clock::time_point begin = Clock::now();
      const StatusCode code = Touch().code();
      if (code != StatusCode::kOk && code != StatusCode::kNotFound) return;
      seconds.push_back(SecondsSince(begin));
      if (!CheckCancelled().ok()) return;
    }
    if (seconds.empty()) return;
    const auto middle = seconds.begin() + seconds.size() / 2;
    std::nth_element(seconds.begin(), middle, seconds.end());
    found_.latency_seconds = *middle;
  }

  void Skip(std::initializer_list<const char*> names, const std::string& why) {
    for (const char* const name : names) Add(name, Outcome::kSkipped, why);
  }

  Status Probe() {
    if (!bucket_.traits().can_write || options_.read_only) {
      ReadSample();
      Skip({"write", "conditional write", "multipart", "delete"},
           bucket_.traits().can_write ? "asked not to write"
                                      : "it is only read from");
      return Status();
    }
    if (!Write()) {
      ReadSample();
      Skip({"conditional write", "multipart", "delete"},
           "nothing can be written");
      return Status();
    }
    ReadProbe();
    Status cancelled = CheckCancelled();
    if (cancelled.ok()) WriteOnCondition();
    if (cancelled.ok()) UploadParts();
    // Deletes the probe in any case.
    Delete();
    return cancelled;
  }

  // Reads an existing file if no probe can be written.
  void ReadSample() {
    if (sample_.key.empty()) {
      const Result<ObjectEntry> object =
          place_.key.empty() ? NotFoundError("") : bucket_.Head(place_.key);
      if (object.ok()) sample_ = *object;
      if (object.status().code() == StatusCode::kPermissionDenied) {
        Add("read", Outcome::kFailed, InWords(object.status(), "read"));
        return;
      }
    }
    if (sample_.key.empty()) {
      Add("read", Outcome::kSkipped, "there is nothing to read");
      return;
    }
    ReadObject(sample_.key, std::min(sample_.byte_count, options_.probe_bytes));
  }

  void ReadProbe() { ReadObject(probe_ + "data", options_.probe_bytes); }

  void ReadObject(const std::string& key, uint64_t byte_count) {
    if (byte_count == 0) {
      Add("read", Outcome::kFine, "may read");
      return;
    }
    std::string bytes(byte_count, '\0');
    std::vector<GetRequest> requests;
    const uint64_t part_bytes =
        std::min<uint64_t>(bucket_.traits().get_bytes_max, uint64_t{2} << 20);
    for (uint64_t at = 0; at < byte_count; at += part_bytes) {
      const uint64_t count = std::min(part_bytes, byte_count - at);
      requests.push_back({.key = key,
                          .range = {at, count},
                          .target = std::span(bytes).subspan(at, count)});
    }
    const Clock::time_point begin = Clock::now();
    for (const Result<GetResult>& got : bucket_.Get(requests)) {
      if (got.ok()) continue;
      Add("read", Outcome::kFailed, InWords(got.status(), "read"));
      return;
    }
    const double seconds = SecondsSince(begin);
    if (seconds > 0) {
      found_.read_bytes_per_second = static_cast<double>(byte_count) / seconds;
    }
    const bool is_probe = key == probe_ + "data";
    if (is_probe && bytes != ProbeBytes()) {
      Add("read", Outcome::kFailed, "the bytes read differ from those written");
      return;
    }
    Add("read", Outcome::kFine, "may read");
  }

  std::string ProbeBytes() const {
    std::string bytes(options_.probe_bytes, '\0');
    uint64_t state = 88172645463325252;
    for (char& byte : bytes) {
      state ^= state << 13;
      state ^= state >> 7;
      state ^= state << 17;
      byte = static_cast<char>(state);
    }
    return bytes;
  }

  bool Write() {
    const std::string bytes = ProbeBytes();
    const std::string_view piece = bytes;
    const Clock::time_point begin = Clock::now();
    const Result<std::string> put = bucket_.Put(probe_ + "data", {&piece, 1});
    if (!put.ok()) {
      Add("write", Outcome::kFailed, InWords(put.status(), "write"));
      return false;
    }
    found_.write_bytes_per_second =
        static_cast<double>(bytes.size()) / std::max(SecondsSince(begin), 1e-9);
    Add("write", Outcome::kFine, "may write");
    return true;
  }

  // Checks that the store supports conditional writes, on which the commit of a
  // save depends.
  void WriteOnCondition() {
    const std::string name = "conditional write";
    const std::string key = probe_ + "condition";
    const std::string_view first = "first";
    const std::string_view second = "second";
    const Result<std::string> version =
        bucket_.Put(key, {&first, 1}, Condition::Absent());
    if (!version.ok()) {
      Add(name, Outcome::kFailed, InWords(version.status(), "write"));
      return;
    }
    const Result<std::string> again =
        bucket_.Put(key, {&second, 1}, Condition::Absent());
    if (again.ok()) {
      Add(name, Outcome::kFailed,
          "the server ignores conditions: two saves to one place could both "
          "believe that they won, so holdfast refuses to save here");
      return;
    }
    if (again.status().code() != StatusCode::kFailedPrecondition) {
      Add(name, Outcome::kFailed, InWords(again.status(), "write"));
      return;
    }
    const Result<std::string> swapped =
        bucket_.Put(key, {&second, 1}, Condition::Version(*version));
    if (!swapped.ok()) {
      Add(name, Outcome::kFailed,
          "a write that should replace a version is refused: " +
              std::string(swapped.status().message()));
      return;
    }
    const bool ignores_versions =
        bucket_.Put(key, {&first, 1}, Condition::Version(*version)).ok();
    Add(name, ignores_versions ? Outcome::kFailed : Outcome::kFine,
        ignores_versions ? "the server ignores conditions on versions, so "
                           "holdfast refuses to save here"
                         : "the server honours conditions");
  }

  void UploadParts() {
    const std::string name = "multipart";
    const Status status = [&]() -> Status {
      HF_ASSIGN_OR_RETURN(const std::unique_ptr<Upload> upload,
                          bucket_.StartUpload(probe_ + "parts"));
      const std::string part(bucket_.part_bytes(0), 'p');
      const std::string_view first = part;
      const std::string_view last = "end";
      HF_RETURN_IF_ERROR(upload->Part(0, {&first, 1}, false));
      HF_RETURN_IF_ERROR(upload->Part(1, {&last, 1}, true));
      HF_RETURN_IF_ERROR(upload->Finish(Condition::None()).status());
      HF_ASSIGN_OR_RETURN(const ObjectEntry object,
                          bucket_.Head(probe_ + "parts"));
      const uint64_t want = part.size() + last.size();
      if (object.byte_count == want) return Status();
      return DataLossError("the object has " +
                           std::to_string(object.byte_count) + " bytes, want " +
                           std::to_string(want));
    }();
    if (!status.ok()) {
      Add(name, Outcome::kFailed, InWords(status, "upload in parts"));
      return;
    }
    Add(name, Outcome::kFine, "may upload in parts");
  }

  void Delete() {
    const std::vector<std::string> keys = {
        probe_ + "data", probe_ + "condition", probe_ + "parts"};
    const Status deleted = bucket_.DeleteAll(keys);
    if (!deleted.ok()) {
      Add("delete", Outcome::kFailed,
          InWords(deleted, "delete") + "; " + bucket_.UrlOf(probe_) +
              " is left behind");
      return;
    }
    const Status gone = bucket_.Head(keys[0]).status();
    if (gone.code() == StatusCode::kNotFound) {
      Add("delete", Outcome::kFine, "may delete");
      return;
    }
    Add("delete", Outcome::kWarning,
        "the deleted object is still there: " + bucket_.UrlOf(keys[0]));
  }

  void CompareClocks() {
    const int64_t server_ns = bucket_.ServerTimeNs();
    if (server_ns == 0) {
      Add("clock", Outcome::kSkipped, "the server does not say its time");
      return;
    }
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME, &now);
    const double ours = static_cast<double>(now.tv_sec) +
                        static_cast<double>(now.tv_nsec) * 1e-9;
    const double skew = static_cast<double>(server_ns) * 1e-9 - ours;
    found_.has_clock = true;
    found_.clock_skew_seconds = skew;
    const std::string apart =
        std::to_string(std::llround(std::abs(skew))) + " s apart";
    if (std::abs(skew) > kSkewSecondsMax) {
      Add("clock", Outcome::kWarning,
          apart +
              ": servers refuse signatures of another time; set this "
              "machine's clock");
    } else if (std::abs(skew) > kSkewSecondsNoted) {
      Add("clock", Outcome::kWarning, apart);
    } else {
      Add("clock", Outcome::kFine, "the clocks agree");
    }
  }

  const BucketPlace place_;
  Bucket& bucket_;
  const DiagnoseOptions& options_;
  const std::string probe_;  // the prefix of probes' keys
  ObjectEntry sample_;       // the largest of the first objects listed
  Diagnosis found_;
};

}  // namespace

std::string_view CheckOutcomeName(CheckOutcome outcome) {
  switch (outcome) {
    case CheckOutcome::kFine:
      return "fine";
    case CheckOutcome::kWarning:
      return "warning";
    case CheckOutcome::kFailed:
      return "failed";
    case CheckOutcome::kSkipped:
      return "skipped";
  }
  return "";
}

bool Diagnosis::has_failed() const {
  return std::any_of(checks.begin(), checks.end(), [](const auto& check) {
    return check.outcome == CheckOutcome::kFailed;
  });
}

Result<Diagnosis> Diagnose(const std::string& url,
                           const DiagnoseOptions& options) {
  return CatchBadAlloc([&]() -> Result<Diagnosis> {
    const Place place(url);
    if (!place.is_remote()) {
      return InvalidArgumentError("doctor: " + url +
                                  " is a path, want a URL such as "
                                  "s3://bucket/path");
    }
    if (options.probe_bytes > uint64_t{1} << 30 ||
        options.latency_probe_count < 0) {
      return InvalidArgumentError(
          "doctor: probe_bytes is above 1 GiB, or "
          "latency_probe_count below 0");
    }
    HF_ASSIGN_OR_RETURN(BucketPlace found, place.InBucket());
    return Examination(std::move(found), options).Execute(url);
  });
}

}  // namespace holdfast
