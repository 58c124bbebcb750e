// TieredManager, its options and its results.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "arguments.h"
#include "bindings.h"
#include "blocking.h"
#include "errors.h"
#include "gil.h"
#include "group.h"
#include "holdfast/tiers/tiered_manager.h"
#include "python_checkpoint.h"
#include "tree_builder.h"
#include "tree_output.h"

namespace nb = nanobind;

namespace holdfast::python {
namespace {

// Returns an owner of `object` that engine threads, which do not hold the GIL,
// can release.
std::shared_ptr<const nb::object> HeldObject(nb::object object) {
  return {new nb::object(std::move(object)), [](const nb::object* held) {
            if (IsPythonEnding()) return;  // the object ends with the process
            const GilAcquire acquire;
            delete held;
          }};
}

std::function<void(const std::string&)> WarnOf(nb::handle warn) {
  if (warn.is_none()) return {};
  return [held = HeldObject(nb::borrow(warn))](const std::string& text) {
    if (IsPythonEnding()) return;
    const GilAcquire acquire;
    try {
      StayingAtTheEnd([&] { (*held)(ToPythonText(text)); });
    } catch (nb::python_error& error) {
      error.discard_as_unraisable(*held);
    }
  };
}

// TieredManager with the guards that Python needs. A forked child does not have
// the manager's threads, so there it refuses to work and is not destroyed.
class PythonTieredManager {
 public:
  PythonTieredManager(const TieredManagerOptions& options, Group* group)
      : manager_(RunInGroup<std::unique_ptr<TieredManager>>(
            group, {}, nb::none(), [&](const RunOptions&) {
              return TieredManager::Make(options, ProcessGroupOf(group));
            })) {}
  ~PythonTieredManager() {
    if (getpid() != owner_) static_cast<void>(manager_.release());
    // The saving thread may be waiting for the GIL.
    const GilRelease release;
    manager_.reset();
  }
  PythonTieredManager(const PythonTieredManager&) = delete;
  PythonTieredManager& operator=(const PythonTieredManager&) = delete;

  bool ShouldSave(int64_t step) const { return manager().ShouldSave(step); }

  bool Save(int64_t step, nb::object tree, bool force,
            std::optional<bool> is_shared, nb::handle files) {
    TieredSaveOptions options;
    options.force = force;
    options.is_shared = is_shared;
    for (const auto [path, content] : nb::cast<nb::dict>(files)) {
      const auto bytes = nb::cast<nb::bytes>(content);
      options.files[nb::cast<std::string>(path)] =
          std::string(bytes.c_str(), bytes.size());
    }
    const Tree& built = nb::cast<const BuiltTree&>(tree).tree;
    options.owner = HeldObject(std::move(tree));
    return RunForResult<bool>({}, nb::none(), [&](const RunOptions&) {
      return manager().Save(step, built, options);
    });
  }

  void FailSave(int64_t step, nb::handle error) {
    TieredSaveOptions options;
    options.force = true;
    options.failure = StatusOf(error);
    RunBlocking({}, nb::none(), [&](const RunOptions&) {
      return manager().Save(step, Tree::None(), options).status();
    });
  }

  void WaitProtected() {
    RunBlocking({}, nb::none(),
                [&](const RunOptions&) { return manager().WaitProtected(); });
  }
  void Wait() {
    RunBlocking({}, nb::none(),
                [&](const RunOptions&) { return manager().Wait(); });
  }

  // Calls `read(facts, checkpoint)` on the caller's own thread, because `read`
  // may need thread-local state such as JAX's default device or mesh. An
  // interrupt of `read` also interrupts the restore.
  TierRestore Restore(nb::handle read, std::optional<int64_t> step) {
    nb::object raised;
    Result<TierRestore> restored = InternalError("nothing has run");
    TieredManager& manager = this->manager();
    {
      const GilRelease release;
      restored = manager.Restore(
          [&](const TierRestore& restore) -> Status {
            const GilAcquire acquire;
            try {
              raised.reset();
              StayingAtTheEnd([&] {
                read(restore, PythonCheckpoint{restore.checkpoint, {}});
              });
              return Status();
            } catch (nb::python_error& error) {
              raised = nb::borrow(error.value());
              return StatusOf(raised);
            }
          },
          step);
    }
    if (restored.ok()) return *std::move(restored);
    // Raise the exception of `read` itself if it ended the restore. If its step
    // was only skipped, the Status has its text.
    if (raised.is_valid() &&
        restored.status().code() != StatusCode::kNotFound &&
        restored.status().code() == StatusOf(raised).code()) {
      PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(raised.ptr())),
                      raised.ptr());
      nb::raise_python_error();
    }
    throw StatusError(restored.status());
  }

