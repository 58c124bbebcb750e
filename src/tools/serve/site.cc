#include "tools/serve/site.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "ground/base/status_macros.h"
#include "holdfast/tools/metrics.h"
#include "holdfast/tools/report.h"
#include "holdfast/tools/virtual_files.h"
#include "stores/place/step_address.h"
#include "stores/storage/url_path.h"

namespace holdfast {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::string_view kHtml = "text/html; charset=utf-8";
constexpr std::string_view kNewest = "newest";
constexpr size_t kOpenCountMax = 16;
constexpr size_t kPageCountMax = 8;
constexpr size_t kSeenCountMax = 1024;
constexpr auto kFreshFor = std::chrono::seconds(1);
// Addresses without a step lead to the same step until nobody has read it for
// this long. After a checkpoint was replaced, requests for parts of it are
// refused for this long.
constexpr auto kQuietFor = std::chrono::seconds(60);
// A reader that pauses for this long is assumed to have left.
constexpr auto kGoneAfter = std::chrono::minutes(10);

int StatusOf(const Status& status) {
  switch (status.code()) {
    case StatusCode::kNotFound:
      return 404;
    case StatusCode::kPermissionDenied:
      return 403;
    case StatusCode::kOutOfRange:
      return 416;
    case StatusCode::kInvalidArgument:
    case StatusCode::kFailedPrecondition:
    case StatusCode::kUnimplemented:
      return 422;
    case StatusCode::kUnavailable:
    case StatusCode::kResourceExhausted:
      return 503;
    case StatusCode::kDeadlineExceeded:
      return 504;
    default:
      return 500;
  }
}

ServedResponse ErrorResponse(const Status& status) {
  return TextResponse(StatusOf(status), status.ToString() + "\n");
}

std::string_view TypeOf(std::string_view name) {
  if (name.ends_with(".json") || name.ends_with("/.zarray") ||
      name.ends_with("/.zattrs") || name.ends_with(".zgroup") ||
      name.ends_with(".zmetadata")) {
    return "application/json";
  }
  return "application/octet-stream";
}

// Splits "a/b/c" into "a" and "b/c".
std::pair<std::string, std::string> SplitFirst(const std::string& path) {
  const size_t slash = path.find('/');
  if (slash == std::string::npos) return {path, ""};
  return {path.substr(0, slash), path.substr(slash + 1)};
}

bool WantsJson(const ServedRequest& request) {
  const std::string_view accept = request.Field("accept");
  return accept.find("application/json") != std::string_view::npos &&
         accept.find("text/html") == std::string_view::npos;
}

std::string LinksHtml(
    const std::vector<std::pair<std::string, std::string>>& links) {
  std::string html;
  for (const auto& [href, text] : links) {
    html += "<li><a href=\"" + EscapeHtml(href) + "\">" + EscapeHtml(text) +
            "</a></li>\n";
  }
  return html;
}

std::string ListPage(
    const std::string& title,
    const std::vector<std::pair<std::string, std::string>>& links) {
  return "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
         "<meta name=\"viewport\" content=\"width=device-width\">"
         "<meta name=\"color-scheme\" content=\"light dark\">"
         "<link rel=\"icon\" href=\"data:,\"><title>" +
         EscapeHtml(title) +
         "</title><style>body{font:1rem/1.5 system-ui,sans-serif;"
         "margin:2rem auto;max-width:60rem;padding:0 1rem}"
         "li{list-style:none;font-family:ui-monospace,monospace}"
         "ul{padding:0}@media(prefers-color-scheme:dark){"
         "body{background:#16181d;color:#e8eaed}a{color:#8ab4f8}}</style></"
         "head>\n<body><main><h1>" +
         EscapeHtml(title) + "</h1>\n<ul>\n" + LinksHtml(links) +
         "</ul></main></body></html>\n";
}

// Percent-encodes each part of a path for use in a link.
std::string EncodePath(std::string_view path) {
  std::string encoded;
  for (;;) {
    const std::string_view part = path.substr(0, path.find('/'));
    encoded += EncodePart(part);
    if (part.size() == path.size()) return encoded;
    path.remove_prefix(part.size() + 1);
    encoded += '/';
  }
}

// Redirects to `location`, which must be encoded. Keeps the request's query,
// because it may contain a token.
ServedResponse Redirect(int status, const ServedRequest& request,
                        std::string location, const std::string& text) {
  char before = '?';
  for (const auto& [name, value] : request.target.query) {
    location += before + EncodePart(name) + "=" + EncodePart(value);
    before = '&';
  }
  ServedResponse response = TextResponse(status, text);
  response.fields.emplace_back("Location", std::move(location));
  return response;
}

// Returns true if a client may begin to read a checkpoint with this request, so
// that a newer step may be served from now on. All other requests continue what
// an earlier response began.
bool BeginsReading(const ServedRequest& request, const std::string& path) {
  if (!request.Field("range").empty()) return false;
  if (path.ends_with('/')) return true;
  for (const std::string_view first :
       {"as", "files", "as/safetensors", "as/npz", "as/zarr",
        "as/safetensors/model.safetensors",
        "as/safetensors/model.safetensors.index.json", "as/npz/arrays.npz",
        "as/zarr/.zgroup", "as/zarr/.zmetadata"}) {
    if (path == first) return true;
  }
  return false;
}

// The readers of a step: the number of responses in progress, and when a reader
// that may come back was last seen. May be used by any thread.
class Readers {
 public:
  void Touch() { last_ = Clock::now().time_since_epoch().count(); }
  bool IsQuietFor(Clock::duration duration) const {
    const Clock::time_point last{Clock::duration(last_.load())};
    return count_ == 0 && Clock::now() - last > duration;
  }

