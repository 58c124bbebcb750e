#include "stores/cloud/hub/hub_bucket.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>

#include "ground/base/status_macros.h"
#include "stores/cloud/answer_headers.h"
#include "stores/cloud/http_bucket.h"
#include "stores/cloud/hub/hub_listing.h"
#include "stores/cloud/hub/hub_name.h"
#include "stores/cloud/hub/hub_settings.h"
#include "stores/cloud/read_only_bucket.h"
#include "stores/http/http_client.h"
#include "stores/http/url.h"

namespace holdfast {
namespace {

constexpr int kPageCountMax = 10'000;
constexpr uint64_t kPageBytesMax = uint64_t{64} << 20;

// A commit's files and the bucket that reads them.
struct HubCommit {
  HubFiles files;
  std::shared_ptr<Bucket> bucket;
};

// Returns false if the same request may soon get a different answer.
bool IsLasting(const Status& status) {
  return status.code() != StatusCode::kUnavailable &&
         status.code() != StatusCode::kDeadlineExceeded &&
         status.code() != StatusCode::kCancelled &&
         status.code() != StatusCode::kResourceExhausted;
}

class HubBucket final : public ReadOnlyBucket {
 public:
  HubBucket(std::string root, HubName name, HubSettings settings,
            const RemoteOptions& options, bool is_offline)
      : ReadOnlyBucket("repositories of a hub"),
        root_(std::move(root)),
        name_(std::move(name)),
        settings_(std::move(settings)),
        options_(options),
        is_offline_(is_offline),
        client_(options.http) {
    traits_.can_write = false;
    traits_.upload_conditions = false;
  }

  const BucketTraits& traits() const override { return traits_; }
  std::string UrlOf(std::string_view key) const override {
    return key.empty() ? root_ : root_ + "/" + std::string(key);
  }
  int64_t ServerTimeNs() const override { return clock_.now_ns(); }
  Result<BucketAccess> Access() override {
    BucketAccess access;
    access.endpoint = settings_.endpoint;
    access.credentials = settings_.token_source;
    return access;
  }

  Result<ObjectEntry> Head(std::string_view key) override;
  std::vector<Result<GetResult>> Get(std::span<const GetRequest> requests,
                                     const CancelToken* cancel) override;
  Result<ListPage> List(const ListRequest& request) override;

 private:
  using MaybeCommit = Result<std::shared_ptr<const HubCommit>>;

  MaybeCommit Commit();
  Result<HubCommit> AskForCommit();
  Result<HttpResponse> Ask(const std::string& url);
  Status Refusal(const HttpResponse& answer) const;
  Status WithHint(const Status& status) const;
  std::string TokenInWords() const;
  Result<ObjectEntry> EntryOf(const HubCommit& commit,
                              std::string_view key) const;
  Result<GetRequest> ToAsk(const HubCommit& commit,
                           const GetRequest& request) const;
  Result<GetResult> Taken(const HubCommit& commit, const GetRequest& request,
                          Result<GetResult> got) const;

  const std::string root_;  // "hf://org/model@revision"
  const HubName name_;
  const HubSettings settings_;
  const RemoteOptions options_;
  const bool is_offline_;
  BucketTraits traits_;
  ServerClock clock_;
  HttpClient client_;  // for the API

