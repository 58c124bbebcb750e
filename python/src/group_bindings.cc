#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "arguments.h"
#include "bindings.h"
#include "errors.h"
#include "group.h"

namespace nb = nanobind;

namespace holdfast::python {
namespace {

// The result of RunForResult for calls that return nothing.
struct Nothing {};

std::string BytesOf(const nb::bytes& value) {
  return std::string(value.c_str(), value.size());
}

void CheckTimeout(double timeout_seconds) {
  if (timeout_seconds >= 0) return;
  ThrowValueError("process group: timeout: got " +
                  std::to_string(timeout_seconds) + " s, want >= 0");
}

ProcessGroupOptions GroupOptionsOf(double timeout_seconds, std::string name) {
  CheckTimeout(timeout_seconds);
  return {.timeout_seconds = timeout_seconds, .name = std::move(name)};
}

void InitGroup(Group* self, nb::object transport, double timeout_seconds,
               std::string name, uint64_t first_call, bool may_follow,
               std::vector<int64_t> members) {
  ProcessGroupOptions options =
      GroupOptionsOf(timeout_seconds, std::move(name));
  options.first_call = first_call;
  options.may_follow = may_follow;
  options.members = std::move(members);
  new (self) Group(std::move(transport), options);
}

void Agree(Group& self, const std::string& phase, nb::handle file,
           nb::handle error) {
  const std::string path = PathOf(file);
  const Status mine = error.is_none() ? Status() : StatusOf(nb::borrow(error));
  self.Run<Nothing>({}, nb::none(), [&](const RunOptions&) -> Result<Nothing> {
    Status all = self.group().Agree({phase, path}, mine);
    if (!all.ok()) return all;
    return Nothing{};
  });
}

nb::list AllGather(Group& self, const std::string& phase, nb::handle file,
                   const nb::bytes& value,
                   std::optional<double> timeout_seconds) {
  if (timeout_seconds) CheckTimeout(*timeout_seconds);
  const std::string path = PathOf(file);
  const std::string mine = BytesOf(value);
  const auto all = self.Run<std::vector<std::string>>(
      {}, nb::none(), [&](const RunOptions&) {
        return self.group().AllGather({phase, path, timeout_seconds}, mine);
      });
  nb::list values;
  for (const std::string& each : all) {
    values.append(nb::bytes(each.data(), each.size()));
  }
  return values;
}

nb::bytes Broadcast(Group& self, const std::string& phase, nb::handle file,
                    int64_t root, const nb::bytes& value) {
  if (root < 0 || root >= self.group().size()) {
    ThrowValueError("broadcast: got root " + std::to_string(root) + " of " +
                    std::to_string(self.group().size()) + " ranks");
  }
  const std::string path = PathOf(file);
  const std::string mine = BytesOf(value);
  const auto got =
      self.Run<std::string>({}, nb::none(), [&](const RunOptions&) {
        return self.group().Broadcast({phase, path}, root, mine);
      });
  return nb::bytes(got.data(), got.size());
}

// Ends a call with the outcome `error`, or None. Raises only KeyboardInterrupt,
// because the caller raises `error` itself.
void EndCall(Group& self, nb::handle error, double wait_seconds_max) {
  const Status mine = error.is_none() ? Status() : StatusOf(nb::borrow(error));
  self.Run<Nothing>({}, nb::none(), [&](const RunOptions&) -> Result<Nothing> {
    self.group().EndCall(mine, wait_seconds_max);
    return Nothing{};
  });
}

nb::list ThreadGroups(int64_t size, double timeout_seconds,
                      const std::string& name) {
  if (size < 1) ThrowValueError("thread_groups: want at least one rank");
  const ProcessGroupOptions options = GroupOptionsOf(timeout_seconds, name);
  nb::list groups;
  for (auto& transport : MakeThreadTransports(size)) {
    groups.append(nb::cast(new Group(std::move(transport), options),
                           nb::rv_policy::take_ownership));
  }
  return groups;
}

}  // namespace

void BindGroup(nb::module_& module) {
  nb::class_<Group>(module, "ProcessGroup")
      .def("__init__", &InitGroup, nb::arg("transport"), nb::kw_only(),
           nb::arg("timeout_seconds") = 600, nb::arg("name") = "holdfast",
           nb::arg("first_call") = 0, nb::arg("may_follow") = true,
           nb::arg("members") = std::vector<int64_t>())
      .def_prop_ro("rank", [](Group& self) { return self.group().rank(); })
      .def_prop_ro("size", [](Group& self) { return self.group().size(); })
      .def_prop_ro("call_number",
                   [](Group& self) { return self.group().call_number(); })
      .def_prop_ro("failed_ranks",
                   [](Group& self) { return self.group().failed_ranks(); })
      .def("begin_call", [](Group& self) { self.group().BeginCall(); })
      .def(
          "end_call", &EndCall, nb::arg("error").none() = nb::none(),
          nb::kw_only(),
          nb::arg("wait_seconds_max") = std::numeric_limits<double>::infinity())
      .def("agree", &Agree, nb::arg("phase"), nb::arg("file") = "",
           nb::arg("error") = nb::none())
      .def("all_gather", &AllGather, nb::arg("phase"), nb::arg("file"),
           nb::arg("value"), nb::arg("timeout_seconds") = nb::none())
      .def("broadcast", &Broadcast, nb::arg("phase"), nb::arg("file"),
           nb::arg("root"), nb::arg("value"));
  module.def("thread_groups", &ThreadGroups, nb::arg("size"), nb::kw_only(),
             nb::arg("timeout_seconds") = 600, nb::arg("name") = "holdfast");
}

}  // namespace holdfast::python
