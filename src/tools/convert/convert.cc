#include "holdfast/tools/convert.h"

#include <memory>
#include <string_view>
#include <utility>

#include "ground/base/no_throw.h"
#include "ground/base/status_macros.h"
#include "ground/record/call_record.h"
#include "holdfast/process_group.h"
#include "holdfast/read_again.h"
#include "stores/place/place.h"
#include "tools/convert/format_convert.h"
#include "tools/convert/orbax_convert.h"
#include "tools/convert/recipe_source.h"
#include "tools/convert/target_format.h"
#include "tools/convert/work_directory.h"

namespace holdfast {
namespace {

// Returns the target's format. A target that replaces its own source keeps its
// name, whatever format the name implies.
Result<Format> FormatOf(const Checkpoint& source, const Place& target,
                        const ConvertOptions& options) {
  if (target.Absolute().path() == source.info().path) {
    return options.format.value_or(
        FormatFromName(source.info().format).value_or(Format::kOrbax));
  }
  return ChooseTargetFormat(target.path(), options.format,
                            source.info().format);
}

// Refuses rules about shards if they would be ignored, because the save plans
// the chunks or the format has no shards.
Status CheckShards(Format format, const LeafMap& map) {
  const bool takes_shards = format == Format::kMegatronZarr ||
                            format == Format::kDcp ||
                            format == Format::kTorchDist;
  if (map.shards.empty() || takes_shards) return Status();
  return InvalidArgumentError(
      "convert to " + std::string(FormatName(format)) + ": shards " +
      map.shards.front().glob +
      ": only megatron-zarr, dcp and torch-dist take shards" +
      (IsOrbaxFormat(format)
           ? "; Orbax's chunks follow from a sharding (--mesh) and the bytes "
             "of a chunk"
           : ""));
}

// Refuses layout options that the format cannot use.
Status CheckLayout(Format format, const ConvertOptions& options) {
  struct Rule {
    bool is_ignored;
    std::string_view option;
    std::string_view takers;
  };
  const ConvertOptions defaults;
  const bool is_orbax = IsOrbaxFormat(format);
  const bool has_chunks = is_orbax || format == Format::kMegatronZarr;
  const bool has_shards = is_orbax ? options.also != nullptr
                                   : format == Format::kSafetensors ||
                                         format == Format::kDcp ||
                                         format == Format::kTorchDist;
  const Rule rules[] = {
      {!is_orbax && options.zarr_format.has_value(),
       "zarr_format (--zarr-format)", "Orbax's formats take"},
      {!is_orbax && options.use_ocdbt.has_value(), "ocdbt (--ocdbt)",
       "Orbax's formats take"},
      {!is_orbax && options.compression != defaults.compression,
       "compression (--compression)", "Orbax's formats take"},
      {!has_chunks && options.chunk_bytes != defaults.chunk_bytes,
       "chunk_bytes (--chunk-bytes)", "Orbax's formats and megatron-zarr take"},
      {!has_shards && options.shard_bytes_max != 0,
       "data_file_bytes (--data-file-bytes)",
       "safetensors (as the format, or as `also` of Orbax's), dcp and "
       "torch-dist take"},
  };
  for (const Rule& rule : rules) {
    if (!rule.is_ignored) continue;
    return InvalidArgumentError(
        "convert to " + std::string(FormatName(format)) + ": " +
        std::string(rule.option) + ": only " + std::string(rule.takers) +
        " it; leave it out, or choose another format (--to)");
  }
  return Status();
}

bool IsShared(const ConvertOptions& options) {
  return options.group != nullptr && options.group->size() > 1;
}

// Opens the source on every rank. Rank 0 decides which step is opened, because
// a newer step may appear while the ranks open it.
class SourceOpener {
 public:
  SourceOpener(const std::string& source, const std::string& target,
               const ConvertOptions& options)
      : source_path_(source),
        target_path_(target),
        options_(options),
        open_(options.open),
        group_(IsShared(options) ? options.group : nullptr) {
    open_.stored_sizes = false;
  }

  Result<std::unique_ptr<Checkpoint>> OpenSource() {
    if (group_ == nullptr) return Seen(Open(source_path_, open_));
    return group_->rank() == 0 ? OpenFirst() : OpenAnnounced();
  }

 private:
  Result<std::unique_ptr<Checkpoint>> Seen(
      Result<std::unique_ptr<Checkpoint>> opened) const {
    if (!opened.ok()) return opened;
    return ThroughRecipe(std::move(opened).value(), options_.recipe,
                         options_.recipe_options);
  }

  Result<std::unique_ptr<Checkpoint>> OpenFirst() {
    auto opened = Seen(Open(source_path_, open_));
    const std::string path = opened.ok() ? (*opened)->info().path : "";
    const Status told =
        group_->Broadcast({"open", target_path_}, 0, path).status();
    if (!told.ok()) return told;
    return Agreed(std::move(opened));
  }