  nb::bytes ReadFile(const std::string& path) {
    const auto content = RunForResult<std::string>(
        {}, nb::none(),
        [&](const RunOptions&) { return manager().ReadFile(path); });
    return nb::bytes(content.data(), content.size());
  }

  nb::list Steps() {
    const auto steps = RunForResult<std::vector<TierStepInfo>>(
        {}, nb::none(), [&](const RunOptions&) { return manager().Steps(); });
    nb::list result;
    for (const TierStepInfo& step : steps) result.append(step);
    return result;
  }

  TierStats stats() const {
    return manager_ == nullptr ? last_stats_ : manager_->stats();
  }

  // Closes the manager, so that another manager may use the directory.
  void Close() {
    if (manager_ == nullptr || getpid() != owner_) return;
    Status status;
    RunBlocking({}, nb::none(), [&](const RunOptions&) {
      status = manager_->Close();
      last_stats_ = manager_->stats();
      manager_.reset();
      return Status();
    });
    Check(status);
  }

 private:
  TieredManager& manager() const {
    if (manager_ == nullptr) {
      throw StatusError(
          FailedPreconditionError("tiered manager: it is closed"));
    }
    if (getpid() != owner_) {
      throw StatusError(FailedPreconditionError(
          "tiered manager: it belongs to the parent of this process"));
    }
    return *manager_;
  }

  const pid_t owner_ = getpid();
  std::unique_ptr<TieredManager> manager_;  // null once it is closed
  TierStats last_stats_;
};

template <typename Options>
void DefDirectory(nb::class_<Options>& bound) {
  bound.def_prop_rw(
      "directory",
      [](const Options& self) { return ToPythonText(self.directory); },
      [](Options& self, nb::handle path) { self.directory = PathOf(path); });
}

void BindTierOptions(nb::module_& module) {
  nb::class_<LocalTierOptions> local(module, "LocalTierOptions");
  local.def(nb::init<>())
      .def_rw("save_every", &LocalTierOptions::save_every)
      .def_rw("max_to_keep", &LocalTierOptions::max_to_keep)
      .def_rw("bytes_max", &LocalTierOptions::bytes_max);
  DefDirectory(local);
  nb::class_<SharedTierOptions> shared(module, "SharedTierOptions");
  shared.def(nb::init<>())
      .def_rw("save_every", &SharedTierOptions::save_every)
      .def_rw("max_to_keep", &SharedTierOptions::max_to_keep,
              nb::for_setter(nb::arg("value").none()))
      .def_rw("bytes_per_second_max", &SharedTierOptions::bytes_per_second_max);
  DefDirectory(shared);
  nb::class_<ParityOptions>(module, "ParityOptions")
      .def(nb::init<>())
      .def_rw("data_shards", &ParityOptions::data_shards)
      .def_rw("parity_shards", &ParityOptions::parity_shards)
      .def_rw("failure_domain", &ParityOptions::failure_domain)
      .def_rw("block_bytes", &ParityOptions::block_bytes)
      .def_rw("bytes_per_second_max", &ParityOptions::bytes_per_second_max);
  using Options = TieredManagerOptions;
  nb::class_<Options>(module, "TieredManagerOptions")
      .def(nb::init<>())
      .def_rw("run", &Options::run)
      .def_rw("local", &Options::local)
      .def_rw("shared", &Options::shared)
      .def_rw("parity", &Options::parity)
      .def_rw("item", &Options::item)
      .def_rw("host", &Options::host)
      .def_rw("listen_address", &Options::listen_address)
      .def_rw("port", &Options::port)
      .def_rw("timeout_seconds", &Options::timeout_seconds)
      .def_rw("answer_seconds_max", &Options::answer_seconds_max)
      .def_rw("peer_threads", &Options::peer_threads)
      .def(
          "set_save",
          [](Options& self, int zarr_format, bool use_ocdbt,
             const std::optional<std::string>& compression,
             uint64_t chunk_bytes, int64_t ocdbt_target_data_file_bytes,
             bool sync, bool fingerprints, int thread_count,
             uint64_t memory_bytes) {
            self.save.zarr_format = zarr_format;
            self.save.use_ocdbt = use_ocdbt;
            self.save.compression = CompressionOf(compression);
            self.save.chunk_bytes = chunk_bytes;
            self.save.ocdbt_target_data_file_bytes =
                ocdbt_target_data_file_bytes;
            self.save.sync = sync;
            self.save.fingerprints = fingerprints;
            self.save.run = RunOf(thread_count, memory_bytes);
          },
          nb::kw_only(), nb::arg("zarr_format"), nb::arg("use_ocdbt"),
          nb::arg("compression").none(), nb::arg("chunk_bytes"),
          nb::arg("ocdbt_target_data_file_bytes"), nb::arg("sync"),
          nb::arg("fingerprints"), nb::arg("threads"), nb::arg("memory_bytes"));
}