  // Counts as a reader while it exists, which is as long as one response is
  // read. If the client did not receive everything, it may come back for the
  // rest.
  class Reading {
   public:
    Reading(std::shared_ptr<Readers> readers, uint64_t end)
        : readers_(std::move(readers)), end_(end) {}
    ~Reading() {
      if (done_ == 0) return;
      if (done_ < end_) readers_->Touch();
      --readers_->count_;
    }
    Reading(const Reading&) = delete;
    Reading& operator=(const Reading&) = delete;
    void Reached(uint64_t offset) {
      if (done_ == 0) ++readers_->count_;
      done_ = offset;
    }

   private:
    const std::shared_ptr<Readers> readers_;
    const uint64_t end_;
    uint64_t done_ = 0;
  };

 private:
  std::atomic<Clock::rep> last_{Clock::now().time_since_epoch().count()};
  std::atomic<int> count_{0};
};

class OpenSite final : public Site {
 public:
  explicit OpenSite(const ServeOptions& options) : options_(options) {}

  Status AddMounts() {
    if (options_.paths.empty()) {
      return InvalidArgumentError("serve: no checkpoint is named");
    }
    std::set<std::string> taken;
    for (const std::string& path : options_.paths) {
      const std::string absolute = AbsolutePath(path);
      std::string name = FileNameOf(absolute);
      if (name.empty()) name = "root";
      for (int i = 2; !taken.insert(name).second; ++i) {
        name = FileNameOf(absolute) + "-" + std::to_string(i);
      }
      const int64_t now_ns =
          std::chrono::nanoseconds(
              std::chrono::system_clock::now().time_since_epoch())
              .count();
      const auto address = ParseStepAddress(absolute, now_ns);
      mounts_.push_back({name, absolute, address ? address->root : absolute});
    }
    return Status();
  }

