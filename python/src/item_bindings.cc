// The files that handlers keep next to an item's arrays, and sessions of
// partial saves.
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "arguments.h"
#include "bindings.h"
#include "blocking.h"
#include "errors.h"
#include "holdfast/detail/partial_save.h"
#include "holdfast/orbax/pytree_checkpoint_handler.h"
#include "holdfast/orbax/type_handlers.h"
#include "tree_output.h"

namespace nb = nanobind;

namespace holdfast::python {
namespace {

using Texts = std::map<std::string, std::string>;
// (param_name, write_shape, chunk_shape, JSON of ext_metadata)
using MetadataRow = std::tuple<std::string, std::vector<int64_t>,
                               std::vector<int64_t>, std::string>;

template <typename Work>
void RunPlainly(const Work& work) {
  RunBlocking({}, nb::none(), [&](const RunOptions&) { return work(); });
}

std::vector<SerializedArrayMetadata> RowsOf(
    const std::vector<MetadataRow>& rows) {
  std::vector<SerializedArrayMetadata> metadatas;
  for (const auto& [name, write_shape, chunk_shape, ext_metadata] : rows) {
    metadatas.push_back(
        {name, Shape(write_shape), Shape(chunk_shape), ext_metadata});
  }
  return metadatas;
}

void BindingAddArrayMetadatas(nb::handle directory, int process,
                              const std::vector<MetadataRow>& rows) {
  const std::string path = PathOf(directory);
  RunPlainly([&] { return AddArrayMetadatas(path, process, RowsOf(rows)); });
}

nb::dict BindingReadArrayMetadatas(nb::handle directory) {
  const std::string path = PathOf(directory);
  const auto found = RunForResult<ArrayMetadatasByProcess>(
      {}, nb::none(),
      [&](const RunOptions&) { return ReadArrayMetadatas(path); });
  nb::dict by_process;
  for (const auto& [process, metadatas] : found) {
    nb::list rows;
    for (const SerializedArrayMetadata& row : metadatas) {
      rows.append(nb::make_tuple(
          ToPythonText(row.param_name), ToTuple(row.write_shape),
          ToTuple(row.chunk_shape), ToPythonText(row.ext_metadata)));
    }
    by_process[nb::int_(process)] = rows;
  }
  return by_process;
}

void BindingValidateArrayMetadatas(
    const std::map<int, std::vector<MetadataRow>>& rows, int process_count,
    int reference) {
  ArrayMetadatasByProcess metadatas;
  for (const auto& [process, own] : rows) metadatas[process] = RowsOf(own);
  Check(ValidateAllArrayMetadatas(metadatas, {process_count, reference}));
}

nb::object BindingRecordedShardings(nb::handle directory) {
  const std::string path = PathOf(directory);
  const auto found = RunForResult<std::optional<Texts>>(
      {}, nb::none(),
      [&](const RunOptions&) { return RecordedShardings(path); });
  if (!found) return nb::none();
  nb::dict texts;
  for (const auto& [name, text] : *found) {
    texts[ToPythonText(name)] = ToPythonText(text);
  }
  return texts;
}

void BindingRecordShardings(nb::handle directory, const Texts& shardings) {
  const std::string path = PathOf(directory);
  RunPlainly([&] { return RecordShardings(path, shardings); });
}

using DirectoryAndName = std::pair<std::string, std::string>;

std::vector<ParamInfo> InfosOf(const std::vector<DirectoryAndName>& params) {
  std::vector<ParamInfo> infos(params.size());
  for (size_t i = 0; i < params.size(); ++i) {
    infos[i].parent_dir = params[i].first;
    infos[i].name = params[i].second;
  }
  return infos;
}

void BindingSerializeStrings(const std::string& filename,
                             const std::vector<DirectoryAndName>& params,
                             const std::vector<std::string>& texts) {
  const std::vector<Tree> trees(texts.begin(), texts.end());
  std::vector<const Tree*> values;
  for (const Tree& tree : trees) values.push_back(&tree);
  const std::vector<ParamInfo> infos = InfosOf(params);
  RunPlainly([&] {
    return StringHandler(filename).Serialize(values, infos, {}).status();
  });
}

nb::list BindingDeserializeStrings(
    const std::string& filename, const std::vector<DirectoryAndName>& params) {
  const std::vector<ParamInfo> infos = InfosOf(params);
  const auto trees =
      RunForResult<std::vector<Tree>>({}, nb::none(), [&](const RunOptions&) {
        return StringHandler(filename).Deserialize(infos, {});
      });
  nb::list texts;
  for (const Tree& tree : trees) texts.append(ToPythonText(tree.text()));
  return texts;
}

void BindingCheckRestoreShape(nb::handle wanted, nb::handle stored, bool strict,
                              nb::handle origin, nb::handle extents) {
  constexpr const char* kWhat = "check_restore_shape";
  Check(CheckRestoreShape(ShapeOf(wanted, kWhat), ShapeOf(stored, kWhat),
                          strict, ShapeOf(origin, kWhat),
                          ShapeOf(extents, kWhat)));
}

void BindingExplainMissingArray(nb::handle directory, const std::string& name,
                                const std::string& metadata_key,
                                std::optional<bool> use_ocdbt,
                                nb::handle problem) {
  const ArrayPlace place{PathOf(directory), name, metadata_key, use_ocdbt};
  const Status why =
      problem.is_none() ? Status() : StatusOf(nb::borrow(problem));
  RunPlainly([&] { return ExplainMissingArray(place, why); });
}

}  // namespace

void BindItemFiles(nb::module_& module) {
  module.def("add_array_metadatas", &BindingAddArrayMetadatas,
             nb::arg("directory"), nb::arg("process"), nb::arg("rows"));
  module.def("read_array_metadatas", &BindingReadArrayMetadatas,
             nb::arg("directory"));
  module.def("validate_array_metadatas", &BindingValidateArrayMetadatas,
             nb::arg("rows"), nb::kw_only(), nb::arg("process_count"),
             nb::arg("reference"));
  module.def("recorded_shardings", &BindingRecordedShardings,
             nb::arg("directory"));
  module.def("record_shardings", &BindingRecordShardings, nb::arg("directory"),
             nb::arg("shardings"));
  module.def("check_restore_shape", &BindingCheckRestoreShape,
             nb::arg("wanted"), nb::arg("stored"), nb::arg("strict"),
             nb::arg("origin"), nb::arg("extents"));
  module.def("explain_missing_array", &BindingExplainMissingArray,
             nb::arg("directory"), nb::arg("name"), nb::arg("metadata_key"),
             nb::arg("use_ocdbt").none(), nb::arg("problem").none());
  module.def("serialize_strings", &BindingSerializeStrings, nb::arg("filename"),
             nb::arg("params"), nb::arg("texts"));
  module.def("deserialize_strings", &BindingDeserializeStrings,
             nb::arg("filename"), nb::arg("params"));
  module.def(
      "check_partial_save_keys",
      [](nb::handle session,
         const std::vector<std::vector<std::string>>& keys) {
        const std::string path = PathOf(session);
        RunPlainly([&] { return CheckPartialSaveKeys(path, keys); });
      },
      nb::arg("session"), nb::arg("keys"));
  module.def(
      "prepare_partial_save",
      [](nb::handle part) {
        const std::string path = PathOf(part);
        RunPlainly([&] { return PreparePartialSave(path); });
      },
      nb::arg("part"));
  module.def(
      "finalize_partial_save",
      [](nb::handle session, nb::handle path) {
        const std::string from = PathOf(session);
        const std::string to = PathOf(path);
        RunPlainly([&] { return FinalizePartialSave(from, to); });
      },
      nb::arg("session"), nb::arg("path"));
}

}  // namespace holdfast::python