void BindTierAnswers(nb::module_& module) {
  nb::class_<TierStats>(module, "TierStats")
      .def_ro("data_bytes", &TierStats::data_bytes)
      .def_ro("parity_bytes", &TierStats::parity_bytes)
      .def_ro("received_bytes", &TierStats::received_bytes)
      .def_ro("write_seconds", &TierStats::write_seconds)
      .def_ro("protect_seconds", &TierStats::protect_seconds)
      .def_ro("drain_seconds", &TierStats::drain_seconds)
      .def_ro("drained_bytes", &TierStats::drained_bytes);
  nb::class_<TierStepInfo>(module, "TierStepInfo")
      .def_ro("step", &TierStepInfo::step)
      .def_ro("epoch", &TierStepInfo::epoch)
      .def_ro("is_local", &TierStepInfo::is_local)
      .def_ro("is_protected", &TierStepInfo::is_protected)
      .def_ro("is_shared", &TierStepInfo::is_shared);
  nb::class_<TierRestore>(module, "TierRestore")
      .def_ro("step", &TierRestore::step)
      .def_prop_ro("source",
                   [](const TierRestore& r) { return ToPythonText(r.source); })
      .def_prop_ro("id",
                   [](const TierRestore& r) { return ToPythonText(r.id); })
      .def_prop_ro("notes",
                   [](const TierRestore& r) { return ToPythonTexts(r.notes); })
      .def_ro("rebuilt_ranks", &TierRestore::rebuilt_ranks)
      .def_ro("healed_block_count", &TierRestore::healed_block_count)
      .def_ro("peer_bytes", &TierRestore::peer_bytes);
}

}  // namespace

void BindTiers(nb::module_& module) {
  BindTierOptions(module);
  BindTierAnswers(module);
  using M = PythonTieredManager;
  nb::class_<M>(module, "TieredManager")
      .def(
          "__init__",
          [](M* self, const TieredManagerOptions& options, Group* group,
             nb::handle warn) {
            TieredManagerOptions given = options;
            given.warn = WarnOf(warn);
            new (self) M(given, group);
          },
          nb::arg("options"), nb::kw_only(),
          nb::arg("group").none() = nb::none(),
          nb::arg("warn").none() = nb::none())
      .def("should_save", &M::ShouldSave, nb::arg("step"))
      .def("save", &M::Save, nb::arg("step"), nb::arg("tree"), nb::kw_only(),
           nb::arg("force") = false, nb::arg("is_shared").none() = nb::none(),
           nb::arg("files") = nb::dict())
      .def("fail_save", &M::FailSave, nb::arg("step"), nb::arg("error"))
      .def("wait_protected", &M::WaitProtected)
      .def("wait", &M::Wait)
      .def("restore", &M::Restore, nb::arg("read"),
           nb::arg("step").none() = nb::none())
      .def("read_file", &M::ReadFile, nb::arg("path"))
      .def("steps", &M::Steps)
      .def("stats", &M::stats)
      .def("close", &M::Close);
}

}  // namespace holdfast::python
