#include "interop/source_place.h"

#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "base/text.h"
#include "cloud/environment.h"
#include "cloud/hub/hub_cache.h"
#include "cloud/hub/hub_name.h"
#include "cloud/hub/hub_settings.h"
#include "interop/open.h"
#include "interop/safetensors.h"
#include "interop/torch_checkpoint.h"
#include "interop/weight_index.h"
#include "place/directory_ops.h"

namespace holdfast {
namespace {

constexpr size_t kPartDigitCount = 5;

// The other files of "model-00001-of-00003.safetensors", and itself.
std::set<std::string> PartsOf(const std::string& name) {
  const size_t of = name.rfind("-of-");
  if (of == std::string::npos || of < kPartDigitCount) return {};
  const size_t number_at = of - kPartDigitCount;
  const auto count =
      ParseNumber<int>(std::string_view(name).substr(of + 4, kPartDigitCount));
  const auto number = ParseNumber<int>(
      std::string_view(name).substr(number_at, kPartDigitCount));
  if (!count || !number) return {};
  std::set<std::string> parts;
  for (int i = 1; i <= *count; ++i) {
    std::string digits = std::to_string(i);
    digits.insert(0, kPartDigitCount - digits.size(), '0');
    parts.insert(std::string(name).replace(number_at, kPartDigitCount, digits));
  }
  return parts;
}

// The files that a model's directory must hold: those of its index, and else
// those that the names say.
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
  std::set<std::string> needed;
  for (const std::string& name : names) needed.merge(PartsOf(name));
  return needed;
}

// What keeps the files at a place of the cache from being read as what the
// repository has there, in words; "" when nothing does.
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

}  // namespace

Result<Place> SourcePlace(const std::string& path) {
  if (UrlScheme(path) == "hf") return HubSource(AbsolutePath(path));
  return Place(path).Absolute();
}

}  // namespace holdfast
