// Megatron Core's zarr checkpoints for `holdfast.megatron`. Arguments are rows
// of plain values, and results are numpy arrays; python/holdfast/_engine.pyi
// describes both.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "arguments.h"
#include "bindings.h"
#include "blocking.h"
#include "errors.h"
#include "holdfast/megatron/megatron.h"
#include "holdfast/megatron/zarr.h"
#include "numpy_arrays.h"

namespace nb = nanobind;

namespace holdfast::python {
namespace {

using megatron::ShardedObject;
using megatron::ShardedTensor;

// The columns of a row. Only rows of tensors have the columns from kDType on.
enum Column : uint8_t {
  kKind,
  kKey,
  kReplicaId,
  kGlobalShape,
  kGlobalOffset,
  kDType,
  kLocalShape,
  kAxisFragmentations,
  kPrependAxisNum,
  kAllowShapeMismatch,
  kFlattenedRange,
  kData,
  kTensorColumns,
};

// The class `holdfast._engine.MegatronError`; owned by the module.
PyObject* megatron_error = nullptr;

[[noreturn]] void RaiseMegatronError(const megatron::Error& error) {
  const nb::tuple arguments =
      nb::make_tuple(error.code, error.python_class, error.text);
  PyErr_SetObject(megatron_error, arguments.ptr());
  throw nb::python_error();
}

// Throws unless the status is ok; a MegatronError for a failure that Megatron
// defines.
void CheckMegatron(const Status& status) {
  if (const auto error = megatron::ErrorOf(status)) RaiseMegatronError(*error);
  Check(status);
}

// Runs `work` without the GIL; throws failures as CheckMegatron does.
template <typename Work>
auto RunMegatron(const Work& work) {
  std::invoke_result_t<Work, const RunOptions&> result =
      InternalError("nothing has run");
  RunBlocking({}, nb::none(), [&](const RunOptions& run) {
    result = work(run);
    return Status();
  });
  CheckMegatron(result.status());
  return *std::move(result);
}

// Returns the key in the file system's encoding, so that a key with invalid
// UTF-8 reaches the check that refuses it.
std::string FileSystemKey(nb::handle key) { return PathOf(key); }

megatron::ReplicaId ReplicaIdOf(nb::handle id) {
  if (PyLong_Check(id.ptr())) {
    return megatron::ReplicaId::Int(nb::cast<int64_t>(id));
  }
  return megatron::ReplicaId::Tuple(
      std::vector<int64_t>(ShapeOf(id, "replica_id")));
}

DType MegatronDType(const std::string& name) {
  const std::optional<DType> dtype = DTypeFromName(name);
  if (!dtype) {
    RaiseMegatronError({"UNSUPPORTED_DTYPE", "KeyError", "torch." + name});
  }
  return *dtype;
}

ConstArrayView DataOf(nb::handle data, DType dtype) {
  if (!IsArray(data)) ThrowValueError("a shard's data is not a numpy array");
  const std::optional<DType> carrier = DTypeOf(data);
  if (!carrier || DTypeBytes(*carrier) != DTypeBytes(dtype)) {
    ThrowValueError("a shard's data is " + DTypeNameOf(data) + ", want " +
                    std::string(DTypeName(dtype)));
  }
  return ViewOf(data, dtype);
}

class Row {
 public:
  Row(nb::handle row, size_t columns) : values_(nb::cast<nb::tuple>(row)) {
    if (values_.size() != columns) {
      ThrowValueError("a row has " + std::to_string(values_.size()) +
                      " columns, want " + std::to_string(columns));
    }
  }
  nb::object operator[](Column column) const {
    return nb::object(values_[static_cast<size_t>(column)]);
  }

