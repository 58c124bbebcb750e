// Deltas in memory: patches, and arrays that follow a run.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "arguments.h"
#include "bindings.h"
#include "blocking.h"
#include "errors.h"
#include "holdfast/delta.h"
#include "numpy_arrays.h"
#include "tree_output.h"

namespace nb = nanobind;

namespace holdfast::python {
namespace {

// A follower, and the arrays into whose memory it writes.
class PythonFollower {
 public:
  PythonFollower(nb::handle root, nb::handle arrays, int thread_count,
                 uint64_t memory_bytes) {
    std::vector<Follower::Target> targets;
    for (const nb::handle item : nb::borrow<nb::iterable>(arrays)) {
      nb::object array = item[1];
      targets.push_back(
          {nb::cast<std::string>(nb::object(item[0])), WritableViewOf(array)});
      arrays_.push_back(std::move(array));
    }
    follower_ = std::make_unique<Follower>(PathOf(root), std::move(targets),
                                           RunOf(thread_count, memory_bytes));
  }

  nb::object Poll() {
    const auto update = RunForResult<std::optional<Follower::Update>>(
        {}, nb::none(), [&](const RunOptions&) { return follower_->Poll(); });
    if (!update) return nb::none();
    nb::list changed;
    for (const std::string& name : update->changed) {
      changed.append(ToPythonText(name));
    }
    return nb::make_tuple(update->step, ToPythonText(update->path),
                          update->delta_count, update->read_bytes, changed);
  }

  std::optional<int64_t> step() const { return follower_->step(); }

 private:
  std::vector<nb::object> arrays_;
  std::unique_ptr<Follower> follower_;
};

// Reads all patches in one call, because an iterator would keep the files open
// between calls.
nb::list BindingReadPatches(nb::handle path, int thread_count,
                            uint64_t memory_bytes, nb::handle progress) {
  const std::string from = PathOf(path);
  std::vector<ArrayPatch> patches;
  RunBlocking(RunOf(thread_count, memory_bytes), progress,
              [&](const RunOptions& run) {
                return ReadPatches(
                    from,
                    [&](ArrayPatch patch) {
                      patches.push_back(std::move(patch));
                      return Status();
                    },
                    run);
              });
  nb::list list;
  for (ArrayPatch& patch : patches) {
    const auto count = static_cast<int64_t>(patch.indices.size());
    const Array indices =
        Array::FromBytes(DType::kInt64, {count}, patch.indices.data());
    list.append(nb::make_tuple(ToPythonText(patch.name), ToTuple(patch.shape),
                               ToNumpy(indices),
                               ToNumpy(std::move(patch.values), patch.name)));
  }
  return list;
}

}  // namespace

void BindDeltas(nb::module_& module) {
  nb::class_<PythonFollower>(module, "Follower")
      .def(nb::init<nb::handle, nb::handle, int, uint64_t>(), nb::arg("root"),
           nb::arg("arrays"), nb::kw_only(), nb::arg("threads") = 0,
           nb::arg("memory_bytes") = uint64_t{256} << 20)
      .def("poll", &PythonFollower::Poll)
      .def_prop_ro("step", &PythonFollower::step);
  module.def("read_patches", &BindingReadPatches, nb::arg("path"),
             nb::kw_only(), nb::arg("threads") = 0,
             nb::arg("memory_bytes") = uint64_t{256} << 20,
             nb::arg("progress") = nb::none());
}

}  // namespace holdfast::python
