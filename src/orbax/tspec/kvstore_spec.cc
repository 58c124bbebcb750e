#include "orbax/tspec/kvstore_spec.h"

#include <algorithm>
#include <utility>

#include "ground/base/status_macros.h"
#include "ground/base/text.h"
#include "orbax/tspec/kvstore_drivers.h"

namespace holdfast::spec {
namespace {

using zarr::AtMember;
using zarr::Find;
using zarr::InMember;
using zarr::Json;

struct Driver {
  std::string_view name;
  std::string_view scheme;  // of URLs
  Status (*parse)(const Json& object, KvStoreSpec& spec);
  // `rest` is the part after "scheme://".
  Status (*parse_url)(std::string_view rest, KvStoreSpec& spec);
  Result<OpenedKvStore> (*open)(const KvStoreSpec& spec,
                                const OpenSpecOptions& options);
};

constexpr Driver kDrivers[] = {
    {"file", "file", ParseFile, FileUrl, OpenFile},
    {"memory", "memory", ParseMemory, MemoryUrl, OpenMemory},
    {"ocdbt", "", ParseOcdbt, nullptr, OpenOcdbt},
    {"gcs", "gs", ParseGcs, GcsUrl, OpenRemote},
    {"s3", "s3", ParseS3, S3Url, OpenRemote},
    {"http", "http", ParseHttp, HttpUrl, OpenRemote},
    {"http", "https", ParseHttp, HttpsUrl, OpenRemote},
};
// Drivers that TensorStore supports, and holdfast does not.
constexpr std::string_view kLaterDrivers[] = {"gcs_grpc",
                                              "kvstack",
                                              "neuroglancer_uint64_sharded",
                                              "tsgrpc_kvstore",
                                              "zarr3_sharding_indexed",
                                              "zip"};

const Driver* FindDriver(std::string_view name) {
  const auto* const found =
      std::find_if(std::begin(kDrivers), std::end(kDrivers),
                   [&](const Driver& driver) { return driver.name == name; });
  return found == std::end(kDrivers) ? nullptr : found;
}

Status LaterDriver(std::string_view name) {
  return UnimplementedError("KvStore driver \"" + std::string(name) +
                            "\" is not part of this release yet");
}

// --- URLs: "scheme://..." and, after each '|', a driver on top of that.

Status UrlError(std::string_view url, const std::string& why) {
  return InvalidArgumentError("Parsing spec from url: \"" + std::string(url) +
                              "\": " + why);
}

Result<KvStoreSpec> ParseRootUrl(std::string_view url, std::string_view root) {
  const size_t colon = root.find(':');
  const std::string component =
      "Invalid kvstore URL component \"" + std::string(root) + "\": ";
  if (colon == std::string_view::npos) {
    return UrlError(
        url, "URL scheme must be specified in \"" + std::string(root) + "\"");
  }
  const std::string_view scheme = root.substr(0, colon);
  const auto* const driver =
      std::find_if(std::begin(kDrivers), std::end(kDrivers),
                   [&](const Driver& entry) { return entry.scheme == scheme; });
  if (driver == std::end(kDrivers) || scheme.empty()) {
    return UrlError(url, "unsupported URL scheme \"" + std::string(scheme) +
                             "\" in \"" + std::string(root) + "\"");
  }
  if (!root.substr(colon).starts_with("://")) {
    return UrlError(url, component + "Scheme \"" + std::string(scheme) +
                             "://\" not present in url");
  }
  KvStoreSpec spec;
  spec.driver = driver->name;
  const Status status = driver->parse_url(root.substr(colon + 3), spec);
  if (!status.ok()) {
    return UrlError(url, component + std::string(status.message()));
  }
  return spec;
}

Result<KvStoreSpec> ParseUrl(std::string_view url) {
  size_t end = std::min(url.find('|'), url.size());
  HF_ASSIGN_OR_RETURN(KvStoreSpec spec, ParseRootUrl(url, url.substr(0, end)));
  while (end < url.size()) {
    const size_t start = end + 1;
    end = std::min(url.find('|', start), url.size());
    const std::string_view adapter = url.substr(start, end - start);
    const std::string_view scheme = adapter.substr(0, adapter.find(':'));
    if (scheme != "ocdbt") {
      return UrlError(url, "unsupported URL scheme \"" + std::string(scheme) +
                               "\" in \"" + std::string(adapter) + "\"");
    }
    KvStoreSpec outer;
    outer.driver = scheme;
    outer.write = DefaultWriteOptions();
    const size_t path_at = std::min(scheme.size() + 1, adapter.size());
    outer.path = PercentDecoded(adapter.substr(path_at));
    outer.base =
        std::make_shared<const KvStoreSpec>(AsDirectory(std::move(spec)));
    spec = std::move(outer);
  }
  return spec;
}

}  // namespace

Result<KvStoreSpec> ParseKvStore(const Json& value) {
  if (value.is_string()) return ParseUrl(value.get<std::string>());
  HF_RETURN_IF_ERROR(zarr::ReadObject(&value).status());
  HF_ASSIGN_OR_RETURN(
      const std::string name,
      InMember("driver", zarr::ReadString(Find(value, "driver"))));
  const Driver* const driver = FindDriver(name);
  if (driver == nullptr) {
    if (std::ranges::find(kLaterDrivers, name) != std::end(kLaterDrivers)) {
      return LaterDriver(name);
    }
    return AtMember("driver",
                    InvalidArgumentError("\"" + name +
                                         "\" is not a registered KvStore "
                                         "driver"));
  }
  KvStoreSpec spec;
  spec.driver = name;
  HF_RETURN_IF_ERROR(driver->parse(value, spec));
  return spec;
}

KvStoreSpec AsDirectory(KvStoreSpec spec) {
  if (!spec.path.empty() && !spec.path.ends_with('/')) spec.path += '/';
  return spec;
}

Result<OpenedKvStore> OpenStore(const KvStoreSpec& spec,
                                const OpenSpecOptions& options) {
  return FindDriver(spec.driver)->open(spec, options);
}

OrderedJson KvStoreSpec::ToJson() const {
  OrderedJson json;
  if (anonymous) {
    json["aws_credentials"]["type"] = "anonymous";
  } else if (!profile.empty()) {
    json["aws_credentials"] = {{"profile", profile}, {"type", "profile"}};
  }
  if (!region.empty()) json["aws_region"] = region;
  if (base != nullptr) json["base"] = base->ToJson();
  if (!base_url.empty()) json["base_url"] = base_url;
  if (!bucket.empty()) json["bucket"] = bucket;
  json["driver"] = driver;
  if (!endpoint.empty()) json["endpoint"] = endpoint;
  if (!user_project.empty()) {
    json["gcs_user_project"]["project_id"] = user_project;
  }
  if (!atomic) json["file_io_locking"]["mode"] = "non_atomic";
  if (!sync) json["file_io_sync"] = false;
  if (!path.empty()) json["path"] = path;
  if (requester_pays) json["requester_pays"] = true;
  return json;
}

}  // namespace holdfast::spec
