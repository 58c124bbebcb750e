#include "tools/convert/target_format.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "ground/base/status_macros.h"

namespace holdfast {
namespace {

struct UnwrittenName {
  std::string_view suffix;
  std::string_view what;
};

constexpr std::array<UnwrittenName, 19> kUnwrittenNames = {{
    {".safetensors.index.json", "the index of several safetensors files"},
    {".bin.index.json", "the index of several torch.save files"},
    {".pt", "a torch.save file"},
    {".pth", "a torch.save file"},
    {".pt2", "an exported torch program"},
    {".bin", "a torch.save file"},
    {".pkl", "a pickle"},
    {".pickle", "a pickle"},
    {".npy", "one numpy array"},
    {".h5", "HDF5"},
    {".hdf5", "HDF5"},
    {".keras", "a Keras model"},
    {".msgpack", "msgpack"},
    {".gguf", "GGUF"},
    {".ggml", "GGML"},
    {".onnx", "ONNX"},
    {".tflite", "a TensorFlow Lite model"},
    {".tar", "an archive"},
    {".zip", "an archive"},
}};

// Returns the path in lower case, without trailing slashes.
std::string NameForSuffix(std::string target) {
  while (target.ends_with('/')) target.pop_back();
  std::transform(target.begin(), target.end(), target.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return target;
}

Status Contradiction(const std::string& target, Format meant, Format asked) {
  return InvalidArgumentError(
      target + ": its name says " + std::string(FormatName(meant)) +
      ", and the format is to be " + std::string(FormatName(asked)) +
      "; give the target another name, or leave the format (--to) out");
}

}  // namespace

Result<std::optional<Format>> FormatOfTargetName(const std::string& target) {
  const std::string name = NameForSuffix(target);
  if (name.ends_with(".safetensors"))
    return std::optional(Format::kSafetensors);
  if (name.ends_with(".npz")) return std::optional(Format::kNpz);
  for (const UnwrittenName& unwritten : kUnwrittenNames) {
    if (!name.ends_with(unwritten.suffix)) continue;
    return InvalidArgumentError(
        target + ": \"" + std::string(unwritten.suffix) + "\" names " +
        std::string(unwritten.what) +
        ", which holdfast does not write; want a name that ends in "
        ".safetensors or .npz, or a directory's");
  }
  return std::optional<Format>();
}

Result<Format> ChooseTargetFormat(const std::string& target,
                                  std::optional<Format> asked,
                                  const std::string& source_format) {
  HF_ASSIGN_OR_RETURN(const std::optional<Format> meant,
                      FormatOfTargetName(target));
  if (meant && asked && *meant != *asked) {
    return Contradiction(target, *meant, *asked);
  }
  if (meant || asked) return meant ? *meant : *asked;
  if (source_format == "torch" && NameForSuffix(target).ends_with(".ckpt")) {
    return InvalidArgumentError(
        target +
        ": \".ckpt\" names a torch.save file, which holdfast does not write; "
        "choose the directory's format (--to), or a name that ends in "
        ".safetensors or .npz");
  }
  // A source in a format that no save writes (bare zarr arrays) is converted to
  // Orbax's format.
  return FormatFromName(source_format).value_or(Format::kOrbax);
}

bool NamesOneFile(const std::string& target) {
  const Result<std::optional<Format>> meant = FormatOfTargetName(target);
  return meant.ok() && meant->has_value();
}

Status CheckDirectoryName(const std::string& target, Format format) {
  HF_ASSIGN_OR_RETURN(const std::optional<Format> meant,
                      FormatOfTargetName(target));
  if (!meant) return Status();
  if (*meant != format) return Contradiction(target, *meant, format);
  return InvalidArgumentError(target + ": its name is that of one " +
                              std::string(FormatName(*meant)) +
                              " file, and it would be a directory of them; "
                              "give it another name");
}

}  // namespace holdfast
