#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "engine/commit/layout.h"
#include "engine/format/directory_names.h"
#include "ground/base/no_throw.h"
#include "ground/base/status_macros.h"
#include "ground/base/text.h"
#include "holdfast/orbax/type_handlers.h"
#include "orbax/handlers/done_future.h"
#include "orbax/handlers/limited_runs.h"
#include "orbax/handlers/param_writer.h"
#include "orbax/handlers/sharded_read.h"
#include "orbax/handlers/small_files.h"
#include "stores/place/place.h"

namespace holdfast {
namespace {

Status CheckHost(const ArrayHandler::Options& options) {
  if (options.primary_host.value_or(0) == 0 &&
      options.replica_id.value_or(0) == 0) {
    return Status();
  }
  return InvalidArgumentError(
      "ArrayHandler: holdfast writes replica 0 of every array as process 0 "
      "(got primary_host=" +
      std::to_string(options.primary_host.value_or(0)) +
      ", replica_id=" + std::to_string(options.replica_id.value_or(0)) + ")");
}

Status CheckJaxArrays(std::span<const Tree* const> values,
                      std::span<const ParamInfo> infos) {
  for (size_t i = 0; i < values.size(); ++i) {
    const std::string type = LeafType::OfLeaf(*values[i]).name;
    if (type == "jax.Array") continue;
    return InvalidArgumentError("param " + infos[i].name +
                                ": a leaf of type \"" + type +
                                "\" is not a jax.Array");
  }
  return Status();
}

// The files next to the arrays of one directory.
struct SideFiles {
  ShardingFile shardings;
  std::vector<ArrayMetadataRecord> records;
};

void AddValue(const ArrayTraits& traits, const std::string& name,
              const WrittenParam& written, SideFiles& files) {
  if (!traits.sharding_json.empty()) {
    files.shardings[name] = traits.sharding_json;
  }
  files.records.push_back({name, written.write_shape, written.chunk_shape,
                           ExtMetadataOf(traits.prng_impl)});
}

// Caches the `_sharding` file of each directory. A file is read when it is
// first needed.
class ShardingCache {
 public:
  // Returns the parameter's sharding; nullopt if the directory has no such
  // file. NotFound if the file has no entry for the parameter.
  Result<std::optional<Sharding>> Find(const ParamInfo& info) {
    const std::string directory = AbsolutePath(info.parent_dir);
    auto [file, is_new] = files_.try_emplace(info.parent_dir);
    if (is_new) {
      HF_ASSIGN_OR_RETURN(const CheckedFiles files,
                          CheckedFiles::OfItem(Place(directory)));
      Result<ShardingFile> read = ReadShardings(files);
      if (read.ok()) {
        file->second = std::move(read).value();
      } else if (read.status().code() != StatusCode::kNotFound) {
        return read.status();
      }
    }
    if (!file->second) return std::optional<Sharding>();
    const auto entry = file->second->find(info.name);
    if (entry == file->second->end()) {
      return NotFoundError("param " + info.name + ": JSON Pointer \"/" +
                           UrlSafeBase64(info.name) + "\" is not in " +
                           Place(directory).OpenStore()->Describe(
                               kShardingFile));
    }
    HF_ASSIGN_OR_RETURN(Sharding sharding, ShardingFromJson(entry->second));
    return std::optional<Sharding>(std::move(sharding));
  }

 private:
  std::map<std::string, std::optional<ShardingFile>> files_;
};

// Returns the implementations of typed PRNG keys that `array_metadatas`
// records.
class RecordedKeyKinds {
 public:
  Result<std::string> Find(const ParamInfo& info) {
    auto [kinds, is_new] = kinds_.try_emplace(info.parent_dir);
    if (is_new) HF_RETURN_IF_ERROR(Read(info.parent_dir, kinds->second));
    const auto found = kinds->second.find(info.name);
    return found == kinds->second.end() ? std::string() : found->second;
  }

