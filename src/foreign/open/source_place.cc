#include "foreign/open/source_place.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "engine/commit/layout.h"
#include "engine/steps/step_choice.h"
#include "engine/steps/step_scan.h"
#include "foreign/open/open.h"
#include "foreign/safetensors/safetensors.h"
#include "foreign/safetensors/weight_index.h"
#include "foreign/torch/torch_checkpoint.h"
#include "ground/base/clock.h"
#include "ground/base/status_macros.h"
#include "ground/base/text.h"
#include "stores/cloud/environment.h"
#include "stores/cloud/hub/hub_cache.h"
#include "stores/cloud/hub/hub_name.h"
#include "stores/cloud/hub/hub_settings.h"
#include "stores/place/directory_ops.h"
#include "stores/place/look.h"
#include "stores/place/step_address.h"

namespace holdfast {
namespace {

// Returns the files that a model's directory must have: the files of its index
// or, without an index, those that the names imply.
Result<std::set<std::string>> NeededFiles(const Place& directory,
                                          const std::vector<std::string>& names,
                                          ForeignFormat format) {
  const bool is_safetensors = format == ForeignFormat::kSafetensors;
  HF_ASSIGN_OR_RETURN(
      const std::string index,
      ChooseIndex(directory, names,
                  is_safetensors ? kSafetensorsIndexSuffix : kTorchIndexSuffix,
                  is_safetensors ? kSafetensorsIndexFile : kTorchIndexFile));
  if (!index.empty()) {
    HF_ASSIGN_OR_RETURN(const WeightIndex weights,
                        ReadWeightIndex(directory / index));
    return weights.Files();
  }
  const std::vector<std::string> missing = MissingParts(names);
  return std::set<std::string>(missing.begin(), missing.end());
}

// Returns why the files at a place in the cache cannot be read as the
// repository's; "" if they can.
Result<std::string> Shortcoming(const Place& place) {
  HF_ASSIGN_OR_RETURN(const bool is_there, LeadsToAnything(place));
  if (!is_there) return place.path() + " is missing";
  HF_ASSIGN_OR_RETURN(const ForeignFormat format, FindForeignFormat(place));
  const bool is_model = format == ForeignFormat::kSafetensors ||
                        format == ForeignFormat::kTorchFile;
  if (format == ForeignFormat::kNpz) return std::string();
  if (!is_model) {
    return place.path() +
           " has no weights of safetensors, torch or numpy, and the cache's "
           "links are followed for no others";
  }
  HF_ASSIGN_OR_RETURN(const bool is_directory, LeadsToDirectory(place));
  if (!is_directory && !place.name().ends_with(".index.json")) {
    return std::string();
  }
  const Place directory = is_directory ? place : place.parent();
  std::vector<std::string> names = {place.name()};
  if (is_directory) {
    HF_ASSIGN_OR_RETURN(names, ListDirectory(directory));
  }
  HF_ASSIGN_OR_RETURN(const std::set<std::string> needed,
                      NeededFiles(directory, names, format));
  for (const std::string& name : needed) {
    HF_ASSIGN_OR_RETURN(const bool has_file, LeadsToAnything(directory / name));
    if (!has_file) return (directory / name).path() + " is missing";
  }
  return std::string();
}

Result<Place> HubSource(const std::string& url) {
  const Environment environment = ProcessEnvironment();
  const std::string root = UrlRoot(url);
  HF_ASSIGN_OR_RETURN(const HubName name, ParseHubRoot(root));
  const std::string cache = HubCacheDirectory(environment);
  const std::string snapshot = FindHubSnapshot(cache, name);
  std::string why = "the cache " + cache + " has no snapshot of it";
  if (!snapshot.empty()) {
    const Place place(snapshot + url.substr(root.size()));
    const Result<std::string> found = Shortcoming(place);
    if (found.ok() && found->empty()) return place;
    why = found.ok() ? *found : std::string(found.status().message());
  }
  if (!IsHubOffline(environment)) return Place(url);
  return NotFoundError(
      "open " + url + ": " + why +
      ", and HF_HUB_OFFLINE is set; unset it, or download the repository (hf "
      "download " +
      name.id + ")");
}

Status NoRootOfSteps(const Place& root, const std::string& text) {
  return InvalidArgumentError("\"@" + text + "\" names a step, but " +
                              root.path() + " is not a directory of steps");
}

// Returns the latest step, chosen as Open chooses it.
Result<std::string> LatestStep(const Place& root, const StepAddress& address) {
  HF_ASSIGN_OR_RETURN(const ForeignPlace foreign, FindForeignPlace(root, {}));
  std::string path = foreign.place.path();
  if (foreign.format == ForeignFormat::kNone) {
    HF_ASSIGN_OR_RETURN(const FoundCheckpoint found, FindCheckpoint(root, {}));
    HF_RETURN_IF_ERROR(found.damage);
    path = found.directory.path();
  }
  if (path == root.path()) return NoRootOfSteps(root, address.text);
  return path;
}

Result<std::string> StepAt(const StepAddress& address) {
  const LookScope look(Place(address.root).Absolute());
  const Place& root = look.place();
  HF_ASSIGN_OR_RETURN(const bool is_there, LeadsToDirectory(root));
  if (!is_there) {
    return NotFoundError("no step \"@" + address.text + "\": " + root.path() +
                         " is not a directory");
  }
  if (address.kind == StepAddress::Kind::kLatest) {
    return LatestStep(root, address);
  }
  HF_ASSIGN_OR_RETURN(const ForeignFormat format, FindForeignFormat(root));
  HF_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                      ListDirectory(root));
  if (format != ForeignFormat::kNone ||
      !CheckIsNoCheckpoint(root, names).ok()) {
    return NoRootOfSteps(root, address.text);
  }
  ScanOptions options;
  options.read_metadata = address.kind != StepAddress::Kind::kStep;
  HF_ASSIGN_OR_RETURN(const std::vector<ScannedStep> steps,
                      ScanStepsIn(root, options));
  HF_ASSIGN_OR_RETURN(const std::string name, ChooseStep(steps, address));
  return (root / name).path();
}

// Returns the position of the last '@' in a path's last part, if a name comes
// before it; otherwise npos.
size_t LastAt(const std::string& path) {
  const size_t at = path.rfind('@');
  const size_t slash = path.rfind('/');
  const size_t begin = std::max(UrlRoot(path).size(),
                                slash == std::string::npos ? 0 : slash + 1);
  return at == std::string::npos || at <= begin ? std::string::npos : at;
}

// Returns InvalidArgument if the path before the '@' is a directory, because
// the rest was then meant as an address.
Status CheckIsNoAddress(const std::string& path, size_t at) {
  const Place root = Place(path.substr(0, at)).Absolute();
  const Result<bool> is_directory = LeadsToDirectory(root);
  if (!is_directory.ok() || !*is_directory) return Status();
  return InvalidArgumentError("open " + path + ": there is no such path, and " +
                              root.path() +
                              " has no step with this address; known are " +
                              std::string(kStepAddressForms));
}

}  // namespace

Result<std::string> ResolveStepAddress(const std::string& path) {
  // A path with a NUL is left for Open to refuse.
  if (path.find('@') == std::string::npos) return path;
  if (path.find('\0') != std::string::npos) return path;
  const auto address = ParseStepAddress(path, SystemNowNs());
  const size_t at = LastAt(path);
  // A path of a hub is not an address, so it is not searched for in the cache.
  const bool is_plain = at == std::string::npos || UrlScheme(path) == "hf";
  if (!address && is_plain) return path;
  HF_ASSIGN_OR_RETURN(const bool is_there,
                      LeadsToAnything(Place(path).Absolute()));
  if (is_there) return path;
  if (address) return StepAt(*address);
  HF_RETURN_IF_ERROR(CheckIsNoAddress(path, at));
  return path;
}

Result<Place> SourcePlace(const std::string& path) {
  HF_ASSIGN_OR_RETURN(const std::string found, ResolveStepAddress(path));
  if (UrlScheme(found) == "hf") return HubSource(AbsolutePath(found));
  return Place(found).Absolute();
}

}  // namespace holdfast
