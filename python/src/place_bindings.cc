#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "arguments.h"
#include "bindings.h"
#include "blocking.h"
#include "errors.h"
#include "holdfast/detail/checked_file.h"
#include "holdfast/detail/item_deletion.h"
#include "holdfast/detail/places.h"
#include "tree_output.h"

namespace nb = nanobind;

namespace holdfast::python {
namespace {

// Runs `work` without the GIL. Returns its value, or throws its Status.
template <typename T, typename Work>
T RunOnPlace(const Work& work) {
  return RunForResult<T>({}, nb::none(),
                         [&](const RunOptions&) { return work(); });
}
template <typename Work>
void RunOnPlace(const Work& work) {
  RunBlocking({}, nb::none(), [&](const RunOptions&) { return work(); });
}

nb::tuple InfoRow(const PlaceInfo& info) {
  return nb::make_tuple(static_cast<int>(info.kind), info.byte_count,
                        info.modified_ns);
}

nb::bytes BytesOfText(const std::string& text) {
  return nb::bytes(text.data(), text.size());
}

std::string_view ContentOf(const nb::bytes& bytes) {
  return {bytes.c_str(), bytes.size()};
}

nb::tuple BindingStatPlace(nb::handle path) {
  const std::string text = PathOf(path);
  return InfoRow(RunOnPlace<PlaceInfo>([&] { return StatPlace(text); }));
}

nb::list BindingListPlace(nb::handle path) {
  const std::string text = PathOf(path);
  const auto entries =
      RunOnPlace<std::vector<PlaceEntry>>([&] { return ListPlace(text); });
  nb::list rows;
  for (const PlaceEntry& entry : entries) {
    rows.append(nb::make_tuple(ToPythonText(entry.name), InfoRow(entry.info)));
  }
  return rows;
}

nb::bytes BindingReadPlace(nb::handle path) {
  const std::string text = PathOf(path);
  return BytesOfText(RunOnPlace<std::string>([&] { return ReadPlace(text); }));
}

nb::bytes BindingReadCheckedFile(nb::handle path) {
  const std::string text = PathOf(path);
  return BytesOfText(
      RunOnPlace<std::string>([&] { return ReadCheckedFile(text); }));
}

nb::object BindingFindItemDeletion(nb::handle path) {
  const std::string text = PathOf(path);
  const auto item = RunOnPlace<std::optional<std::string>>(
      [&] { return FindItemDeletion(text); });
  if (!item) return nb::none();
  return ToPythonText(*item);
}

void BindingBeginItemDeletion(nb::handle path, const std::string& item,
                              std::optional<uint32_t> mode) {
  const std::string text = PathOf(path);
  RunOnPlace([&] { return BeginItemDeletion(text, item, mode); });
}

void BindingFinishItemDeletion(nb::handle path) {
  const std::string text = PathOf(path);
  RunOnPlace([&] { return FinishItemDeletion(text); });
}

template <Status (*kCheck)(const std::string&)>
void BindingCheckPath(nb::handle path) {
  const std::string text = PathOf(path);
  RunOnPlace([&] { return kCheck(text); });
}

void BindingCheckDeletableItemOf(nb::handle path, const std::string& item) {
  const std::string text = PathOf(path);
  RunOnPlace([&] { return CheckDeletableItemOf(text, item); });
}

void BindingWritePlace(nb::handle path, const nb::bytes& content,
                       bool must_create) {
  const std::string text = PathOf(path);
  RunOnPlace([&] { return WritePlace(text, ContentOf(content), must_create); });
}

void BindingRemovePlaceFile(nb::handle path) {
  const std::string text = PathOf(path);
  RunOnPlace([&] { return RemovePlaceFile(text); });
}

void BindingRemovePlaceTree(nb::handle path) {
  const std::string text = PathOf(path);
  RunOnPlace([&] { return RemovePlaceTree(text); });
}

void BindingCopyPlaceFile(nb::handle source, nb::handle target) {
  const std::string from = PathOf(source);
  const std::string to = PathOf(target);
  RunOnPlace([&] { return CopyPlaceFile(from, to); });
}

void BindingRenamePlace(nb::handle source, nb::handle target,
                        bool is_directory) {
  const std::string from = PathOf(source);
  const std::string to = PathOf(target);
  RunOnPlace([&] {
    return is_directory ? RenamePlaceDirectory(from, to)
                        : RenamePlaceFile(from, to);
  });
}

std::unique_ptr<PlaceReader> BindingOpenReader(nb::handle path) {
  const std::string text = PathOf(path);
  return RunOnPlace<std::unique_ptr<PlaceReader>>(
      [&] { return PlaceReader::Open(text); });
}

std::unique_ptr<PlaceWriter> BindingOpenWriter(nb::handle path) {
  const std::string text = PathOf(path);
  return RunOnPlace<std::unique_ptr<PlaceWriter>>(
      [&] { return PlaceWriter::Open(text); });
}

nb::bytes BindingReaderRead(PlaceReader& self, uint64_t offset,
                            uint64_t byte_count) {
  return BytesOfText(
      RunOnPlace<std::string>([&] { return self.Read(offset, byte_count); }));
}

}  // namespace

void BindPlaces(nb::module_& module) {
  nb::class_<PlaceReader>(module, "PlaceReader")
      .def_prop_ro("byte_count", &PlaceReader::byte_count)
      .def("read", &BindingReaderRead, nb::arg("offset"),
           nb::arg("byte_count"));
  nb::class_<PlaceWriter>(module, "PlaceWriter")
      .def(
          "append",
          [](PlaceWriter& self, const nb::bytes& piece) {
            RunOnPlace([&] { return self.Append(ContentOf(piece)); });
          },
          nb::arg("piece"))
      .def("finish", [](PlaceWriter& self) {
        RunOnPlace([&] { return self.Finish(); });
      });
  module.def("open_place_reader", &BindingOpenReader, nb::arg("path"));
  module.def("open_place_writer", &BindingOpenWriter, nb::arg("path"));
  module.def("stat_place", &BindingStatPlace, nb::arg("path"));
  module.def("list_place", &BindingListPlace, nb::arg("path"));
  module.def("read_place", &BindingReadPlace, nb::arg("path"));
  module.def("read_checked_file", &BindingReadCheckedFile, nb::arg("path"));
  module.def("find_item_deletion", &BindingFindItemDeletion, nb::arg("path"));
  module.def("begin_item_deletion", &BindingBeginItemDeletion, nb::arg("path"),
             nb::arg("item"), nb::arg("mode").none());
  module.def("finish_item_deletion", &BindingFinishItemDeletion,
             nb::arg("path"));
  module.def(
      "check_deletable_item",
      [](const std::string& item) { Check(CheckDeletableItem(item)); },
      nb::arg("item"));
  module.def("check_deletable_path", &BindingCheckPath<CheckDeletablePath>,
             nb::arg("path"));
  module.def("check_deletable_checkpoint",
             &BindingCheckPath<CheckDeletableCheckpoint>, nb::arg("path"));
  module.def("check_deletable_item_of", &BindingCheckDeletableItemOf,
             nb::arg("path"), nb::arg("item"));
  module.def("write_place", &BindingWritePlace, nb::arg("path"),
             nb::arg("content"), nb::kw_only(), nb::arg("must_create") = false);
  module.def("remove_place_file", &BindingRemovePlaceFile, nb::arg("path"));
  module.def("remove_place_tree", &BindingRemovePlaceTree, nb::arg("path"));
  module.def("copy_place_file", &BindingCopyPlaceFile, nb::arg("source"),
             nb::arg("target"));
  module.def(
      "sync_place_directory",
      [](nb::handle path) {
        const std::string directory = PathOf(path);
        RunOnPlace([&] { return SyncPlaceDirectory(directory); });
      },
      nb::arg("path"));
  module.def(
      "is_nobodys_name",
      [](nb::handle name, bool is_directory) {
        return IsNobodysName(PathOf(name), is_directory);
      },
      nb::arg("name"), nb::kw_only(), nb::arg("is_directory"));
  module.def("rename_place", &BindingRenamePlace, nb::arg("source"),
             nb::arg("target"), nb::kw_only(), nb::arg("is_directory"));
}

}  // namespace holdfast::python
