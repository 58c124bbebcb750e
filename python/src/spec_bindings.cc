// Builders of specs, and handles of what specs open.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "arguments.h"
#include "bindings.h"
#include "blocking.h"
#include "errors.h"
#include "holdfast/orbax/open_spec.h"
#include "holdfast/orbax/spec.h"
#include "numpy_arrays.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace holdfast::python {
namespace {

using OptionalText = std::optional<std::string>;
using OptionalInt = std::optional<int64_t>;

DType DTypeNamed(const std::string& name) {
  const std::optional<DType> dtype = DTypeFromName(name);
  if (!dtype) ThrowValueError("Unsupported data type: \"" + name + "\"");
  return *dtype;
}

std::optional<DType> OptionalDType(const OptionalText& name) {
  if (!name) return std::nullopt;
  return DTypeNamed(*name);
}

OcdbtWriteMode WriteModeOf(const std::string& name) {
  if (name == "write") return OcdbtWriteMode::kWrite;
  if (name == "merge") return OcdbtWriteMode::kMerge;
  if (name == "commit_temporary") return OcdbtWriteMode::kCommitTemporary;
  ThrowValueError("'" + name + "' is not a valid OcdbtWriteMode");
}

std::optional<OcdbtTemporaryMetadataContext> TemporaryOf(
    const OptionalText& path) {
  if (!path) return std::nullopt;
  return OcdbtTemporaryMetadataContext{*path};
}

std::string BindingKvstoreTspec(
    const std::string& directory, const OptionalText& name, bool use_ocdbt,
    const OptionalText& process_id, bool replica_separate_folder,
    const OptionalText& process_spec, const OptionalText& write_mode,
    OptionalInt target_data_file_size, bool store_separately,
    const OptionalText& temporary_path) {
  KvstoreTspecOptions options;
  options.name = name;
  options.use_ocdbt = use_ocdbt;
  options.process_id = process_id;
  options.replica_separate_folder = replica_separate_folder;
  if (process_spec) {
    options.ocdbt_process_spec = Check(OcdbtProcessSpec::Parse(*process_spec));
  }
  if (write_mode) {
    options.ocdbt_write_options = OcdbtKvStoreWriteOptions{
        WriteModeOf(*write_mode), target_data_file_size, store_separately};
  }
  options.ocdbt_temporary_metadata_context = TemporaryOf(temporary_path);
  return Check(BuildKvstoreTspec(directory, options));
}

std::string BindingZarrMetadata(nb::handle global_shape, nb::handle shard_shape,
                                bool use_compression, bool use_zarr3,
                                nb::handle chunk_shape) {
  return BuildZarrShardAndChunkMetadata(
      {.global_shape = ShapeOf(global_shape, "global_shape"),
       .shard_shape = ShapeOf(shard_shape, "shard_shape"),
       .use_compression = use_compression,
       .use_zarr3 = use_zarr3,
       .chunk_shape = ShapeOf(chunk_shape, "chunk_shape")});
}

std::string BindingOlderZarrMetadata(nb::handle global_shape,
                                     nb::handle shard_shape, bool use_zarr3,
                                     const std::string& dtype,
                                     nb::handle write_chunk_shape,
                                     nb::handle read_chunk_shape,
                                     OptionalInt chunk_byte_size) {
  return Check(BuildTsZarrShardAndChunkMetadata(
      {.global_shape = ShapeOf(global_shape, "global_shape"),
       .shard_shape = ShapeOf(shard_shape, "shard_shape"),
       .use_zarr3 = use_zarr3,
       .dtype = DTypeNamed(dtype),
       .write_chunk_shape =
           OptionalShapeOf(write_chunk_shape, "write_chunk_shape"),
       .read_chunk_shape =
           OptionalShapeOf(read_chunk_shape, "read_chunk_shape"),
       .chunk_byte_size = chunk_byte_size}));
}

OptionalInt BindingChunkByteSize(nb::handle write_shape,
                                 const std::string& dtype,
                                 OptionalInt chunk_byte_size,
                                 OptionalInt ocdbt_target_data_file_size,
                                 const OptionalText& kvstore_spec) {
  return Check(CalculateChunkByteSize(
      ShapeOf(write_shape, "write_shape"), DTypeNamed(dtype),
      {chunk_byte_size, ocdbt_target_data_file_size, kvstore_spec}));
}

std::string BindingArrayReadSpec(const std::string& directory,
                                 const std::string& name, bool use_zarr3,
                                 bool use_ocdbt,
                                 const OptionalText& metadata_key,
                                 bool raise_array_data_missing_error,
                                 const OptionalText& target_dtype) {
  return Check(
             ArrayReadSpec::Make(directory, name,
                                 {.use_zarr3 = use_zarr3,
                                  .use_ocdbt = use_ocdbt,
                                  .metadata_key = metadata_key,
                                  .raise_array_data_missing_error =
                                      raise_array_data_missing_error,
                                  .target_dtype = OptionalDType(target_dtype)}))
      .json();
}

// Returns (JSON text, chunk shape, compression algorithm, compression level).
nb::tuple BindingArrayWriteSpec(
    const std::string& directory, const std::string& name,
    nb::handle global_shape, nb::handle write_shape, const std::string& dtype,
    const OptionalText& target_dtype, OptionalInt chunk_byte_size,
    nb::handle shard_axes, bool use_compression, bool use_zarr3, bool use_ocdbt,
    OptionalInt ocdbt_target_data_file_size, const OptionalText& process_id,
    const OptionalText& metadata_key, bool replica_separate_folder,
    bool store_separately, const OptionalText& temporary_path) {
  ArrayWriteSpecOptions options;
  options.global_shape = ShapeOf(global_shape, "global_shape");
  options.write_shape = ShapeOf(write_shape, "write_shape");
  options.dtype = DTypeNamed(dtype);
  options.target_dtype = OptionalDType(target_dtype);
  options.chunk_byte_size = chunk_byte_size;
  options.shard_axes = std::vector<int64_t>(ShapeOf(shard_axes, "shard_axes"));
  options.use_compression = use_compression;
  options.use_zarr3 = use_zarr3;
  options.use_ocdbt = use_ocdbt;
  options.ocdbt_target_data_file_size = ocdbt_target_data_file_size;
  options.process_id = process_id;
  options.metadata_key = metadata_key;
  options.replica_separate_folder = replica_separate_folder;
  options.store_ocdbt_metadata_and_values_separately = store_separately;
  options.ocdbt_temporary_metadata_context = TemporaryOf(temporary_path);
  const ArrayWriteSpec spec =
      Check(ArrayWriteSpec::Make(directory, name, options));
  const ArrayWriteMetadata& metadata = spec.metadata();
  return nb::make_tuple(spec.json(), ToTuple(metadata.chunk_shape),
                        metadata.compression_algorithm,
                        metadata.compression_level);
}

SaveArgs SaveArgsWith(const OptionalText& dtype) {
  SaveArgs args;
  args.dtype = OptionalDType(dtype);
  return args;
}

// `args` is (dtype, chunk_byte_size, shard_axes, write_chunk_shape,
// read_chunk_shape), or None.
std::string BindingJsonTspecWrite(
    const std::string& name, const std::string& parent_dir,
    bool use_compression, bool use_zarr3,
    OptionalInt ocdbt_target_data_file_size, bool use_ocdbt,
    nb::handle global_shape, nb::handle local_shape, const std::string& dtype,
    const OptionalText& process_index, const OptionalText& metadata_key,
    nb::handle args) {
  ParamInfo info;
  info.name = name;
  info.parent_dir = parent_dir;
  info.use_compression = use_compression;
  info.use_zarr3 = use_zarr3;
  info.ocdbt_target_data_file_size = ocdbt_target_data_file_size;
  JsonTspecWriteOptions options;
  options.global_shape = ShapeOf(global_shape, "global_shape");
  options.local_shape = ShapeOf(local_shape, "local_shape");
  options.dtype = DTypeNamed(dtype);
  options.process_index = process_index;
  options.metadata_key = metadata_key;
  std::optional<SaveArgs> save_args;
  if (!args.is_none()) {
    nb::dict one;
    one[name.c_str()] = args;
    save_args = SaveArgsOf(one).at(name);
  }
  return Check(GetJsonTspecWrite(info, use_ocdbt, options, save_args));
}

std::string BindingCastDeserialize(const std::string& tspec,
                                   const std::string& dtype) {
  RestoreArgs args;
  args.dtype = DTypeNamed(dtype);
  return Check(GetCastTspecDeserialize(tspec, args));
}

std::string BindingDebugData(const OptionalText& key,
                             const std::vector<std::string>& names) {
  std::vector<ParamInfo> infos(names.size());
  for (size_t i = 0; i < names.size(); ++i) infos[i].name = names[i];
  return PrintTsDebugData(key, infos);
}

// Handles in Python share this: limits, and the contents of driver "memory".
struct PythonContext {
  TsContext context;
  std::shared_ptr<SpecMemory> memory;
};

OpenSpecOptions SpecOpenOptions(const PythonContext& context) {
  OpenSpecOptions options;
  options.context = context.context;
  options.memory = context.memory;
  return options;
}

std::unique_ptr<SpecHandle> BindingOpenSpec(
    const std::string& json, const PythonContext& context,
    std::optional<bool> open, std::optional<bool> create,
    std::optional<bool> delete_existing, std::optional<bool> assume_metadata) {
  OpenSpecOptions options = SpecOpenOptions(context);
  options.open = open;
  options.create = create;
  options.delete_existing = delete_existing;
  options.assume_metadata = assume_metadata;
  return RunForResult<std::unique_ptr<SpecHandle>>(
      {}, nb::none(),
      [&](const RunOptions&) { return OpenSpec(json, options); });
}

std::unique_ptr<KvStoreHandle> BindingOpenKvStore(
    const std::string& json, const PythonContext& context) {
  const OpenSpecOptions options = SpecOpenOptions(context);
  return RunForResult<std::unique_ptr<KvStoreHandle>>(
      {}, nb::none(),
      [&](const RunOptions&) { return OpenKvStore(json, options); });
}

nb::object BindingRead(const SpecHandle& self, nb::handle origin,
                       nb::handle shape) {
  const Shape from = ShapeOf(origin, "origin");
  const Shape extent = ShapeOf(shape, "shape");
  return ToNumpy(RunForResult<Array>({}, nb::none(), [&](const RunOptions&) {
    return self.Read(from, extent);
  }));
}

void BindingWrite(SpecHandle& self, nb::handle origin, nb::handle array) {
  const Shape from = ShapeOf(origin, "origin");
  const std::optional<DType> dtype = DTypeOf(array);
  if (!dtype) {
    ThrowValueError("Unsupported data type: \"" + DTypeNameOf(array) + "\"");
  }
  const nb::object native = AsNative(array);
  const ConstArrayView view = ViewOf(native, *dtype);
  RunBlocking({}, nb::none(),
              [&](const RunOptions&) { return self.Write(from, view); });
}

std::string BindingReadJson(const SpecHandle& self) {
  return RunForResult<std::string>(
      {}, nb::none(), [&](const RunOptions&) { return self.ReadJson(); });
}

void BindingWriteJson(SpecHandle& self, const std::string& text) {
  RunBlocking({}, nb::none(),
              [&](const RunOptions&) { return self.WriteJson(text); });
}

template <typename Handle>
void BindingCommit(Handle& self) {
  RunBlocking({}, nb::none(), [&](const RunOptions&) { return self.Commit(); });
}

nb::bytes ToBytes(const std::string& text) {
  return nb::bytes(text.data(), text.size());
}

std::string KvStoreKey(nb::handle key) {
  if (PyUnicode_Check(key.ptr())) return nb::cast<std::string>(key);
  const auto bytes = nb::cast<nb::bytes>(key);
  return std::string(bytes.c_str(), bytes.size());
}

nb::list BindingList(const KvStoreHandle& self, nb::handle prefix) {
  const std::string start = KvStoreKey(prefix);
  const auto keys = RunForResult<std::vector<std::string>>(
      {}, nb::none(), [&](const RunOptions&) { return self.List(start); });
  nb::list list;
  for (const std::string& key : keys) list.append(ToBytes(key));
  return list;
}

nb::object BindingReadKey(const KvStoreHandle& self, nb::handle key) {
  const std::string name = KvStoreKey(key);
  std::optional<std::string> value;
  RunBlocking({}, nb::none(), [&](const RunOptions&) -> Status {
    Result<std::string> read = self.Read(name);
    if (read.status().code() == StatusCode::kNotFound) return Status();
    if (read.ok()) value = *std::move(read);
    return read.status();
  });
  if (!value) return nb::none();
  return ToBytes(*value);
}

void BindingWriteKey(KvStoreHandle& self, nb::handle key, nb::handle value) {
  const std::string name = KvStoreKey(key);
  const std::string bytes = value.is_none() ? std::string() : KvStoreKey(value);
  const bool deletes = value.is_none();
  RunBlocking({}, nb::none(), [&](const RunOptions&) {
    return deletes ? self.Delete(name) : self.Write(name, bytes);
  });
}

void BindBuilders(nb::module_& module) {
  module.def("build_kvstore_tspec", BindingKvstoreTspec, "directory"_a,
             "name"_a.none(), "use_ocdbt"_a, "process_id"_a.none(),
             "replica_separate_folder"_a, "process_spec"_a.none(),
             "write_mode"_a.none(), "target_data_file_size"_a.none(),
             "store_separately"_a, "temporary_path"_a.none());
  module.def("build_kvstore_tspec_for_merge",
             [](const std::string& directory, const std::string& subdir) {
               return Check(BuildKvstoreTspecForMerge(directory, subdir));
             });
  module.def("check_ocdbt_process_id", [](const std::string& process_id) {
    Check(OcdbtProcessSpec::Make(process_id).status());
  });
  module.def(
      "add_ocdbt_write_options",
      [](const std::string& tspec, OptionalInt target_data_file_size) {
        return Check(AddOcdbtWriteOptions(tspec, target_data_file_size));
      },
      "tspec"_a, "target_data_file_size"_a.none());
  module.def("is_remote_storage", [](const std::string& tspec) {
    return Check(IsRemoteStorage(tspec));
  });
  module.def("build_zarr_shard_and_chunk_metadata", BindingZarrMetadata);
  module.def("build_ts_zarr_shard_and_chunk_metadata", BindingOlderZarrMetadata,
             "global_shape"_a, "shard_shape"_a, "use_zarr3"_a, "dtype"_a,
             "write_chunk_shape"_a.none(), "read_chunk_shape"_a.none(),
             "chunk_byte_size"_a.none());
  module.def("calculate_chunk_byte_size", BindingChunkByteSize, "write_shape"_a,
             "dtype"_a, "chunk_byte_size"_a.none(),
             "ocdbt_target_data_file_size"_a.none(), "kvstore_spec"_a.none());
  module.def("array_read_spec", BindingArrayReadSpec, "directory"_a, "name"_a,
             "use_zarr3"_a, "use_ocdbt"_a, "metadata_key"_a.none(),
             "raise_array_data_missing_error"_a, "target_dtype"_a.none());
  module.def("array_write_spec", BindingArrayWriteSpec, "directory"_a, "name"_a,
             "global_shape"_a, "write_shape"_a, "dtype"_a,
             "target_dtype"_a.none(), "chunk_byte_size"_a.none(),
             "shard_axes"_a, "use_compression"_a, "use_zarr3"_a, "use_ocdbt"_a,
             "ocdbt_target_data_file_size"_a.none(), "process_id"_a.none(),
             "metadata_key"_a.none(), "replica_separate_folder"_a,
             "store_separately"_a, "temporary_path"_a.none());
  module.def("get_json_tspec_write", BindingJsonTspecWrite, "name"_a,
             "parent_dir"_a, "use_compression"_a, "use_zarr3"_a,
             "ocdbt_target_data_file_size"_a.none(), "use_ocdbt"_a,
             "global_shape"_a, "local_shape"_a, "dtype"_a,
             "process_index"_a.none(), "metadata_key"_a.none(),
             "args"_a.none());
}

void BindRest(nb::module_& module) {
  module.def(
      "get_cast_tspec_serialize",
      [](const std::string& tspec, const std::string& dtype,
         const OptionalText& args_dtype) {
        return Check(GetCastTspecSerialize(tspec, DTypeNamed(dtype),
                                           SaveArgsWith(args_dtype)));
      },
      "tspec"_a, "dtype"_a, "args_dtype"_a.none());
  module.def("get_cast_tspec_deserialize", BindingCastDeserialize);
  module.def("get_sharding_tensorstore_spec",
             [](const std::string& directory, const std::string& param_name) {
               return Check(GetShardingTensorstoreSpec(directory, param_name));
             });
  module.def(
      "assert_parameter_files_exist",
      [](const std::string& param_dir, const OptionalText& metadata_key,
         bool use_zarr3) {
        Check(AssertParameterFilesExist(param_dir, metadata_key, use_zarr3));
      },
      "param_dir"_a, "metadata_key"_a.none(), "use_zarr3"_a);
  module.def("print_ts_debug_data", BindingDebugData, "key"_a.none(),
             "names"_a);
}

void InitContext(PythonContext* self, bool use_ocdbt, OptionalInt file_io_limit,
                 OptionalInt data_copy_limit) {
  const TsContext context =
      Check(GetTsContext({use_ocdbt, file_io_limit, data_copy_limit}));
  new (self) PythonContext{context, SpecMemory::Make()};
}

void BindHandles(nb::module_& module) {
  nb::class_<PythonContext>(module, "TsContext")
      .def("__init__", InitContext, "use_ocdbt"_a,
           "file_io_concurrency_limit"_a.none(),
           "data_copy_concurrency_limit"_a.none())
      .def("json",
           [](const PythonContext& self) { return self.context.json(); });
  nb::class_<SpecHandle>(module, "SpecHandle")
      .def_prop_ro("driver", &SpecHandle::driver)
      .def_prop_ro("dtype",
                   [](const SpecHandle& self) {
                     return std::string(DTypeName(self.dtype()));
                   })
      .def_prop_ro("shape",
                   [](const SpecHandle& self) { return ToTuple(self.shape()); })
      .def_prop_ro("read_chunk_shape",
                   [](const SpecHandle& self) {
                     return ToTuple(self.read_chunk_shape());
                   })
      .def_prop_ro("write_chunk_shape",
                   [](const SpecHandle& self) {
                     return ToTuple(self.write_chunk_shape());
                   })
      .def("spec_json", &SpecHandle::spec_json)
      .def("read", BindingRead)
      .def("write", BindingWrite)
      .def("read_json", BindingReadJson)
      .def("write_json", BindingWriteJson)
      .def("commit", BindingCommit<SpecHandle>);
  nb::class_<KvStoreHandle>(module, "KvStoreHandle")
      .def("spec_json", &KvStoreHandle::spec_json)
      .def("list", BindingList)
      .def("read", BindingReadKey)
      .def("write", BindingWriteKey, "key"_a, "value"_a.none())
      .def("commit", BindingCommit<KvStoreHandle>);
  module.def("open_spec", BindingOpenSpec, "json"_a, "context"_a,
             "open"_a.none() = nb::none(), "create"_a.none() = nb::none(),
             "delete_existing"_a.none() = nb::none(),
             "assume_metadata"_a.none() = nb::none());
  module.def("open_kv_store", BindingOpenKvStore);
}

}  // namespace

void BindSpec(nb::module_& module) {
  BindBuilders(module);
  BindRest(module);
  BindHandles(module);
}

}  // namespace holdfast::python