 private:
  using Kinds = std::map<std::string, std::string>;

  static Status Read(const std::string& directory, Kinds& kinds) {
    HF_ASSIGN_OR_RETURN(const CheckedFiles files,
                        CheckedFiles::OfItem(Place(AbsolutePath(directory))));
    HF_ASSIGN_OR_RETURN(const std::vector<ArrayMetadataRecord> records,
                        ReadArrayMetadataRecords(files));
    for (const ArrayMetadataRecord& record : records) {
      std::string impl = PrngImplOf(record.ext_metadata);
      if (!impl.empty()) kinds[record.param_name] = std::move(impl);
    }
    return Status();
  }

  std::map<std::string, Kinds> kinds_;
};

Result<Sharding> ShardingOf(const ParamInfo& info, const ArrayRestoreArgs* args,
                            ShardingCache& recorded) {
  std::optional<Sharding> sharding;
  if (args != nullptr) sharding = WantedSharding(*args);
  if (sharding) return *std::move(sharding);
  HF_ASSIGN_OR_RETURN(sharding, recorded.Find(info));
  if (sharding) return *std::move(sharding);
  return NoShardingError();
}

Result<ShardedWish> WishOf(const ParamInfo& info, const AnyRestoreArgs& args,
                           ShardingCache& recorded) {
  HF_RETURN_IF_ERROR(CheckRestoreArgs(args));
  const ArrayRestoreArgs* array_args = AsArrayRestoreArgs(args);
  ShardedWish wish;
  HF_ASSIGN_OR_RETURN(wish.sharding, ShardingOf(info, array_args, recorded));
  wish.dtype = RestoreDType(args);
  if (array_args != nullptr) {
    wish.shape =
        array_args->shape ? array_args->shape : array_args->global_shape;
    wish.strict = array_args->strict;
  }
  return wish;
}

// Fails with Orbax's "OCDBT settings for parameter X don't match..." if formats
// differ.
Status CheckOneFormat(std::span<const ParamInfo> infos) {
  const auto python_bool = [](bool value) { return value ? "True" : "False"; };
  const bool use_ocdbt = infos[0].is_ocdbt_checkpoint;
  for (const ParamInfo& info : infos) {
    if (info.is_ocdbt_checkpoint == use_ocdbt) continue;
    return InvalidArgumentError(
        "OCDBT settings for parameter " + info.name +
        " don't match those for the rest of parameters: got "
        "(info.is_ocdbt_checkpoint=" +
        python_bool(info.is_ocdbt_checkpoint) +
        ", expected use_ocdbt=" + python_bool(use_ocdbt) + ".");
  }
  return Status();
}

// Writes as many values together as fit below the limit, but at least one.
Result<std::vector<WrittenParam>> WriteLimited(
    std::span<const Tree* const> values, std::span<const ParamInfo> infos,
    std::span<const SaveArgs> args, const ParamWriteOptions& options) {
  std::vector<WrittenParam> written;
  HF_RETURN_IF_ERROR(ForEachRunBelow(
      infos[0].byte_limiter.get(), values.size(),
      [&](size_t i) -> int64_t {
        return ElementCount(values[i]->array_shape()) *
               DTypeBytes(values[i]->array_dtype());
      },
      [&](size_t first, size_t last) -> Status {
        const size_t count = last - first;
        HF_ASSIGN_OR_RETURN(
            std::vector<WrittenParam> run,
            WriteParams(
                values.subspan(first, count), infos.subspan(first, count),
                args.empty() ? args : args.subspan(first, count), options));
        std::ranges::move(run, std::back_inserter(written));
        return Status();
      }));
  return written;
}

Status WriteSideFiles(std::span<const Tree* const> values,
                      std::span<const ParamInfo> infos,
                      const std::vector<WrittenParam>& written,
                      const ArrayHandler::Options& options) {
  std::map<std::string, SideFiles> by_directory;
  for (size_t i = 0; i < values.size(); ++i) {
    AddValue(values[i]->array_traits(), infos[i].name, written[i],
             by_directory[infos[i].parent_dir]);
  }
  for (auto& [directory, files] : by_directory) {
    const std::shared_ptr<Store> store =
        Place(directory).Absolute().OpenStore();
    if (options.enable_write_sharding_file) {
      HF_RETURN_IF_ERROR(AddShardings(*store, files.shardings));
    }
    if (options.enable_array_metadata) {
      HF_RETURN_IF_ERROR(
          AddArrayMetadataRecords(*store, std::move(files.records)));
    }
  }
  return Status();
}

}  // namespace

Result<std::vector<ValueMetadata>> ArrayHandler::Metadata(
    std::span<const ParamInfo> infos) {
  return CatchBadAlloc([&]() -> Result<std::vector<ValueMetadata>> {
    HF_ASSIGN_OR_RETURN(const ParamArrays params,
                        ParamArrays::Open(infos, options_.metadata_key));
    ShardingCache recorded;
    std::vector<ValueMetadata> metadatas;
    for (size_t i = 0; i < infos.size(); ++i) {
      ArrayMetadata metadata = params.Describe(i, infos[i]);
      HF_ASSIGN_OR_RETURN(metadata.sharding, recorded.Find(infos[i]));
      metadatas.push_back(std::move(metadata));
    }
    return metadatas;
  });
}

Result<std::vector<CommitFuture>> ArrayHandler::Serialize(
    std::span<const Tree* const> values, std::span<const ParamInfo> infos,
    std::span<const SaveArgs> args) {
  const size_t arg_count = args.empty() ? values.size() : args.size();
  HF_RETURN_IF_ERROR(
      CheckInputArguments({values.size(), infos.size(), arg_count}));
  HF_RETURN_IF_ERROR(CheckArrayValues(values, infos));
  HF_RETURN_IF_ERROR(CheckHost(options_));
  HF_RETURN_IF_ERROR(CheckJaxArrays(values, infos));
  return CatchBadAlloc([&]() -> Result<std::vector<CommitFuture>> {
    const ParamWriteOptions write_options{options_.metadata_key, std::nullopt};
    HF_ASSIGN_OR_RETURN(const std::vector<WrittenParam> written,
                        WriteLimited(values, infos, args, write_options));
    HF_RETURN_IF_ERROR(WriteSideFiles(values, infos, written, options_));
    return std::vector<CommitFuture>{DoneFuture()};
  });
}

Result<std::vector<Tree>> ArrayHandler::Deserialize(
    std::span<const ParamInfo> infos, std::span<const AnyRestoreArgs> args) {
  if (args.empty()) {
    return InvalidArgumentError(
        "Must provide ArrayRestoreArgs to restore as jax.Array.");
  }
  HF_RETURN_IF_ERROR(CheckInputArguments({infos.size(), args.size()}));
  return CatchBadAlloc([&]() -> Result<std::vector<Tree>> {
    ShardingCache recorded;
    RecordedKeyKinds key_kinds;
    std::vector<ShardedWish> wishes;
    for (size_t i = 0; i < infos.size(); ++i) {
      HF_ASSIGN_OR_RETURN(ShardedWish wish,
                          WishOf(infos[i], args[i], recorded));
      if (options_.enable_array_metadata) {
        HF_ASSIGN_OR_RETURN(wish.prng_impl, key_kinds.Find(infos[i]));
      }
      wishes.push_back(std::move(wish));
    }
    HF_RETURN_IF_ERROR(CheckOneFormat(infos));
    HF_ASSIGN_OR_RETURN(const ParamArrays params,
                        ParamArrays::Open(infos, options_.metadata_key));
    return ReadSharded(params, wishes, infos[0].byte_limiter);
  });
}

Status ArrayHandler::Finalize(const std::string& directory) {
  return MergeOcdbtPerProcessFiles(directory);
}

}  // namespace holdfast
