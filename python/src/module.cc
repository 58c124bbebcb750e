// The module `holdfast._engine`.
#include <nanobind/nanobind.h>

#include "bindings.h"
#include "errors.h"
#include "gil.h"
#include "holdfast/options.h"
#include "holdfast/read_again.h"
#include "holdfast/version.h"
#include "numpy_arrays.h"

namespace nb = nanobind;

NB_MODULE(_engine, module) {
  using holdfast::Stats;
  holdfast::python::ImportNumpy();
  holdfast::python::RegisterErrors();
  holdfast::python::StayWherePythonEndsThreads();
  // Arrays may outlive the module at interpreter exit; that is not a leak.
  nb::set_leak_warnings(false);

  nb::class_<Stats>(module, "Stats")
      .def(nb::init<>())
      .def_ro("plan_seconds", &Stats::plan_seconds)
      .def_ro("transfer_seconds", &Stats::transfer_seconds)
      .def_ro("sync_seconds", &Stats::sync_seconds)
      .def_ro("commit_seconds", &Stats::commit_seconds)
      .def_ro("total_seconds", &Stats::total_seconds)
      .def_ro("decoded_bytes", &Stats::decoded_bytes)
      .def_ro("mapped_bytes", &Stats::mapped_bytes)
      .def_ro("stored_bytes", &Stats::stored_bytes)
      .def_ro("chunk_count", &Stats::chunk_count)
      .def_ro("memory_bytes_peak", &Stats::memory_bytes_peak)
      .def_ro("fingerprint_count", &Stats::fingerprint_count)
      .def_ro("device_decoded_bytes", &Stats::device_decoded_bytes);
  holdfast::python::BindTree(module);
  holdfast::python::BindDeviceArrays(module);
  holdfast::python::BindGroup(module);
  holdfast::python::BindSave(module);
  holdfast::python::BindCheckpoint(module);
  holdfast::python::BindConvert(module);
  holdfast::python::BindSteps(module);
  holdfast::python::BindPolicies(module);
  holdfast::python::BindManager(module);
  holdfast::python::BindItemFiles(module);
  holdfast::python::BindSpec(module);
  holdfast::python::BindCompare(module);
  holdfast::python::BindHistory(module);
  holdfast::python::BindAggregate(module);
  holdfast::python::BindMsgpack(module);
  holdfast::python::BindMegatron(module);
  holdfast::python::BindPlaces(module);
  holdfast::python::BindRemote(module);
  holdfast::python::BindMetrics(module);
  holdfast::python::BindTorchFile(module);
  holdfast::python::BindVirtualFiles(module);
  holdfast::python::BindDeltas(module);
  holdfast::python::BindTiers(module);
  holdfast::python::BindFingerprints(module);
  module.attr("version") = HOLDFAST_VERSION;
  module.attr("READS_MAX") = holdfast::kReadsMax;
  module.attr("processor_features") =
      std::string(holdfast::ProcessorFeatures());
}
