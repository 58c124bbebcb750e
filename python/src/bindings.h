// Each of these functions adds one file's bindings to the module `_engine`.
// python/holdfast/_engine.pyi describes the interface.
#pragma once

#include <nanobind/nanobind.h>

namespace holdfast::python {

void BindTree(nanobind::module_& module);
void BindDeviceArrays(nanobind::module_& module);
void BindGroup(nanobind::module_& module);
void BindSave(nanobind::module_& module);
void BindCheckpoint(nanobind::module_& module);
void BindConvert(nanobind::module_& module);
void BindSteps(nanobind::module_& module);
void BindPolicies(nanobind::module_& module);
void BindManager(nanobind::module_& module);
void BindItemFiles(nanobind::module_& module);
void BindSpec(nanobind::module_& module);
void BindCompare(nanobind::module_& module);
void BindHistory(nanobind::module_& module);
void BindAggregate(nanobind::module_& module);
void BindMsgpack(nanobind::module_& module);
void BindMegatron(nanobind::module_& module);
void BindPlaces(nanobind::module_& module);
void BindRemote(nanobind::module_& module);
void BindMetrics(nanobind::module_& module);
void BindTorchFile(nanobind::module_& module);
void BindVirtualFiles(nanobind::module_& module);
void BindDeltas(nanobind::module_& module);
void BindTiers(nanobind::module_& module);
void BindFingerprints(nanobind::module_& module);

}  // namespace holdfast::python
