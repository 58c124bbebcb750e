#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <unistd.h>

#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "arguments.h"
#include "bindings.h"
#include "blocking.h"
#include "errors.h"
#include "group.h"
#include "holdfast/checkpoint.h"
#include "holdfast/delta.h"
#include "holdfast/orbax/pytree_checkpoint_handler.h"
#include "holdfast/orbax/type_handlers.h"
#include "holdfast/pending_save.h"
#include "tree_builder.h"
#include "tree_output.h"

namespace nb = nanobind;

namespace holdfast::python {
namespace {

// Warns, after a save has committed. Where warnings are errors, the error goes
// to sys.unraisablehook: raising it would say that the save has failed.
void WarnAfterCommit(nb::handle category, const std::string& text) {
  if (PyErr_WarnEx(category.ptr(), text.c_str(), 1) != 0) {
    PyErr_WriteUnraisable(nullptr);
  }
}

// Warns about what a save has noticed.
void WarnOf(const std::vector<std::string>& notes) {
  for (const std::string& note : notes) {
    WarnAfterCommit(
        nb::module_::import_("holdfast.errors").attr("UnchangedWarning"),
        note +
            ". If they are frozen on purpose, ignore the warning: "
            "warnings.simplefilter(\"ignore\", "
            "holdfast.errors.UnchangedWarning)");
  }
}

// Runs `call` with these options, and returns the save's Stats.
template <typename Call>
Stats RunSave(SaveOptions options, nb::handle progress, const Call& call,
              Group* group = nullptr) {
  options.group = ProcessGroupOf(group);
  const auto saved = RunInGroup<SaveResult>(group, options.run, progress,
                                            [&](const RunOptions& run) {
                                              options.run = run;
                                              return call(options);
                                            });
  WarnOf(saved.notes);
  return saved.stats;
}

// PendingSave with the guard that its contract requires. In a forked child it
// does nothing, because the save belongs to the parent, where it continues.
class GuardedPendingSave {
 public:
  GuardedPendingSave(const std::string& path, PendingSaveOptions options) {
    RunBlocking({}, nb::none(), [&](const RunOptions&) {
      auto begun = PendingSave::Begin(path, options);
      if (!begun.ok()) return begun.status();
      pending_ = *std::move(begun);
      return Status();
    });
    directory_ = pending_->directory();
  }
  ~GuardedPendingSave() { LeaveToParent(); }
  GuardedPendingSave(const GuardedPendingSave&) = delete;
  GuardedPendingSave& operator=(const GuardedPendingSave&) = delete;

  const std::string& directory() const { return directory_; }

  Stats SaveItem(const std::string& name, const Tree& tree, SaveOptions options,
                 nb::handle progress) {
    return RunSave(std::move(options), progress, [&](const SaveOptions& o) {
      LeaveToParent();
      const std::lock_guard lock(mutex_);
      if (!pending_) return Result<SaveResult>(Ended());
      return pending_->SaveItem(name, tree, o);
    });
  }

  void WriteFile(const std::string& name, nb::bytes content) {
    RunBlocking({}, nb::none(), [&](const RunOptions&) {
      LeaveToParent();
      const std::lock_guard lock(mutex_);
      if (!pending_) return Ended();
      return pending_->WriteFile(name, {content.c_str(), content.size()});
    });
  }

  void AdoptItem(const std::string& name) {
    RunBlocking({}, nb::none(), [&](const RunOptions&) {
      const std::lock_guard lock(mutex_);
      if (!pending_) return Ended();
      return pending_->AdoptItem(name);
    });
  }

  void Commit(const RootRecord& root) {
    std::vector<std::string> notes;
    RunBlocking({}, nb::none(), [&](const RunOptions&) {
      LeaveToParent();
      const std::lock_guard lock(mutex_);
      if (!pending_) return Ended();
      Status status = pending_->Commit(root);
      notes = pending_->notes();
      pending_.reset();
      return status;
    });
    WarnOf(notes);
  }

  void Discard() {
    RunBlocking({}, nb::none(), [&](const RunOptions&) {
      LeaveToParent();
      const std::lock_guard lock(mutex_);
      pending_.reset();
      return Status();
    });
  }

 private:
  Status Ended() const {
    return FailedPreconditionError("pending save: " + directory_ +
                                   ": it has ended already");
  }

  // Drops the save in a forked child, without removing its directory. Does not
  // take the lock: another thread may have held it at the fork, and only one
  // thread survives a fork.
  void LeaveToParent() {
    if (getpid() == owner_) return;
    static_cast<void>(pending_.release());
    new (&mutex_) std::mutex;
    owner_ = getpid();
  }

