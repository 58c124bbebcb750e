#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "arguments.h"
#include "bindings.h"
#include "blocking.h"
#include "device_arrays.h"
#include "errors.h"
#include "group.h"
#include "holdfast/checkpoint.h"
#include "holdfast/device.h"
#include "holdfast/mapped_tensor.h"
#include "holdfast/orbax/open_spec.h"
#include "holdfast/pytree_metadata.h"
#include "holdfast/read_again.h"
#include "holdfast/read_together.h"
#include "leaf_rows.h"
#include "numpy_arrays.h"
#include "python_checkpoint.h"
#include "tree_output.h"
#include "whole_leaves.h"

namespace nb = nanobind;

namespace holdfast::python {
namespace {

// A LeafInfo in Python. It shares the checkpoint, so that info() stays valid.
struct PythonLeafInfo {
  std::shared_ptr<const Checkpoint> checkpoint;
  size_t index = 0;

  const LeafInfo& info() const { return checkpoint->leaves()[index]; }
};

OpenOptions OpenOptionsOf(std::optional<int64_t> step, const std::string& item,
                          const std::string& missing_chunks, bool verify,
                          bool stored_sizes, bool fingerprints = false) {
  OpenOptions options;
  options.step = step;
  options.item = item;
  options.missing_chunks = MissingChunksOf(missing_chunks);
  options.verify = verify;
  options.stored_sizes = stored_sizes;
  options.fingerprints = fingerprints;
  return options;
}

MapMode MapModeOf(const std::string& name) {
  if (name == "never") return MapMode::kNever;
  if (name == "where_possible") return MapMode::kWherePossible;
  if (name == "required") return MapMode::kRequired;
  ThrowValueError("map: got \"" + name +
                  "\", want never, where_possible or required");
}

nb::tuple BindingLoad(nb::handle path, std::optional<int64_t> step,
                      const std::string& item, nb::handle names,
                      const std::string& missing_chunks, bool verify,
                      const std::string& map, bool copy_on_write,
                      bool verify_mapped, bool fingerprints, int thread_count,
                      uint64_t memory_bytes, nb::handle progress) {
  LoadOptions options;
  options.map = MapModeOf(map);
  options.map_options = {copy_on_write, verify_mapped};
  options.run = RunOf(thread_count, memory_bytes);
  options.open = OpenOptionsOf(step, item, missing_chunks, verify,
                               /*stored_sizes=*/false, fingerprints);
  if (PyUnicode_Check(names.ptr())) {
    ThrowValueError("names: want a sequence of names, got one str");
  }
  for (const nb::handle name : nb::borrow<nb::iterable>(names)) {
    options.names.push_back(nb::cast<std::string>(name));
  }
  const std::string source = PathOf(path);
  const LoadResult loaded = RunForResult<LoadResult>(
      options.run, progress, [&](const RunOptions& run) {
        options.run = run;
        return Load(source, options);
      });
  return nb::make_tuple(ToPython(loaded.tree), loaded.stats,
                        ToPythonTexts(loaded.notes));
}

void InitCheckpoint(PythonCheckpoint* self, nb::handle path,
                    std::optional<int64_t> step, const std::string& item,
                    const std::string& missing_chunks, bool verify,
                    bool stored_sizes, const std::string& aggregate_filename,
                    bool use_sidecar, bool fingerprints) {
  OpenOptions options = OpenOptionsOf(step, item, missing_chunks, verify,
                                      stored_sizes, fingerprints);
  options.aggregate_filename = aggregate_filename;
  options.use_sidecar = use_sidecar;
  const std::string source = PathOf(path);
  auto opened = RunForResult<std::unique_ptr<Checkpoint>>(
      {}, nb::none(), [&](const RunOptions&) { return Open(source, options); });
  new (self) PythonCheckpoint{std::move(opened), nb::object()};
}

PythonCheckpoint BindingOpenStoredArrays(nb::handle directory,
                                         const std::vector<std::string>& names,
                                         bool use_ocdbt,
                                         const std::string& metadata_key,
                                         bool raise_array_data_missing_error) {
  const std::string path = PathOf(directory);
  StoredArraysOptions options;
  options.use_ocdbt = use_ocdbt;
  options.metadata_key = metadata_key;
  options.raise_array_data_missing_error = raise_array_data_missing_error;
  auto opened = RunForResult<std::unique_ptr<Checkpoint>>(
      {}, nb::none(), [&](const RunOptions&) {
        return OpenStoredArrays(path, names, options);
      });
  return PythonCheckpoint{std::move(opened), nb::object()};
}

nb::object Leaves(PythonCheckpoint& self) {
  if (!self.leaves.is_valid()) {
    nb::list leaves;
    for (size_t i = 0; i < self.checkpoint->leaves().size(); ++i) {
      leaves.append(PythonLeafInfo{self.checkpoint, i});
    }
    self.leaves = std::move(leaves);
  }
  return self.leaves;
}

// Returns the distinct (value_type, skip_deserialize) pairs of the leaves.
nb::set ValueTypes(const PythonCheckpoint& self) {
  std::set<std::pair<std::string_view, bool>> types;
  for (const LeafInfo& leaf : self.checkpoint->leaves()) {
    types.insert({leaf.value_type, leaf.skip_deserialize});
  }
  nb::set result;
  for (const auto& [type, skip] : types) {
    result.add(nb::make_tuple(ToPythonText(type), skip));
  }
  return result;
}

nb::list LeafNames(const PythonCheckpoint& self) {
  nb::list names;
  for (const LeafInfo& leaf : self.checkpoint->leaves()) {
    names.append(ToPythonText(leaf.name));
  }
  return names;
}

bool IsText(ValueKind kind) {
  return kind == ValueKind::kString || kind == ValueKind::kBytes ||
         kind == ValueKind::kJson || kind == ValueKind::kObject;
}

nb::object ReadText(const PythonCheckpoint& self, size_t leaf, ValueKind kind) {
  const auto text = RunForResult<std::string>(
      {}, nb::none(),
      [&](const RunOptions&) { return self.checkpoint->ReadText(leaf); });
  if (kind == ValueKind::kBytes || kind == ValueKind::kObject) {
    return nb::bytes(text.data(), text.size());
  }
  return ToPythonText(text);
}

nb::object ReadLeaf(const PythonCheckpoint& self, size_t leaf) {
  const LeafInfo& info = self.Leaf(leaf);
  if (IsText(info.kind)) return ReadText(self, leaf, info.kind);
  Check(info.problem);
  switch (info.kind) {
    case ValueKind::kNone:
      return nb::none();
    case ValueKind::kEmptyDict:
      return nb::dict();
    case ValueKind::kEmptyList:
      return nb::list();
    case ValueKind::kEmptyTuple:
      return nb::tuple();
    case ValueKind::kPlaceholder:
      return nb::ellipsis();
    default:
      break;
  }
  auto array = RunForResult<Array>({}, nb::none(), [&](const RunOptions&) {
    return self.checkpoint->Read(leaf);
  });
  if (info.kind == ValueKind::kScalar && array.shape().empty()) {
    Scalar scalar{array.dtype(), true, {}};
    const ArrayView bytes = array.mutable_view();
    std::copy_n(bytes.data, DTypeBytes(array.dtype()), scalar.bytes.begin());
    return ToPythonNumber(scalar, info.name);
  }
  return ToNumpy(std::move(array), info.name);
}

nb::object ReadBox(const PythonCheckpoint& self, size_t leaf, nb::handle origin,
                   nb::handle shape) {
  const LeafInfo& info = self.Leaf(leaf);
  const Shape from = ShapeOf(origin, "origin");
  const Shape extents = ShapeOf(shape, "shape");
  auto array = RunForResult<Array>({}, nb::none(), [&](const RunOptions&) {
    return self.checkpoint->ReadBox(leaf, from, extents);
  });
  return ToNumpy(std::move(array), info.name);
}

// Returns for each leaf the mapped array, or a string that says why it cannot
// be mapped.
nb::list BindingMap(const PythonCheckpoint& self,
                    const std::vector<size_t>& leaves, bool copy_on_write,
                    bool verify) {
  auto tensors = RunForResult<std::vector<MappedTensor>>(
      {}, nb::none(), [&](const RunOptions& run) {
        return MapTensors(*self.checkpoint, leaves, {copy_on_write, verify},
                          run);
      });
  nb::list mapped;
  for (size_t i = 0; i < leaves.size(); ++i) {
    MappedTensor& tensor = tensors[i];
    mapped.append(tensor.why_not.empty()
                      ? ToNumpy(std::move(tensor.array),
                                self.checkpoint->leaves()[leaves[i]].name)
                      : ToPythonText(tensor.why_not));
  }
  return mapped;
}

Stats ReadInto(const PythonCheckpoint& self, nb::handle requests,
               int thread_count, uint64_t memory_bytes, nb::handle progress) {
  std::vector<ReadRequest> reads;
  std::vector<DeviceReadRequest> device_reads;
  std::vector<nb::object> targets;  // keeps the arrays alive
  for (const nb::handle request : nb::borrow<nb::iterable>(requests)) {
    const auto leaf = nb::cast<size_t>(request[0]);
    const nb::object target = request[2];
    self.Leaf(leaf);
    Shape origin = ShapeOf(nb::object(request[1]), "origin");
    if (nb::isinstance<DeviceArrayObject>(target)) {
      device_reads.push_back(
          {leaf, std::move(origin),
           TargetOf(nb::cast<const DeviceArrayObject&>(target))});
    } else {
      reads.push_back({leaf, std::move(origin), WritableViewOf(target)});
    }
    targets.push_back(target);
  }
  return RunForResult<Stats>(
      RunOf(thread_count, memory_bytes), progress,
      [&](const RunOptions& run) -> Result<Stats> {
        Result<Stats> read = self.checkpoint->ReadInto(reads, run);
        if (device_reads.empty() || !read.ok()) return read;
        const Result<Stats> device_read =
            ReadIntoDevices(*self.checkpoint, device_reads, run);
        if (!device_read.ok()) return device_read;
        read->Add(*device_read);
        return read;
      });
}

// `request` is (leaf, origin, shape, dtype). The dtype is a numpy dtype, or
// None for the stored dtype.
TogetherRequest TogetherRequestOf(const PythonCheckpoint& self,
                                  nb::handle request) {
  TogetherRequest read;
  read.leaf = nb::cast<size_t>(request[0]);
  self.Leaf(read.leaf);
  read.origin = ShapeOf(nb::object(request[1]), "origin");
  read.shape = ShapeOf(nb::object(request[2]), "shape");
  const nb::object dtype = request[3];
  if (dtype.is_none()) return read;
  read.dtype = DTypeOfDescr(dtype);
  if (!read.dtype) ThrowValueError("read_together: unknown dtype");
  return read;
}

nb::tuple BindingReadTogether(const PythonCheckpoint& self, nb::handle requests,
                              Group& group, int thread_count,
                              uint64_t memory_bytes, nb::handle progress) {
  std::vector<TogetherRequest> reads;
  for (const nb::handle request : nb::borrow<nb::iterable>(requests)) {
    reads.push_back(TogetherRequestOf(self, request));
  }
  auto result = group.Run<ReadTogetherResult>(
      RunOf(thread_count, memory_bytes), progress, [&](const RunOptions& run) {
        ReadTogetherOptions options;
        options.run = run;
        return ReadTogether(*self.checkpoint, reads, group.group(), options);
      });
  nb::list arrays;
  for (size_t i = 0; i < reads.size(); ++i) {
    arrays.append(ToNumpy(std::move(result.arrays[i]),
                          self.checkpoint->leaves()[reads[i].leaf].name));
  }
  return nb::make_tuple(arrays, result.stats);
}

nb::tuple BindingVerify(nb::handle path, std::optional<int64_t> step,
                        const std::string& item, int thread_count,
                        uint64_t memory_bytes, nb::handle progress) {
  const OpenOptions options = OpenOptionsOf(step, item, "as_recorded",
                                            /*verify=*/true,
                                            /*stored_sizes=*/false);
  const std::string source = PathOf(path);
  const auto report = RunForResult<VerifyReport>(
      RunOf(thread_count, memory_bytes), progress,
      [&](const RunOptions& run) { return Verify(source, options, run); });
  nb::list damages;
  for (const Damage& damage : report.damages) damages.append(damage);
  nb::list not_supported;
  for (const Damage& found : report.not_supported) not_supported.append(found);
  return nb::make_tuple(damages, not_supported, ToPythonTexts(report.notes),
                        report.leaf_count, report.stats);
}

nb::object ProblemOf(const PythonLeafInfo& self) {
  if (self.info().problem.ok()) return nb::none();
  PyObject* error = NewException(self.info().problem);
  if (error == nullptr) nb::raise_python_error();
  return nb::steal(error);
}

nb::tuple KeyOf(const PythonLeafInfo& self) {
  nb::list keys;
  for (const std::string& key : self.info().key) {
    keys.append(ToPythonText(key));
  }
  return nb::tuple(keys);
}

nb::tuple KeyIsSequenceOf(const PythonLeafInfo& self) {
  nb::list flags;
  for (const KeyKind kind : self.info().key_kinds) {
    flags.append(kind == KeyKind::kIndex);
  }
  return nb::tuple(flags);
}

// Define a read-only attribute: DefText a str, DefValue any other value.
template <typename Class, typename Get>
void DefText(Class& bound, const char* name, Get get) {
  bound.def_prop_ro(name, [get](const typename Class::Type& self) {
    return ToPythonText(get(self));
  });
}
template <typename Class, typename Get>
void DefValue(Class& bound, const char* name, Get get) {
  bound.def_prop_ro(
      name, [get](const typename Class::Type& self) { return get(self); });
}

void BindLeafInfo(nb::module_& module) {
  using L = PythonLeafInfo;
  nb::class_<L> leaf(module, "LeafInfo");
  DefText(leaf, "name", [](const L& l) { return l.info().name; });
  DefText(leaf, "kind",
          [](const L& l) { return ValueKindName(l.info().kind); });
  DefText(leaf, "value_type", [](const L& l) { return l.info().value_type; });
  DefText(leaf, "prng_impl", [](const L& l) { return l.info().prng_impl; });
  DefText(leaf, "codecs", [](const L& l) { return l.info().codecs; });
  DefText(leaf, "sharding_json",
          [](const L& l) { return l.info().sharding_json; });
  DefText(leaf, "array_metadata",
          [](const L& l) { return l.info().array_metadata; });
  DefText(leaf, "fingerprint", [](const L& l) { return l.info().fingerprint; });
  DefValue(leaf, "key", KeyOf);
  DefValue(leaf, "key_is_sequence", KeyIsSequenceOf);
  DefValue(leaf, "dtype", [](const L& l) -> nb::object {
    if (!l.info().dtype) return nb::none();
    return ToPythonText(DTypeName(*l.info().dtype));
  });
  DefValue(leaf, "shape", [](const L& l) { return ToTuple(l.info().shape); });
  DefValue(leaf, "chunk_shape",
           [](const L& l) { return ToTuple(l.info().chunk_shape); });
  DefValue(leaf, "chunk_count",
           [](const L& l) { return l.info().chunk_count; });
  DefValue(leaf, "stored_bytes",
           [](const L& l) { return l.info().stored_bytes; });
  DefValue(leaf, "decoded_bytes",
           [](const L& l) { return l.info().decoded_bytes; });
  DefValue(leaf, "skip_deserialize",
           [](const L& l) { return l.info().skip_deserialize; });
  DefValue(leaf, "write_shape", [](const L& l) -> nb::object {
    if (!l.info().write_shape) return nb::none();
    return ToTuple(*l.info().write_shape);
  });
  DefValue(leaf, "problem", ProblemOf);
}

void BindCheckpointInfo(nb::class_<PythonCheckpoint>& bound) {
  using C = PythonCheckpoint;
  DefText(bound, "path", [](const C& c) { return c.checkpoint->info().path; });
  DefText(bound, "format",
          [](const C& c) { return c.checkpoint->info().format; });
  DefText(bound, "custom_metadata",
          [](const C& c) { return c.checkpoint->info().custom_metadata; });
  DefText(bound, "checkpoint_metadata",
          [](const C& c) { return c.checkpoint->info().checkpoint_metadata; });
  DefText(bound, "item_custom_metadata",
          [](const C& c) { return c.checkpoint->info().item_custom_metadata; });
  DefText(bound, "item_documents",
          [](const C& c) { return c.checkpoint->info().item_documents; });
  DefText(bound, "value_metadata_tree",
          [](const C& c) { return c.checkpoint->info().value_metadata_tree; });
  DefValue(bound, "bases", [](const C& c) {
    return ToPythonTexts(c.checkpoint->info().bases);
  });
  DefValue(bound, "sources", [](const C& c) {
    return ToPythonTexts(c.checkpoint->info().sources);
  });
  DefValue(bound, "notes", [](const C& c) {
    return ToPythonTexts(c.checkpoint->info().notes);
  });
  DefValue(bound, "step", [](const C& c) { return c.checkpoint->info().step; });
  DefValue(bound, "items", [](const C& c) {
    nb::dict items;
    for (const auto& [name, directory] : c.checkpoint->info().items) {
      items[ToPythonText(name)] = ToPythonText(directory);
    }
    return items;
  });
  DefValue(bound, "use_ocdbt",
           [](const C& c) { return c.checkpoint->info().use_ocdbt; });
  DefValue(bound, "zarr_format",
           [](const C& c) { return c.checkpoint->info().zarr_format; });
  DefValue(bound, "has_tree_metadata",
           [](const C& c) { return c.checkpoint->info().has_tree_metadata; });
  DefValue(bound, "use_zarr3",
           [](const C& c) { return c.checkpoint->info().use_zarr3; });
  DefValue(bound, "store_array_data_equal_to_fill_value", [](const C& c) {
    return c.checkpoint->info().store_array_data_equal_to_fill_value;
  });
  DefValue(bound, "init_timestamp_ns",
           [](const C& c) { return c.checkpoint->info().init_timestamp_ns; });
  DefValue(bound, "commit_timestamp_ns",
           [](const C& c) { return c.checkpoint->info().commit_timestamp_ns; });
}

void BindDamage(nb::module_& module) {
  nb::class_<Damage> damage(module, "Damage");
  DefText(damage, "leaf", [](const Damage& d) { return d.leaf; });
  DefText(damage, "file", [](const Damage& d) { return d.file; });
  DefText(damage, "message",
          [](const Damage& d) { return d.status.message(); });
  DefText(damage, "code",
          [](const Damage& d) { return StatusCodeName(d.status.code()); });
  DefValue(damage, "offset", [](const Damage& d) { return d.offset; });
}

nb::list BindingListSteps(nb::handle root) {
  const std::string directory = PathOf(root);
  const auto steps = RunForResult<std::vector<StepInfo>>(
      {}, nb::none(), [&](const RunOptions&) { return ListSteps(directory); });
  nb::list result;
  for (const StepInfo& step : steps) result.append(step);
  return result;
}

void BindStepInfo(nb::module_& module) {
  using S = StepInfo;
  nb::class_<S> step(module, "StepInfo");
  DefText(step, "name", [](const S& s) { return s.name; });
  DefText(step, "path", [](const S& s) { return s.path; });
  DefText(step, "why_not", [](const S& s) { return s.why_not; });
  DefText(step, "damage", [](const S& s) { return s.damage; });
  DefText(step, "metrics", [](const S& s) { return s.metrics; });
  DefValue(step, "step", [](const S& s) { return s.step; });
  DefValue(step, "committed", [](const S& s) { return s.committed; });
  DefValue(step, "bytes", [](const S& s) { return s.bytes; });
  DefValue(step, "commit_timestamp_ns",
           [](const S& s) { return s.commit_timestamp_ns; });
  DefValue(step, "items", [](const S& s) { return ToPythonTexts(s.items); });
}

void BindCheckpointReads(nb::class_<PythonCheckpoint>& checkpoint) {
  checkpoint.def_prop_ro("leaf_names", &LeafNames)
      .def(
          "check_names",
          [](const PythonCheckpoint& self,
             const std::vector<std::string>& names) {
            Check(self.checkpoint->CheckNames(names));
          },
          nb::arg("names"))
      .def("read", &ReadLeaf, nb::arg("leaf"))
      .def("read_box", &ReadBox, nb::arg("leaf"), nb::arg("origin"),
           nb::arg("shape"))
      .def("map", &BindingMap, nb::arg("leaves"), nb::kw_only(),
           nb::arg("copy_on_write") = false, nb::arg("verify") = false)
      .def("read_into", &ReadInto, nb::arg("requests"), nb::kw_only(),
           nb::arg("threads") = 0,
           nb::arg("memory_bytes") = uint64_t{256} << 20,
           nb::arg("progress") = nb::none())
      .def("read_together", &BindingReadTogether, nb::arg("requests"),
           nb::arg("group"), nb::kw_only(), nb::arg("threads") = 0,
           nb::arg("memory_bytes") = uint64_t{256} << 20,
           nb::arg("progress") = nb::none())
      .def(
          "load",
          [](const PythonCheckpoint& self, int thread_count,
             uint64_t memory_bytes, nb::handle progress) {
            return LoadTree(*self.checkpoint, RunOf(thread_count, memory_bytes),
                            progress);
          },
          nb::kw_only(), nb::arg("threads") = 0,
          nb::arg("memory_bytes") = uint64_t{256} << 20,
          nb::arg("progress") = nb::none())
      .def(
          "read_leaves",
          [](const PythonCheckpoint& self, nb::handle requests,
             int thread_count, uint64_t memory_bytes, nb::handle progress) {
            return ReadLeaves(*self.checkpoint, requests,
                              RunOf(thread_count, memory_bytes), progress);
          },
          nb::arg("requests"), nb::kw_only(), nb::arg("threads") = 0,
          nb::arg("memory_bytes") = uint64_t{256} << 20,
          nb::arg("progress") = nb::none());
}

}  // namespace

void BindCheckpoint(nb::module_& module) {
  BindLeafInfo(module);
  BindDamage(module);
  BindStepInfo(module);
  nb::class_<PythonCheckpoint> checkpoint(module, "Checkpoint");
  checkpoint.def("__init__", &InitCheckpoint, nb::arg("path"), nb::kw_only(),
                 nb::arg("step") = nb::none(), nb::arg("item") = "",
                 nb::arg("missing_chunks") = "as_recorded",
                 nb::arg("verify") = true, nb::arg("stored_sizes") = false,
                 nb::arg("aggregate_filename") = "checkpoint",
                 nb::arg("use_sidecar") = true,
                 nb::arg("fingerprints") = false);
  BindCheckpointInfo(checkpoint);
  BindCheckpointReads(checkpoint);
  checkpoint.def_prop_ro("leaves", &Leaves)
      .def_prop_ro("value_types", &ValueTypes)
      .def("leaf_rows",
           [](const PythonCheckpoint& self) {
             return LeafRows(*self.checkpoint);
           })
      .def(
          "nest",
          [](const PythonCheckpoint& self, const nb::list& values,
             nb::handle namedtuple_of) {
            if (values.size() != self.checkpoint->leaves().size()) {
              ThrowValueError("nest: want one value per leaf");
            }
            const bool is_rich = !namedtuple_of.is_none();
            const Tree indices =
                Check(is_rich ? RecordedContainers(*self.checkpoint)
                              : self.checkpoint->IndexTree());
            return ToPython(
                indices, [&](size_t i) { return nb::object(values[i]); },
                is_rich ? namedtuple_of : nb::handle());
          },
          nb::arg("values"), nb::arg("namedtuple_of").none() = nb::none())
      .def("structure",
           [](const PythonCheckpoint& self) {
             return ToPython(Check(self.checkpoint->Structure()));
           })
      .def(
          "digest",
          [](const PythonCheckpoint& self, size_t leaf) {
            self.Leaf(leaf);
            return RunForResult<std::string>(
                {}, nb::none(), [&](const RunOptions&) {
                  return DigestLeaf(*self.checkpoint, leaf);
                });
          },
          nb::arg("leaf"));
  module.def("open_stored_arrays", &BindingOpenStoredArrays,
             nb::arg("directory"), nb::arg("names"), nb::kw_only(),
             nb::arg("use_ocdbt"), nb::arg("metadata_key"),
             nb::arg("raise_array_data_missing_error"));
  module.def("load", &BindingLoad, nb::arg("path"), nb::kw_only(),
             nb::arg("step") = nb::none(), nb::arg("item") = "",
             nb::arg("names") = nb::make_tuple(),
             nb::arg("missing_chunks") = "as_recorded",
             nb::arg("verify") = true, nb::arg("map") = "never",
             nb::arg("copy_on_write") = false, nb::arg("verify_mapped") = false,
             nb::arg("fingerprints") = false, nb::arg("threads") = 0,
             nb::arg("memory_bytes") = uint64_t{256} << 20,
             nb::arg("progress") = nb::none());
  module.def("verify", &BindingVerify, nb::arg("path"), nb::kw_only(),
             nb::arg("step") = nb::none(), nb::arg("item") = "",
             nb::arg("threads") = 0,
             nb::arg("memory_bytes") = uint64_t{256} << 20,
             nb::arg("progress") = nb::none());
  module.def("list_steps", &BindingListSteps, nb::arg("root"));
}

}  // namespace holdfast::python