 private:
  nb::tuple values_;
};

ShardedTensor TensorOf(nb::handle row) {
  const Row values(row, kTensorColumns);
  ShardedTensor tensor;
  tensor.key = FileSystemKey(values[kKey]);
  tensor.replica_id = ReplicaIdOf(values[kReplicaId]);
  tensor.global_shape = ShapeOf(values[kGlobalShape], "global_shape");
  tensor.global_offset = ShapeOf(values[kGlobalOffset], "global_offset");
  tensor.dtype = MegatronDType(nb::cast<std::string>(values[kDType]));
  tensor.local_shape = ShapeOf(values[kLocalShape], "local_shape");
  tensor.axis_fragmentations =
      OptionalShapeOf(values[kAxisFragmentations], "axis_fragmentations");
  tensor.prepend_axis_num = nb::cast<int>(values[kPrependAxisNum]);
  tensor.allow_shape_mismatch = nb::cast<bool>(values[kAllowShapeMismatch]);
  if (!values[kFlattenedRange].is_none()) {
    const Shape range = ShapeOf(values[kFlattenedRange], "flattened_range");
    if (range.size() != 2) ThrowValueError("flattened_range: want two ints");
    tensor.flattened_range = {range[0], range[1]};
  }
  if (!values[kData].is_none()) {
    tensor.data = DataOf(values[kData], tensor.dtype);
    tensor.has_data = true;
  }
  return tensor;
}

ShardedObject ObjectOf(nb::handle row) {
  const Row values(row, kDType);
  ShardedObject object;
  object.key = FileSystemKey(values[kKey]);
  object.replica_id = ReplicaIdOf(values[kReplicaId]);
  object.global_shape = ShapeOf(values[kGlobalShape], "global_shape");
  object.global_offset = ShapeOf(values[kGlobalOffset], "global_offset");
  return object;
}

std::vector<ShardedTensor> TensorsOf(nb::handle rows) {
  std::vector<ShardedTensor> tensors;
  for (const nb::handle row : rows) tensors.push_back(TensorOf(row));
  return tensors;
}

megatron::RankState RankStateOf(nb::handle rows) {
  megatron::RankState state;
  for (const nb::handle row : rows) {
    if (nb::len(row) == kTensorColumns) {
      state.tensors.push_back(TensorOf(row));
    } else {
      state.objects.push_back(ObjectOf(row));
    }
  }
  return state;
}

megatron::LoadMode LoadModeOf(const std::string& mode) {
  if (mode == "tensorstore") return megatron::LoadMode::kTensorStore;
  if (mode == "zarr") return megatron::LoadMode::kZarr;
  ThrowValueError("mode: got '" + mode + "', want 'tensorstore' or 'zarr'");
}

// The result of RunMegatron for calls that return nothing.
struct Done {};
Result<Done> DoneUnless(const Status& status) {
  if (!status.ok()) return status;
  return Done{};
}

void ValidateRanks(nb::handle ranks) {
  std::vector<megatron::RankState> states;
  for (const nb::handle rows : ranks) states.push_back(RankStateOf(rows));
  CheckMegatron(megatron::ValidateShardingIntegrity(states));
}

void CheckKey(nb::handle key) {
  CheckMegatron(megatron::CheckKeyIsStorable(FileSystemKey(key)));
}

void CreateArrays(nb::handle rows, nb::handle directory, bool sync,
                  bool scalars) {
  const std::vector<ShardedTensor> tensors = TensorsOf(rows);
  const std::string path = PathOf(directory);
  RunMegatron([&](const RunOptions& run) {
    return DoneUnless(megatron::ZarrSaveShardedStrategy().CreateArrays(
        tensors, path, {sync, scalars, run}));
  });
}

Stats WriteShards(nb::handle rows, nb::handle directory, bool sync,
                  bool scalars, int thread_count) {
  const std::vector<ShardedTensor> tensors = TensorsOf(rows);
  const std::string path = PathOf(directory);
  return RunMegatron([&](const RunOptions& run) {
    megatron::ZarrSaveOptions options{sync, scalars, run};
    options.run.threads = thread_count;
    return megatron::ZarrSaveShardedStrategy().WriteShards(tensors, path,
                                                           options);
  });
}

nb::tuple OpenArray(nb::handle path, const std::string& mode) {
  Result<megatron::ZarrArray> array =
      megatron::OpenZarrArrayVerbose(PathOf(path), LoadModeOf(mode));
  CheckMegatron(array.status());
  return nb::make_tuple(ToTuple(array->shape()), ToTuple(array->chunks()),
                        std::string(DTypeName(array->dtype())));
}

// Returns views of `targets`, which are arrays or None. A view has the dtype in
// its tensor's row, which the engine compares with the stored dtype.
std::vector<ArrayView> TargetsOf(nb::handle targets,
                                 const std::vector<ShardedTensor>& tensors) {
  std::vector<ArrayView> views;
  for (const nb::handle target : targets) {
    if (target.is_none()) {
      views.emplace_back();
      continue;
    }
    if (views.size() >= tensors.size()) break;
    ArrayView view = WritableViewOf(target);
    view.dtype = tensors[views.size()].dtype;
    views.push_back(std::move(view));
  }
  if (views.size() != tensors.size()) {
    ThrowValueError("got " + std::to_string(views.size()) + " targets for " +
                    std::to_string(tensors.size()) + " shards");
  }
  return views;
}

nb::list Load(nb::handle rows, nb::handle targets, nb::handle directory,
              const std::string& mode, bool pad_replicate, int thread_count) {
  const std::vector<ShardedTensor> tensors = TensorsOf(rows);
  const std::vector<ArrayView> views = TargetsOf(targets, tensors);
  const std::string path = PathOf(directory);
  megatron::ZarrLoadOptions options;
  options.mode = LoadModeOf(mode);
  options.absent_chunks = megatron::AbsentChunks::kFill;
  options.pad_replicate = pad_replicate;
  std::vector<megatron::LoadedTensor> loaded =
      RunMegatron([&](const RunOptions& run) {
        megatron::ZarrLoadOptions with_run = options;
        with_run.run = run;
        with_run.run.threads = thread_count;
        return megatron::ZarrLoadShardedStrategy("zarr", 1, options.mode)
            .Load(tensors, path, with_run, views);
      });
  nb::list results;
  for (size_t i = 0; i < loaded.size(); ++i) {
    nb::list absent;
    for (const std::string& chunk : loaded[i].absent_chunks) {
      absent.append(chunk);
    }
    std::string dtype(DTypeName(loaded[i].array.dtype()));
    nb::object array = views[i].data != nullptr
                           ? nb::borrow(targets[i])
                           : ToNumpyBits(std::move(loaded[i].array));
    results.append(nb::make_tuple(std::move(dtype), std::move(array), absent));
  }
  return results;
}

nb::list ListTensors(nb::handle directory, const std::string& mode) {
  const std::string path = PathOf(directory);
  const megatron::ZarrLoadShardedStrategy strategy("zarr", 1, LoadModeOf(mode));
  const megatron::TensorMetadata metadata = RunMegatron(
      [&](const RunOptions&) { return strategy.LoadTensorsMetadata(path); });
  nb::list rows;
  for (const auto& [key, tensor] : metadata) {
    rows.append(nb::make_tuple(
        nb::steal(PyUnicode_DecodeFSDefaultAndSize(
            key.data(), static_cast<Py_ssize_t>(key.size()))),
        std::string(DTypeName(tensor.dtype)), ToTuple(tensor.global_shape)));
  }
  return rows;
}

}  // namespace

void BindMegatron(nb::module_& module) {
  megatron_error = PyErr_NewException("holdfast._engine.MegatronError",
                                      PyExc_Exception, nullptr);
  if (megatron_error == nullptr) nb::raise_python_error();
  module.attr("MegatronError") = nb::borrow(megatron_error);
  module.def("megatron_validate", &ValidateRanks, nb::arg("ranks"));
  module.def("megatron_check_key", &CheckKey, nb::arg("key"));
  module.def("megatron_create_arrays", &CreateArrays, nb::arg("rows"),
             nb::arg("directory"), nb::arg("sync"), nb::arg("scalars"));
  module.def("megatron_write_shards", &WriteShards, nb::arg("rows"),
             nb::arg("directory"), nb::arg("sync"), nb::arg("scalars"),
             nb::arg("threads"));
  module.def("megatron_open_array", &OpenArray, nb::arg("path"),
             nb::arg("mode"));
  module.def("megatron_load", &Load, nb::arg("rows"), nb::arg("targets"),
             nb::arg("directory"), nb::arg("mode"), nb::arg("pad_replicate"),
             nb::arg("threads"));
  module.def("megatron_list", &ListTensors, nb::arg("directory"),
             nb::arg("mode"));
}

}  // namespace holdfast::python
