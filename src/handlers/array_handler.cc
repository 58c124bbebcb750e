#include <map>
#include <set>
#include <utility>

#include "base/no_throw.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "checkpoint/commit/layout.h"
#include "checkpoint/format/directory_names.h"
#include "handlers/done_future.h"
#include "handlers/param_writer.h"
#include "handlers/sharded_read.h"
#include "handlers/small_files.h"
#include "holdfast/orbax/type_handlers.h"
#include "place/open_store.h"

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
                                "\" is no jax.Array");
  }
  return Status();
}

// The files beside the arrays, of one directory.
struct SideFiles {
  ShardingFile shardings;
  std::vector<ArrayMetadataRecord> records;
};

void AddValue(const ArrayTraits& traits, const std::string& name,
              const WrittenParam& written, SideFiles& files) {
  if (!traits.sharding_json.empty()) {
    files.shardings[name] = traits.sharding_json;
  }
  nlohmann::ordered_json ext_metadata;
  if (!traits.prng_impl.empty()) {
    ext_metadata = {{"random_key_impl", traits.prng_impl}};
  }
  files.records.push_back({name, written.write_shape, written.chunk_shape,
                           std::move(ext_metadata)});
}

// `_sharding` of one directory, when it has been asked for.
class ShardingCache {
 public:
  // Nullopt when the directory has no such file. NotFound without an entry.
  Result<std::optional<Sharding>> Find(const ParamInfo& info) {
    const std::string directory = AbsolutePath(info.parent_dir);
    auto [file, is_new] = files_.try_emplace(info.parent_dir);
    if (is_new) {
      HF_ASSIGN_OR_RETURN(const CheckedFiles files,
                          CheckedFiles::OfItem(directory));
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
                           StoreAt(directory)->Describe(kShardingFile));
    }
    HF_ASSIGN_OR_RETURN(Sharding sharding, ShardingFromJson(entry->second));
    return std::optional<Sharding>(std::move(sharding));
  }

 private:
  std::map<std::string, std::optional<ShardingFile>> files_;
};

// The implementations of typed PRNG keys that `array_metadatas` records.
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
                        CheckedFiles::OfItem(AbsolutePath(directory)));
    HF_ASSIGN_OR_RETURN(const std::vector<ArrayMetadataRecord> records,
                        ReadArrayMetadataRecords(files));
    for (const ArrayMetadataRecord& record : records) {
      if (!record.ext_metadata.is_object()) continue;
      const auto impl = record.ext_metadata.find("random_key_impl");
      if (impl != record.ext_metadata.end() && impl->is_string()) {
        kinds[record.param_name] = impl->get<std::string>();
      }
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
  return InvalidArgumentError(
      "Sharding of jax.Array cannot be None. Provide `mesh` and `mesh_axes` OR "
      "`sharding`");
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

// Orbax: "OCDBT settings for parameter X don't match...".
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

// Each value is below the bound, and all that fit are written together.
class LimitedWriter {
 public:
  LimitedWriter(std::span<const Tree* const> values,
                std::span<const ParamInfo> infos,
                std::span<const SaveArgs> args,
                const ParamWriteOptions& options)
      : values_(values), infos_(infos), args_(args), options_(options) {}

  Result<std::vector<WrittenParam>> Write() {
    LimitInFlightBytes* const limiter = infos_[0].byte_limiter.get();
    if (limiter == nullptr) {
      return WriteParams(values_, infos_, args_, options_);
    }
    std::vector<WrittenParam> written;
    while (written.size() < values_.size()) {
      const size_t first = written.size();
      int64_t byte_count = BytesOf(first);
      size_t last = first + 1;
      for (; last < values_.size(); ++last) {
        if (BytesOf(last) >= limiter->bytes_max() - byte_count) break;
        byte_count += BytesOf(last);
      }
      HF_RETURN_IF_ERROR(limiter->WaitForBytes(byte_count));
      auto run = WriteParams(
          values_.subspan(first, last - first),
          infos_.subspan(first, last - first),
          args_.empty() ? args_ : args_.subspan(first, last - first), options_);
      limiter->ReleaseBytes(byte_count);
      if (!run.ok()) return run.status();
      for (WrittenParam& param : *run) written.push_back(std::move(param));
    }
    return written;
  }

 private:
  int64_t BytesOf(size_t i) const {
    return ElementCount(values_[i]->array_shape()) *
           DTypeBytes(values_[i]->array_dtype());
  }

  const std::span<const Tree* const> values_;
  const std::span<const ParamInfo> infos_;
  const std::span<const SaveArgs> args_;
  const ParamWriteOptions& options_;
};

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
    const std::shared_ptr<Store> store = StoreAt(AbsolutePath(directory));
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
    HF_ASSIGN_OR_RETURN(
        const std::vector<WrittenParam> written,
        LimitedWriter(values, infos, args, write_options).Write());
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