  ServedResponse Answer(const ServedRequest& request) override {
    const std::string path = request.target.path.substr(1);
    if (path == "healthz") return TextResponse(200, "ok\n");
    if (path == "metrics") {
      return TextResponse(200, MetricsText(),
                          "application/openmetrics-text; version=1.0.0; "
                          "charset=utf-8");
    }
    const auto [first, rest] = SplitFirst(path);
    if (first == "at") return AnswerAt(request, rest);
    if (path.empty() && mounts_.size() > 1) return AnswerMounts(request);
    if (path.empty()) return AnswerPage(request, mounts_[0], "");
    if (first != "as" && first != "files") {
      return TextResponse(404,
                          "there is nothing at " + request.target.path + "\n");
    }
    if (mounts_.size() > 1) {
      return TextResponse(404,
                          "several checkpoints are served: ask for "
                          "/at/NAME/newest/" +
                              path + "\n");
    }
    return AnswerFile(request, mounts_[0], kNewest, path);
  }

 private:
  struct Mount {
    std::string name;
    std::string path;
    std::string root;  // the path without the step that it may name
  };
  struct Opened {
    std::shared_ptr<const VirtualFiles> files;
    Clock::time_point looked_at;
    uint64_t used = 0;
  };
  // The files served for a mount and step, and when they last changed.
  struct Seen {
    std::string tag;
    std::optional<Clock::time_point> changed_at;
    uint64_t used = 0;
  };
  // The step that serves a mount's addresses without a step.
  struct Bound {
    int64_t step = 0;
    std::shared_ptr<Readers> readers;
    // When the step changed because the previous step was removed while it was
    // read.
    std::optional<Clock::time_point> moved_at;
  };
  ServedResponse AnswerMounts(const ServedRequest& request) const {
    if (WantsJson(request)) {
      nlohmann::json list = nlohmann::json::array();
      for (const Mount& mount : mounts_) {
        list.push_back({{"name", mount.name}, {"type", "directory"}});
      }
      return TextResponse(200, Dumped(list), "application/json");
    }
    std::vector<std::pair<std::string, std::string>> links;
    for (const Mount& mount : mounts_) {
      links.emplace_back("/at/" + EncodePart(mount.name) + "/", mount.path);
    }
    return TextResponse(200, ListPage("holdfast", links), kHtml);
  }

  // Returns the JSON as text. Replaces invalid UTF-8, because names may contain
  // any bytes that a file system allows.
  static std::string Dumped(const nlohmann::json& json) {
    return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) +
           "\n";
  }

  ServedResponse AnswerAt(const ServedRequest& request,
                          const std::string& path) {
    if (path.empty()) return AnswerMounts(request);
    const auto [name, rest] = SplitFirst(path);
    const auto mount = std::find_if(
        mounts_.begin(), mounts_.end(),
        [&, &wanted = name](const Mount& one) { return one.name == wanted; });
    if (mount == mounts_.end()) {
      return TextResponse(404,
                          "nothing served here is named " + name + "\n");
    }
    const bool ends_in_slash = request.target.path.ends_with('/');
    if (rest.empty()) {
      if (!ends_in_slash) return ToDirectory(request);
      return AnswerPage(request, *mount, "");
    }
    const auto [step, below] = SplitFirst(rest);
    if (below.empty()) {
      if (!ends_in_slash) return ToDirectory(request);
      return AnswerPage(request, *mount, step);
    }
    return AnswerFile(request, *mount, step, below);
  }

  static ServedResponse ToDirectory(const ServedRequest& request) {
    // Leave one leading slash. Two would name another host.
    const std::string path = EncodePath(request.target.path);
    return Redirect(301, request,
                    "/" + path.substr(path.find_first_not_of('/')) + "/", "");
  }

  static Result<std::optional<int64_t>> StepOf(std::string_view step) {
    if (step.empty() || step == kNewest) return std::optional<int64_t>();
    int64_t number = 0;
    for (const char c : step) {
      if (c < '0' || c > '9' || step.size() > 18) {
        return NotFoundError("\"" + std::string(step) +
                             "\" is neither the number of a step nor " +
                             std::string(kNewest));
      }
      number = number * 10 + (c - '0');
    }
    return std::optional<int64_t>(number);
  }

