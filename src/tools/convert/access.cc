// The functions to write each foreign format and to read it back.
#include <memory>
#include <string>
#include <utility>

#include "foreign/dcp/dcp_target.h"
#include "foreign/megatron/megatron_zarr_target.h"
#include "foreign/npz/npz_target.h"
#include "foreign/open/open.h"
#include "foreign/safetensors/safetensors_target.h"
#include "tools/convert/format_convert.h"

namespace holdfast {
namespace {

FormatAccess Access(Format format, ForeignFormat foreign,
                    std::unique_ptr<FormatTarget> target) {
  return {format, std::move(target), [foreign](const std::string& path) {
            OpenOptions open;
            open.stored_sizes = false;
            return OpenForeign(foreign, Place(path), open);
          }};
}

}  // namespace

Result<FormatAccess> AccessOf(Format format) {
  switch (format) {
    case Format::kSafetensors:
      return Access(format, ForeignFormat::kSafetensors,
                    MakeSafetensorsTarget());
    case Format::kDcp:
      return Access(format, ForeignFormat::kDcp, MakeDcpTarget(false));
    case Format::kTorchDist:
      return Access(format, ForeignFormat::kTorchDist, MakeDcpTarget(true));
    case Format::kMegatronZarr:
      return Access(format, ForeignFormat::kMegatronZarr,
                    MakeMegatronZarrTarget());
    case Format::kNpz:
      return Access(format, ForeignFormat::kNpz, MakeNpzTarget());
    case Format::kOrbax:
    case Format::kOrbaxV1:
      break;
  }
  return UnimplementedError("convert: " + std::string(FormatName(format)) +
                            " is one of Orbax's formats");
}

}  // namespace holdfast