  std::mutex mutex_;
  std::optional<MaybeCommit> commit_;
};

std::string HubBucket::TokenInWords() const {
  return settings_.token.empty()
             ? "no token was found"
             : "the token is that of " + settings_.token_source;
}

// Returns the error for a refused request. The hub states the reason in a
// header. Its status codes are ambiguous, so that they do not reveal which
// private repositories exist.
Status HubBucket::Refusal(const HttpResponse& answer) const {
  const std::string where = "open " + root_ + ": ";
  const std::string_view code =
      FindHeader(answer.headers, "x-error-code").value_or("");
  const int status = answer.status;
  if (code == "GatedRepo") {
    return PermissionDeniedError(
        where + "the repository is gated; accept its terms at " +
        settings_.endpoint + "/" + name_.page() +
        " and set HF_TOKEN to a token of that account (" + TokenInWords() +
        ")");
  }
  if (code == "RevisionNotFound") {
    return NotFoundError(where + "it has no revision \"" + name_.revision +
                         "\"; want a branch, a tag or a whole commit");
  }
  if (code == "RepoNotFound" || status == 404 ||
      (status == 401 && settings_.token.empty())) {
    return NotFoundError(
        where + "there is no such repository" +
        (code.empty() ? " or revision" : "") +
        ", or it is private; check its name, and set HF_TOKEN to a token that "
        "may read it (" +
        TokenInWords() + ")");
  }
  const std::string what = "the hub answers HTTP " + std::to_string(status);
  if (status == 401 || status == 403) {
    return PermissionDeniedError(
        where + what +
        "; the token may be wrong, expired or without the right to read this "
        "repository (" +
        TokenInWords() + ")");
  }
  if (status == 408 || status == 429 || status >= 500) {
    return UnavailableError(where + what);
  }
  return FailedPreconditionError(where + what);
}

Result<HttpResponse> HubBucket::Ask(const std::string& url) {
  HttpRequest request;
  request.url = url;
  request.headers = settings_.headers();
  request.body_bytes_max = kPageBytesMax;
  HF_ASSIGN_OR_RETURN(HttpResponse answer, client_.Send(request));
  clock_.Note(answer.headers);
  if (answer.status != 200) return Refusal(answer);
  return answer;
}

Result<HubCommit> HubBucket::AskForCommit() {
  if (is_offline_) {
    return FailedPreconditionError(
        "open " + root_ +
        ": HF_HUB_OFFLINE is set, and it is not read from the hub's cache; "
        "unset it to read from the hub");
  }
  const std::string api =
      settings_.endpoint + "/api/" + name_.kind + "/" + EscapePath(name_.id);
  const std::string context = "list " + root_;
  std::string commit = name_.revision;
  if (!IsHubCommit(commit)) {
    HF_ASSIGN_OR_RETURN(
        const HttpResponse answer,
        Ask(api + "/revision/" + EscapeComponent(name_.revision)));
    Result<std::string> told = CommitOfRevision(answer.body.view());
    if (!told.ok()) return told.status().WithContext(context);
    commit = *std::move(told);
  }
  HubCommit found;
  std::string page = api + "/tree/" + commit + "?recursive=true";
  for (int page_count = 0; !page.empty(); ++page_count) {
    if (page_count == kPageCountMax) {
      return DataLossError(context + ": the server gives too many pages");
    }
    HF_ASSIGN_OR_RETURN(const HttpResponse answer, Ask(page));
    const Status added = AddTreePage(answer.body.view(), found.files);
    if (!added.ok()) return added.WithContext(context);
    const std::string next =
        NextOfLink(FindHeader(answer.headers, "link").value_or(""));
    if (next.empty()) break;
    HF_ASSIGN_OR_RETURN(std::string target, ResolveUrl(page, next));
    HF_ASSIGN_OR_RETURN(const Url from, ParseUrl(page));
    HF_ASSIGN_OR_RETURN(const Url to, ParseUrl(target));
    // The next page must be on the same server, because the token is sent with
    // the request.
    if (OriginOf(from) != OriginOf(to)) {
      return DataLossError(context + ": its next page is on another server");
    }
    page = std::move(target);
  }
  HF_ASSIGN_OR_RETURN(
      found.bucket,
      OpenHttpBucket(settings_.endpoint + "/" + EscapePath(name_.page()) +
                         "/resolve/" + commit,
                     options_, settings_.headers()));
  return found;
}

HubBucket::MaybeCommit HubBucket::Commit() {
  const std::lock_guard lock(mutex_);
  if (commit_) return *commit_;
  Result<HubCommit> asked = AskForCommit();
  if (asked.ok()) {
    commit_ = std::make_shared<const HubCommit>(*std::move(asked));
    return *commit_;
  }
  // Many threads may ask concurrently, so a lasting refusal is remembered and
  // not requested again.
  if (IsLasting(asked.status())) commit_ = asked.status();
  return asked.status();
}

Result<ObjectEntry> HubBucket::EntryOf(const HubCommit& commit,
                                       std::string_view key) const {
  const auto file = commit.files.find(key);
  if (file == commit.files.end()) {
    return NotFoundError("read " + UrlOf(key) +
                         ": the repository has no such file");
  }
  return ObjectEntry{std::string(key), file->second.byte_count,
                     file->second.version, 0};
}

Result<ObjectEntry> HubBucket::Head(std::string_view key) {
  HF_ASSIGN_OR_RETURN(const auto commit, Commit());
  return EntryOf(*commit, key);
}

// Returns the request for the web server, whose versions differ from the hub's.
Result<GetRequest> HubBucket::ToAsk(const HubCommit& commit,
                                    const GetRequest& request) const {
  HF_ASSIGN_OR_RETURN(const ObjectEntry file, EntryOf(commit, request.key));
  if (!request.version.empty() && request.version != file.version) {
    return DataLossError("read " + UrlOf(request.key) +
                         ": the file changed while being read");
  }
  GetRequest asked = request;
  asked.version.clear();
  return asked;
}

Status HubBucket::WithHint(const Status& status) const {
  if (status.code() != StatusCode::kPermissionDenied) return status;
  return PermissionDeniedError(std::string(status.message()) +
                               "; the repository may be gated: accept its "
                               "terms at " +
                               settings_.endpoint + "/" + name_.page() +
                               " and set HF_TOKEN (" + TokenInWords() + ")");
}

Result<GetResult> HubBucket::Taken(const HubCommit& commit,
                                   const GetRequest& request,
                                   Result<GetResult> got) const {
  if (!got.ok()) return WithHint(got.status());
  HF_ASSIGN_OR_RETURN(const ObjectEntry file, EntryOf(commit, request.key));
  if (got->object.byte_count != file.byte_count) {
    return DataLossError("read " + UrlOf(request.key) + ": the server has " +
                         std::to_string(got->object.byte_count) +
                         " bytes, want the " + std::to_string(file.byte_count) +
                         " that the repository lists");
  }
  got->object = file;
  return got;
}

std::vector<Result<GetResult>> HubBucket::Get(
    std::span<const GetRequest> requests, const CancelToken* cancel) {
  std::vector<Result<GetResult>> results(
      requests.size(), Result<GetResult>(InternalError("not asked")));
  const MaybeCommit commit = Commit();
  std::vector<GetRequest> asked;
  std::vector<size_t> indexes;  // positions of `asked` in `requests`
  for (size_t i = 0; i < requests.size(); ++i) {
    Result<GetRequest> to_ask =
        commit.ok() ? ToAsk(**commit, requests[i]) : commit.status();
    if (!to_ask.ok()) {
      results[i] = to_ask.status();
      continue;
    }
    asked.push_back(*std::move(to_ask));
    indexes.push_back(i);
  }
  if (asked.empty()) return results;
  auto answers = (*commit)->bucket->Get(asked, cancel);
  for (size_t i = 0; i < answers.size(); ++i) {
    results[indexes[i]] =
        Taken(**commit, requests[indexes[i]], std::move(answers[i]));
  }
  return results;
}

Result<ListPage> HubBucket::List(const ListRequest& request) {
  HF_ASSIGN_OR_RETURN(const auto commit, Commit());
  const HubFiles& files = commit->files;
  // A page token is the key or prefix with which the previous page ended.
  const std::string& after =
      request.page_token.empty() ? request.start_after : request.page_token;
  const auto count_max =
      static_cast<size_t>(std::max(1, request.entry_count_max));
  ListPage page;
  auto file = files.lower_bound(request.prefix);
  if (after >= request.prefix) file = files.upper_bound(after);
  std::string last;
  while (file != files.end() && file->first.starts_with(request.prefix)) {
    if (page.objects.size() + page.prefixes.size() == count_max) {
      page.next_page_token = last;
      break;
    }
    const std::string& key = file->first;
    const size_t end = request.delimiter.empty()
                           ? std::string::npos
                           : key.find(request.delimiter, request.prefix.size());
    if (end == std::string::npos) {
      last = key;
      page.objects.push_back(
          {key, file->second.byte_count, file->second.version, 0});
      ++file;
      continue;
    }
    // This is after all keys of the directory, because no UTF-8 key contains
    // this byte.
    const std::string prefix = key.substr(0, end + request.delimiter.size());
    page.prefixes.push_back(prefix);
    last = prefix + "\xff";
    file = files.lower_bound(last);
  }
  return page;
}

}  // namespace

Result<std::shared_ptr<Bucket>> OpenHubBucket(const std::string& root,
                                              const RemoteOptions& options,
                                              const Environment& environment) {
  HF_ASSIGN_OR_RETURN(HubName name, ParseHubRoot(root));
  HF_ASSIGN_OR_RETURN(HubSettings settings,
                      ReadHubSettings(options, environment));
  return std::shared_ptr<Bucket>(
      std::make_shared<HubBucket>(root, std::move(name), std::move(settings),
                                  options, IsHubOffline(environment)));
}

}  // namespace holdfast