  Result<std::shared_ptr<const VirtualFiles>> FilesOf(const Mount& mount,
                                                      std::string_view step) {
    HF_ASSIGN_OR_RETURN(const std::optional<int64_t> number, StepOf(step));
    VirtualFilesOptions options;
    options.open = options_.open;
    options.open.stored_sizes = false;
    if (number) options.open.step = number;
    options.run = options_.run;
    options.kept_bytes_max = options_.kept_bytes_max;
    const std::string key = KeyOf(mount, number);
    // Open one checkpoint at a time: the first caller opens it for all who
    // wait.
    const std::lock_guard lock(open_mutex_);
    const auto now = Clock::now();
    auto found = opened_.find(key);
    if (found != opened_.end() &&
        (found->second.files->IsChanged() ||
         (now - found->second.looked_at > kFreshFor &&
          !IsStillIt(mount, options, *found->second.files)))) {
      opened_.erase(found);
      found = opened_.end();
    }
    if (found == opened_.end()) {
      HF_ASSIGN_OR_RETURN(
          std::shared_ptr<const VirtualFiles> files,
          VirtualFiles::Open(number ? mount.root : mount.path, options));
      ForgetOldest(opened_, kOpenCountMax);
      found = opened_.emplace(key, Opened{std::move(files), now, 0}).first;
      Remember(key, *found->second.files);
    } else if (now - found->second.looked_at > kFreshFor) {
      found->second.looked_at = now;
    }
    found->second.used = ++use_count_;
    return found->second.files;
  }

  static std::string KeyOf(const Mount& mount,
                           const std::optional<int64_t>& number) {
    return mount.path + "\n" + (number ? std::to_string(*number) : "");
  }

  // Records which checkpoint is served for `key`, and when that changed.
  // REQUIRES: open_mutex_ is held.
  void Remember(const std::string& key, const VirtualFiles& files) {
    const std::string tag = files.checkpoint().info().path + files.Tag("");
    if (!seen_.contains(key)) ForgetOldest(seen_, kSeenCountMax);
    Seen& seen = seen_[key];
    if (!seen.tag.empty() && seen.tag != tag) seen.changed_at = Clock::now();
    seen.tag = tag;
    seen.used = ++use_count_;
  }

  // Returns true if another checkpoint has appeared so recently that a client
  // may still be reading the previous one in parts.
  bool HasJustChanged(const Mount& mount, std::string_view step) {
    const auto number = StepOf(step);
    if (!number.ok()) return false;
    const std::lock_guard lock(open_mutex_);
    const auto seen = seen_.find(KeyOf(mount, *number));
    return seen != seen_.end() && IsJustNow(seen->second.changed_at);
  }

  static bool IsJustNow(const std::optional<Clock::time_point>& time) {
    return time && Clock::now() - *time < kQuietFor;
  }
  static ServedResponse OfAnother() {
    return TextResponse(
        412,
        "another checkpoint is here than a moment ago, and a part of one does "
        "not go with parts of the other: begin again (a list, the metadata, a "
        "whole model), say which by If-Match or If-Range, or ask again in a "
        "minute\n");
  }

