// How each foreign format is written and read back.
#include "base/status_macros.h"
#include "convert/format_convert.h"
#include "interop/safetensors.h"
#include "interop/safetensors_target.h"

namespace holdfast {
namespace {

Result<std::unique_ptr<Checkpoint>> OpenNew(const std::string& path) {
  OpenOptions open;
  open.stored_sizes = false;
  return Open(path, open);
}

}  // namespace

Result<FormatAccess> AccessOf(Format format) {
  FormatAccess access{format, nullptr, OpenNew};
  switch (format) {
    case Format::kSafetensors:
      access.target = MakeSafetensorsTarget();
      access.open = [](const std::string& path) {
        return OpenSafetensors(path, true);
      };
      return access;
    default:
      return UnimplementedError("convert: " + std::string(FormatName(format)) +
                                " cannot be written");
  }
}

}  // namespace holdfast
