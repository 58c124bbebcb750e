#include "foreign/open/may_replace.h"

#include <string_view>
#include <vector>

#include "engine/commit/replaceable.h"
#include "engine/format/directory_names.h"
#include "engine/references/referrers.h"
#include "foreign/open/open.h"
#include "foreign/safetensors/safetensors.h"
#include "foreign/sidecar/tree_sidecar.h"
#include "ground/base/status_macros.h"
#include "stores/place/well_known_names.h"
#include "stores/storage/path_parts.h"

namespace holdfast {
namespace {

bool IsOfMegatronAndDcp(std::string_view name) {
  return name == "metadata.json" || name == "common.pt" ||
         name == ".metadata" || name == kSidecarFile;
}

// Returns whether a format uses files of this name in this place.
bool IsFileOf(ForeignFormat format, std::string_view file) {
  const std::string_view name = LastPart(file);
  if (file == kCopyJournal) return true;
  const bool is_direct = PartCount(file) == 1;
  switch (format) {
    case ForeignFormat::kSafetensors:
      return is_direct &&
             (name.ends_with(kSafetensorsSuffix) ||
              name.ends_with(kSafetensorsIndexSuffix) || name == kDigestFile);
    case ForeignFormat::kDcp:
    case ForeignFormat::kTorchDist:
      return is_direct &&
             (IsOfMegatronAndDcp(name) || name.ends_with(".distcp"));
    case ForeignFormat::kMegatronZarr:
      return (is_direct && IsOfMegatronAndDcp(name)) || name == ".zarray" ||
             name.ends_with(".pt") || IsZarrChunkName(name);
    default:
      return false;
  }
}

}  // namespace

Status CheckMayReplaceAnyFormat(const Place& place,
                                const std::string& result_id) {
  HF_RETURN_IF_ERROR(CheckNothingNeeds(place, result_id));
  HF_ASSIGN_OR_RETURN(const ForeignFormat format, FindForeignFormat(place));
  if (format == ForeignFormat::kNone) return CheckMayReplacePlace(place);
  HF_ASSIGN_OR_RETURN(const std::vector<std::string> files,
                      EntriesBelow(place));
  for (const std::string& file : files) {
    if (!IsFileOf(format, file)) return HoldsMoreError(place.path(), file);
  }
  return Status();
}

}  // namespace holdfast