  // Returns the step that serves addresses without a step. It is the newest at
  // the first request, and stays the same until it is removed or nobody has
  // read it for a while. Returns nullopt if there are no step numbers, and the
  // error of looking for `name` in the step.
  Result<std::optional<Bound>> BoundStep(const Mount& mount,
                                         const std::string& name, bool begins) {
    HF_ASSIGN_OR_RETURN(const auto files, FilesOf(mount, kNewest));
    const CheckpointInfo& info = files->checkpoint().info();
    if (!info.step || info.path == mount.root) return std::optional<Bound>();
    const std::lock_guard lock(bound_mutex_);
    auto bound = bound_.find(mount.name);
    if (bound != bound_.end() && begins && bound->second.step != *info.step &&
        !FilesOf(mount, std::to_string(bound->second.step)).ok()) {
      bound->second = {*info.step, std::make_shared<Readers>(), Clock::now()};
    }
    const bool moves =
        bound != bound_.end() && bound->second.step != *info.step &&
        bound->second.readers->IsQuietFor(begins ? Clock::duration(kQuietFor)
                                                 : kGoneAfter);
    if (bound == bound_.end() || moves) {
      HF_RETURN_IF_ERROR(files->Stat(name).status());
      bound = bound_
                  .insert_or_assign(
                      mount.name, Bound{*info.step, std::make_shared<Readers>(),
                                        std::nullopt})
                  .first;
    }
    if (!begins) bound->second.readers->Touch();
    return std::optional(bound->second);
  }

  std::shared_ptr<Readers> ReadersOf(const Mount& mount,
                                     std::string_view step) {
    const auto number = StepOf(step);
    const std::lock_guard lock(bound_mutex_);
    const auto bound = bound_.find(mount.name);
    const bool is_it =
        bound != bound_.end() && number.ok() && *number == bound->second.step;
    return is_it ? bound->second.readers : std::make_shared<Readers>();
  }

  // Returns true if the checkpoint was not replaced and no newer step has
  // appeared.
  bool IsStillIt(const Mount& mount, const VirtualFilesOptions& options,
                 const VirtualFiles& files) const {
    if (!files.IsCurrent()) return false;
    const CheckpointInfo& info = files.checkpoint().info();
    if (options.open.step || info.path == mount.path) return true;
    const auto newest = Open(mount.path, options.open);
    return newest.ok() && (*newest)->info().path == info.path;
  }

  template <typename Map>
  static void ForgetOldest(Map& map, size_t count_max) {
    if (map.size() < count_max) return;
    map.erase(std::min_element(map.begin(), map.end(),
                               [](const auto& a, const auto& b) {
                                 return a.second.used < b.second.used;
                               }));
  }

  ServedResponse AnswerFile(const ServedRequest& request, const Mount& mount,
                            std::string_view step, const std::string& path) {
    const bool ends_in_slash = path.ends_with('/');
    const std::string name =
        ends_in_slash ? path.substr(0, path.size() - 1) : path;
    // The request continues what an earlier response began, without saying
    // which version that was.
    const bool goes_on = !BeginsReading(request, path) &&
                         request.Field("if-match").empty() &&
                         request.Field("if-range").empty();
    if (step == kNewest) {
      const auto bound = BoundStep(mount, name, BeginsReading(request, path));
      if (!bound.ok()) return ErrorResponse(bound.status());
      if (*bound && goes_on && IsJustNow((*bound)->moved_at)) {
        return OfAnother();
      }
      if (*bound) return ToStep(request, mount, (*bound)->step, path);
    }
    auto files = FilesOf(mount, step);
    if (!files.ok()) return ErrorResponse(files.status());
    const auto entry = (*files)->Stat(name);
    if (!entry.ok()) return ErrorResponse(entry.status());
    if (entry->is_directory) {
      if (!ends_in_slash) return ToDirectory(request);
      return AnswerDirectory(request, **files, name);
    }
    if (ends_in_slash) return TextResponse(404, name + " is not a directory\n");
    if (goes_on && HasJustChanged(mount, step)) return OfAnother();
    const std::shared_ptr<const VirtualFiles> kept = *files;
    const auto reading = std::make_shared<Readers::Reading>(
        ReadersOf(mount, step), entry->byte_count);
    return FileResponse(
        request, entry->byte_count, kept->Tag(name), TypeOf(name),
        [kept, name, reading](uint64_t offset, std::span<char> target) {
          reading->Reached(offset + target.size());
          return kept->ReadInto(name, offset, target);
        });
  }