  pid_t owner_ = getpid();
  std::mutex mutex_;
  std::unique_ptr<PendingSave> pending_;  // null once it has ended
  std::string directory_;
};

// Sets the compression from `use_compression`, which as in handlers is a bool
// or the name of a compression.
void SetCompression(nb::handle use_compression, SaveOptions& options) {
  std::optional<Compression> compression;
  if (nb::isinstance<nb::str>(use_compression)) {
    compression = CompressionOf(nb::cast<std::string>(use_compression));
  }
  const bool is_used = compression || nb::cast<bool>(use_compression);
  Check(SetHandlerCompression(is_used, compression, options));
}

// The differences between the calls that save an item.
struct ItemDefaults {
  int zarr_format = 2;
  uint64_t chunk_bytes = 0;
  const char* compression = "zstd";
};

// Defines a Python function that saves an item. `own` are the function's
// leading arguments, which are followed by the options that all such functions
// have.
template <typename Scope, typename... Own, typename... OwnArgs>
void DefineItemSave(Scope& scope, const char* name,
                    Stats (*call)(SaveOptions options, nb::handle progress,
                                  Own... own),
                    const ItemDefaults& defaults, const OwnArgs&... own) {
  scope.def(
      name,
      [call](Own... given, int zarr_format, bool use_ocdbt,
             const std::optional<std::string>& compression,
             uint64_t chunk_bytes, int64_t ocdbt_target_data_file_bytes,
             const std::string& item_custom_metadata,
             const std::string& item_documents, nb::handle save_args,
             bool write_digests, bool sync, int thread_count,
             uint64_t memory_bytes, nb::handle progress,
             bool support_rich_types, bool adopt_existing,
             nb::handle use_compression, bool fingerprints) {
        SaveOptions options;
        options.run = RunOf(thread_count, memory_bytes);
        options.zarr_format = zarr_format;
        options.use_ocdbt = use_ocdbt;
        options.compression = CompressionOf(compression);
        options.chunk_bytes = chunk_bytes;
        options.ocdbt_target_data_file_bytes = ocdbt_target_data_file_bytes;
        options.item_custom_metadata = item_custom_metadata;
        options.item_documents = item_documents;
        options.save_args = SaveArgsOf(save_args);
        options.write_digests = write_digests;
        options.sync = sync;
        options.support_rich_types = support_rich_types;
        options.adopt_existing = adopt_existing;
        options.fingerprints = fingerprints;
        if (!use_compression.is_none()) {
          SetCompression(use_compression, options);
        }
        return call(std::move(options), progress, given...);
      },
      own..., nb::arg("zarr_format") = defaults.zarr_format,
      nb::arg("use_ocdbt") = true,
      nb::arg("compression").none() = defaults.compression,
      nb::arg("chunk_bytes") = defaults.chunk_bytes,
      nb::arg("ocdbt_target_data_file_bytes") = int64_t{1} << 31,
      nb::arg("item_custom_metadata") = "", nb::arg("item_documents") = "",
      nb::arg("save_args") = nb::none(), nb::arg("write_digests") = true,
      nb::arg("sync") = true, nb::arg("threads") = 0,
      nb::arg("memory_bytes") = uint64_t{256} << 20,
      nb::arg("progress") = nb::none(), nb::arg("support_rich_types") = false,
      nb::arg("adopt_existing") = false,
      nb::arg("use_compression") = nb::none(), nb::arg("fingerprints") = false);
}

Result<SaveResult> OfDelta(const Result<DeltaResult>& saved,
                           std::string& why_whole) {
  if (!saved.ok()) return saved.status();
  why_whole = saved->why_whole;
  return SaveResult{saved->stats, saved->notes};
}

// Warns that a complete step was saved instead of a delta, because its base is
// damaged.
void WarnWhole(const std::string& destination, const std::string& why_whole) {
  if (why_whole.empty()) return;
  const std::string text = destination +
                           " was saved as a whole step, not as a delta, "
                           "because its base cannot be used: " +
                           why_whole;
  WarnAfterCommit(PyExc_UserWarning, text);
}

Stats BindingSave(SaveOptions options, nb::handle progress, nb::handle path,
                  const BuiltTree& tree, const std::string& format,
                  bool overwrite, const std::string& custom_metadata,
                  const std::string& checkpointable_name,
                  const std::optional<std::string>& also,
                  uint64_t also_shard_bytes_max, Group* group,
                  const std::optional<std::string>& base,
                  std::optional<uint64_t> anchor_every) {
  options.also = AlsoOf(also, also_shard_bytes_max);
  options.format = FormatOf(format);
  options.overwrite = overwrite;
  options.custom_metadata = custom_metadata;
  options.item_documents = tree.item_documents;
  options.checkpointable_name = checkpointable_name;
  const std::string destination = PathOf(path);
  std::string why_whole;
  const Stats stats = RunSave(
      std::move(options), progress,
      [&](const SaveOptions& o) -> Result<SaveResult> {
        if (!base && !anchor_every) return Save(destination, tree.tree, o);
        return OfDelta(
            base ? SaveDelta(destination, tree.tree, *base, o)
                 : SaveInChain(destination, tree.tree, *anchor_every, o),
            why_whole);
      },
      group);
  WarnWhole(destination, why_whole);
  return stats;
}

Stats BindingSaveItem(SaveOptions options, nb::handle progress,
                      nb::handle directory, const BuiltTree& tree,
                      std::optional<uint64_t> anchor_every) {
  const std::string destination = PathOf(directory);
  std::string why_whole;
  const Stats stats =
      RunSave(std::move(options), progress,
              [&](const SaveOptions& o) -> Result<SaveResult> {
                if (!anchor_every) return SaveItem(destination, tree.tree, o);
                return OfDelta(
                    SaveItemInChain(destination, tree.tree, *anchor_every, o),
                    why_whole);
              });
  WarnWhole(destination, why_whole);
  return stats;
}

Stats BindingSaveItemPart(SaveOptions options, nb::handle progress,
                          nb::handle directory, const BuiltTree& tree,
                          int64_t rank, bool is_primary, const std::string& id,
                          const std::string& save_id) {
  const std::string destination = PathOf(directory);
  return RunSave(std::move(options), progress, [&](const SaveOptions& o) {
    return SaveItemPart(destination, tree.tree, o,
                        {rank, is_primary, id, save_id});
  });
}

Stats BindingPendingSaveItem(SaveOptions options, nb::handle progress,
                             GuardedPendingSave& self, const std::string& name,
                             const BuiltTree& tree) {
  return self.SaveItem(name, tree.tree, std::move(options), progress);
}

void BindingFinishItem(nb::handle directory, std::vector<int64_t> ranks,
                       const std::string& save_id, bool use_ocdbt, bool sync,
                       bool write_digests, bool adopt_existing, bool is_partial,
                       bool has_own_trees) {
  const std::string path = PathOf(directory);
  FinishItemOptions options;
  options.ranks = std::move(ranks);
  options.save_id = save_id;
  options.use_ocdbt = use_ocdbt;
  options.sync = sync;
  options.write_digests = write_digests;
  options.adopt_existing = adopt_existing;
  options.is_partial = is_partial;
  options.has_own_trees = has_own_trees;
  RunBlocking({}, nb::none(),
              [&](const RunOptions&) { return FinishItem(path, options); });
}

void BindPendingSave(nb::module_& module) {
  nb::class_<GuardedPendingSave> pending(module, "PendingSave");
  DefineItemSave(pending, "save_item", &BindingPendingSaveItem, {},
                 nb::arg("name"), nb::arg("tree"), nb::kw_only());
  pending
      .def(
          "__init__",
          [](GuardedPendingSave* self, nb::handle path, bool overwrite,
             bool sync, bool write_digests, std::optional<bool> has_marker,
             std::optional<uint32_t> directory_mode, bool takes_empty_directory,
             bool keeps_other_files) {
            PendingSaveOptions options;
            options.takes_empty_directory = takes_empty_directory;
            options.keeps_other_files = keeps_other_files;
            options.overwrite = overwrite;
            options.sync = sync;
            options.write_digests = write_digests;
            if (has_marker) {
              options.commit_mode =
                  *has_marker ? CommitMode::kMarkerFile : CommitMode::kRename;
            }
            options.directory_mode = directory_mode;
            new (self) GuardedPendingSave(PathOf(path), options);
          },
          nb::arg("path"), nb::kw_only(), nb::arg("overwrite") = false,
          nb::arg("sync") = true, nb::arg("write_digests") = true,
          nb::arg("has_marker").none() = nb::none(),
          nb::arg("directory_mode").none() = nb::none(),
          nb::arg("takes_empty_directory") = false,
          nb::arg("keeps_other_files") = false)
      .def_prop_ro("directory",
                   [](const GuardedPendingSave& self) {
                     return ToPythonText(self.directory());
                   })
      .def("write_file", &GuardedPendingSave::WriteFile, nb::arg("name"),
           nb::arg("content"))
      .def("adopt_item", &GuardedPendingSave::AdoptItem, nb::arg("name") = "")
      .def(
          "commit",
          [](GuardedPendingSave& self, const std::string& item_handlers_json,
             const std::string& custom_metadata, bool is_v1) {
            self.Commit({item_handlers_json, custom_metadata, "", is_v1});
          },
          nb::kw_only(), nb::arg("item_handlers_json") = "null",
          nb::arg("custom_metadata") = "", nb::arg("is_v1") = false)
      .def("discard", &GuardedPendingSave::Discard)
      .def("__enter__", [](nb::object self) { return self; })
      .def("__exit__",
           [](GuardedPendingSave& self, const nb::args&) { self.Discard(); });
}

// Returns (name, write_shape, chunk_shape) for each array.
nb::list BindingWriteParams(nb::handle directory, const BuiltTree& tree,
                            bool use_ocdbt, bool use_zarr3,
                            bool use_compression,
                            std::optional<int64_t> ocdbt_target_data_file_size,
                            nb::handle save_args,
                            const std::optional<std::string>& metadata_key,
                            const std::string& process_id, bool is_replica,
                            bool is_partial, bool is_primary) {
  ParamInfo info;
  info.parent_dir = PathOf(directory);
  info.is_ocdbt_checkpoint = use_ocdbt;
  info.use_zarr3 = use_zarr3;
  info.use_compression = use_compression;
  info.ocdbt_target_data_file_size = ocdbt_target_data_file_size;
  const std::map<std::string, SaveArgs> args = SaveArgsOf(save_args);
  const ParamWriteOptions options{metadata_key, process_id, is_replica,
                                  is_partial, is_primary};
  const auto written = RunForResult<std::vector<WrittenParam>>(
      {}, nb::none(), [&](const RunOptions&) {
        return WriteParams(tree.tree, info, args, options);
      });
  nb::list rows;
  for (const WrittenParam& param : written) {
    rows.append(nb::make_tuple(ToPythonText(param.name),
                               ToTuple(param.write_shape),
                               ToTuple(param.chunk_shape)));
  }
  return rows;
}

}  // namespace

void BindSave(nb::module_& module) {
  DefineItemSave(
      module, "save", &BindingSave, {0, uint64_t{8} << 20, "planes"},
      nb::arg("path"), nb::arg("tree"), nb::kw_only(),
      nb::arg("format") = "orbax", nb::arg("overwrite") = false,
      nb::arg("custom_metadata") = "", nb::arg("checkpointable_name") = "state",
      nb::arg("also") = nb::none(), nb::arg("also_shard_bytes_max") = 0,
      nb::arg("group").none() = nb::none(), nb::arg("base") = nb::none(),
      nb::arg("anchor_every") = nb::none());
  DefineItemSave(module, "save_item", &BindingSaveItem, {},
                 nb::arg("directory"), nb::arg("tree"), nb::kw_only(),
                 nb::arg("anchor_every").none() = nb::none());
  DefineItemSave(module, "save_item_part", &BindingSaveItemPart, {},
                 nb::arg("directory"), nb::arg("tree"), nb::kw_only(),
                 nb::arg("rank"), nb::arg("is_primary"), nb::arg("id") = "",
                 nb::arg("save_id") = "");
  module.def("finish_item", &BindingFinishItem, nb::arg("directory"),
             nb::kw_only(), nb::arg("ranks"), nb::arg("save_id") = "",
             nb::arg("use_ocdbt") = true, nb::arg("sync") = true,
             nb::arg("write_digests") = true, nb::arg("adopt_existing") = false,
             nb::arg("is_partial") = false, nb::arg("has_own_trees") = false);
  module.def("write_params", &BindingWriteParams, nb::arg("directory"),
             nb::arg("tree"), nb::kw_only(), nb::arg("use_ocdbt"),
             nb::arg("use_zarr3"), nb::arg("use_compression"),
             nb::arg("ocdbt_target_data_file_size").none(),
             nb::arg("save_args"), nb::arg("metadata_key").none(),
             nb::arg("process_id"), nb::arg("is_replica"),
             nb::arg("is_partial"), nb::arg("is_primary"));
  module.def(
      "merge_process_databases",
      [](nb::handle directory, bool enable_validation) {
        const std::string path = PathOf(directory);
        RunBlocking({}, nb::none(), [&](const RunOptions&) {
          return MergeOcdbtPerProcessFiles(path, {enable_validation});
        });
      },
      nb::arg("directory"), nb::kw_only(),
      nb::arg("enable_validation") = false);
  module.def(
      "is_own_document",
      [](const std::string& name) { return IsOwnDocument(name); },
      nb::arg("name"));
  BindPendingSave(module);
}

}  // namespace holdfast::python