  Result<std::unique_ptr<Checkpoint>> OpenAnnounced() {
    HF_ASSIGN_OR_RETURN(const std::string path,
                        group_->Broadcast({"open", target_path_}, 0, ""));
    if (path.empty()) {
      // Fails with rank 0's error.
      HF_RETURN_IF_ERROR(group_->Agree({"open", target_path_}, Status()));
      return InternalError("convert: rank 0 has opened nothing");
    }
    open_.step.reset();
    return Agreed(Seen(Open(path, open_)));
  }

  Result<std::unique_ptr<Checkpoint>> Agreed(
      Result<std::unique_ptr<Checkpoint>> opened) {
    HF_RETURN_IF_ERROR(group_->Agree({"open", target_path_}, opened.status()));
    return opened;
  }

  const std::string& source_path_;
  const std::string& target_path_;
  const ConvertOptions& options_;
  OpenOptions open_;
  ProcessGroup* const group_;
};

// Returns a hash of the source's files and recipe. 0 means that no earlier
// conversion can be continued.
uint64_t SourceHash(const std::string& path, const ConvertOptions& options) {
  const uint64_t files = FilesHash(Place(path));
  if (files == 0) return 0;
  return files ^ RecipeHash(options.recipe, options.recipe_options);
}

// Refuses a source whose plan would not fit in memory. A plan has an entry for
// every few megabytes, and a size may be a false claim of a server or that of a
// sparse file.
Status CheckCanPlan(const Checkpoint& source) {
  constexpr uint64_t kPlannedBytesMax = uint64_t{1} << 48;
  uint64_t left = kPlannedBytesMax;
  for (const LeafInfo& leaf : source.leaves()) {
    if (leaf.decoded_bytes > left) {
      return ResourceExhaustedError(
          "convert " + source.info().path + ": leaf " + leaf.name + " (" +
          std::to_string(leaf.decoded_bytes) +
          " bytes) makes it larger than what can be planned (at most " +
          std::to_string(kPlannedBytesMax) + " bytes)");
    }
    left -= leaf.decoded_bytes;
  }
  return Status();
}

Result<ConvertResult> ConvertOpened(const Checkpoint& source,
                                    uint64_t source_hash, const Place& target,
                                    const ConvertOptions& options) {
  HF_RETURN_IF_ERROR(CheckCanPlan(source));
  HF_ASSIGN_OR_RETURN(const Format format, FormatOf(source, target, options));
  HF_RETURN_IF_ERROR(CheckShards(format, options.map));
  HF_RETURN_IF_ERROR(CheckLayout(format, options));
  if (IsOrbaxFormat(format)) {
    return ConvertToOrbax(source, source_hash, target, options);
  }
  if (options.also != nullptr) {
    return InvalidArgumentError("convert to " +
                                std::string(FormatName(format)) +
                                ": also: only Orbax's formats can be another, "
                                "too");
  }
  if (IsShared(options)) {
    return UnimplementedError("convert to " + std::string(FormatName(format)) +
                              ": only one process may do this");
  }
  if (options.sharding) {
    return InvalidArgumentError("convert to " +
                                std::string(FormatName(format)) +
                                ": only Orbax's formats take a sharding");
  }
  HF_ASSIGN_OR_RETURN(FormatAccess access, AccessOf(format));
  return ConvertToFormat(source, source_hash, target, options,
                         std::move(access));
}

}  // namespace

Result<ConvertResult> Convert(const std::string& source,
                              const std::string& target,
                              const ConvertOptions& options) {
  const auto convert = [&](const Place& place) -> Result<ConvertResult> {
    HF_ASSIGN_OR_RETURN(const auto opened,
                        SourceOpener(source, target, options).OpenSource());
    const uint64_t source_hash =
        IsShared(options) ? 0 : SourceHash(opened->info().path, options);
    return ConvertOpened(*opened, source_hash, place, options);
  };
  return InCall(CallKind::kConvert, target, [&] {
    return InGroupCall(options.group, [&] {
      return CatchBadAlloc([&] {
        const Place place(target);
        // Ranks would have to agree on a second attempt, and buckets have their
        // own retries.
        const bool is_once = IsShared(options) || place.is_remote();
        return is_once ? convert(place) : ReadAgainIfReplaced(source, [&] {
          return convert(place);
        });
      });
    });
  });
}

Result<ConvertResult> ConvertFrom(const Checkpoint& source,
                                  const std::string& target,
                                  const ConvertOptions& options) {
  return ConvertOpened(source, 0, Place(target), options);
}

}  // namespace holdfast