  // Redirects to the step's own address, where bytes do not change.
  static ServedResponse ToStep(const ServedRequest& request, const Mount& mount,
                               int64_t step, const std::string& path) {
    const std::string location = "/at/" + EncodePart(mount.name) + "/" +
                                 std::to_string(step) + "/" + EncodePath(path);
    return Redirect(
        307, request, location,
        "it is step " + std::to_string(step) + ": " + location + "\n");
  }

  static ServedResponse AnswerDirectory(const ServedRequest& request,
                                        const VirtualFiles& files,
                                        const std::string& name) {
    const auto entries = files.List(name);
    if (!entries.ok()) return ErrorResponse(entries.status());
    if (WantsJson(request)) {
      nlohmann::json list = nlohmann::json::array();
      for (const VirtualEntry& entry : *entries) {
        nlohmann::json& one = list.emplace_back();
        one["name"] = entry.name;
        one["type"] = entry.is_directory ? "directory" : "file";
        if (!entry.is_directory) one["size"] = entry.byte_count;
      }
      return TextResponse(200, Dumped(list), "application/json");
    }
    std::vector<std::pair<std::string, std::string>> links;
    for (const VirtualEntry& entry : *entries) {
      const std::string slash = entry.is_directory ? "/" : "";
      links.emplace_back(EncodePart(entry.name) + slash, entry.name + slash);
    }
    return TextResponse(200, ListPage(name + "/", links), kHtml);
  }

  // Returns the page of a step. "" and `newest` mean the last step. With
  // ?statistics=1 the tensors are read.
  ServedResponse AnswerPage(const ServedRequest& request, const Mount& mount,
                            const std::string& step) {
    const auto files = FilesOf(mount, step);
    if (!files.ok()) return ErrorResponse(files.status());
    const auto asked = request.target.query.find("statistics");
    const bool statistics =
        asked != request.target.query.end() && asked->second == "1";
    // The page contains links to the step's addresses, so the tag covers these
    // too.
    const std::string tag = (*files)->Tag(
        mount.name + "/" + (step.empty() ? std::string(kNewest) : step) +
        (statistics ? "?statistics" : ""));
    const auto page = PageOf(mount, step, statistics, tag);
    if (!page.ok()) return ErrorResponse(page.status());
    const auto html = *page;
    ServedResponse response = FileResponse(
        request, html->size(), tag, kHtml,
        [html](uint64_t offset, std::span<char> target) {
          std::copy_n(html->data() + offset, target.size(), target.data());
          return Status();
        });
    response.fields.emplace_back("Cache-Control", "no-cache");
    return response;
  }

  Result<std::shared_ptr<const std::string>> PageOf(const Mount& mount,
                                                    const std::string& step,
                                                    bool statistics,
                                                    const std::string& tag) {
    {
      const std::lock_guard lock(page_mutex_);
      const auto found = pages_.find(tag);
      if (found != pages_.end()) {
        found->second.used = ++page_use_count_;
        return found->second.html;
      }
    }
    // Statistics read everything, so only one request at a time may compute
    // them. Others are refused, because waiting would block the server's
    // threads.
    std::unique_lock measuring(statistics_mutex_, std::defer_lock);
    if (statistics && !measuring.try_lock()) {
      return UnavailableError(
          "statistics are being computed for another client; ask again later");
    }
    ReportOptions options;
    options.run = options_.run;
    options.open = options_.open;
    HF_ASSIGN_OR_RETURN(const std::optional<int64_t> number, StepOf(step));
    if (number) options.open.step = number;
    options.statistics = statistics;
    HF_ASSIGN_OR_RETURN(ReportResult report,
                        MakeReport(number ? mount.root : mount.path, options));
    const auto html = std::make_shared<const std::string>(WithLinks(
        std::move(report.html), mount, step.empty() ? kNewest : step));
    const std::lock_guard lock(page_mutex_);
    ForgetOldest(pages_, kPageCountMax);
    pages_[tag] = {html, ++page_use_count_};
    return html;
  }

  // Adds links to the checkpoint's other formats at the foot of the page.
  static std::string WithLinks(std::string html, const Mount& mount,
                               std::string_view step) {
    const std::string base =
        "/at/" + EncodePart(mount.name) + "/" + EncodePart(step) + "/";
    std::vector<std::pair<std::string, std::string>> links = {
        {base + "?statistics=1", "this page with statistics of all tensors"}};
    for (const std::string_view format : VirtualFormats()) {
      const std::string name = "as/" + std::string(format) + "/";
      links.emplace_back(base + name, name);
    }
    links.emplace_back(base + "files/", "files/");
    const std::string nav = "<nav aria-label=\"Files\"><h2>Files</h2><ul>\n" +
                            LinksHtml(links) + "</ul></nav>\n";
    const size_t end = html.rfind("</body>");
    return html.insert(end == std::string::npos ? html.size() : end, nav);
  }

  struct KeptPage {
    std::shared_ptr<const std::string> html;
    uint64_t used = 0;
  };

  const ServeOptions options_;
  std::vector<Mount> mounts_;
  std::mutex open_mutex_;
  std::map<std::string, Opened> opened_;
  std::map<std::string, Seen> seen_;  // by the keys of opened_
  uint64_t use_count_ = 0;
  std::mutex bound_mutex_;
  std::map<std::string, Bound> bound_;  // by the names of mounts
  std::mutex statistics_mutex_;         // held while they are computed
  std::mutex page_mutex_;
  std::map<std::string, KeptPage> pages_;
  uint64_t page_use_count_ = 0;
};

// Compares secrets. Takes the same time for all strings of the right length.
bool IsEqualSecret(std::string_view given, std::string_view secret) {
  unsigned char difference = given.size() != secret.size();
  for (size_t i = 0; i < given.size() && i < secret.size(); ++i) {
    difference |= static_cast<unsigned char>(given[i] ^ secret[i]);
  }
  return difference == 0;
}

}  // namespace

Result<std::unique_ptr<Site>> Site::Make(const ServeOptions& options) {
  auto site = std::make_unique<OpenSite>(options);
  HF_RETURN_IF_ERROR(site->AddMounts());
  return std::unique_ptr<Site>(std::move(site));
}

std::optional<ServedResponse> Gate::Refuse(const ServedRequest& request) const {
  if (!hosts.empty()) {
    std::string_view host = request.Field("host");
    const size_t colon = host.rfind(':');
    if (colon != std::string_view::npos &&
        host.find(']', colon) == std::string_view::npos) {
      host = host.substr(0, colon);
    }
    if (std::find(hosts.begin(), hosts.end(), host) == hosts.end()) {
      return TextResponse(403, "this server is not named so\n");
    }
  }
  if (token.empty()) return std::nullopt;
  constexpr std::string_view kBearer = "Bearer ";
  std::string_view given = request.Field("authorization");
  if (given.starts_with(kBearer)) {
    given.remove_prefix(kBearer.size());
    if (IsEqualSecret(given, token)) return std::nullopt;
  }
  const auto asked = request.target.query.find("token");
  if (asked != request.target.query.end() &&
      IsEqualSecret(asked->second, token)) {
    return std::nullopt;
  }
  constexpr std::string_view kCookie = "holdfast_token=";
  const std::string_view cookies = request.Field("cookie");
  const size_t at = cookies.find(kCookie);
  if (at != std::string_view::npos) {
    std::string_view value = cookies.substr(at + kCookie.size());
    value = value.substr(0, value.find(';'));
    if (IsEqualSecret(value, token)) return std::nullopt;
  }
  ServedResponse response = TextResponse(
      401, "a token is wanted: Authorization: Bearer TOKEN, or ?token=TOKEN\n");
  response.fields.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

}  // namespace holdfast
