// Checks the options of a Python manager with the engine's own check.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>

#include <cstdint>
#include <optional>
#include <string>

#include "bindings.h"
#include "errors.h"
#include "holdfast/orbax/checkpoint_manager.h"

namespace nb = nanobind;

namespace holdfast::python {
namespace {

bool IsTrue(nb::handle object) {
  return nb::cast<bool>(nb::bool_(nb::borrow(object)));
}

// Converts the options that the check examines. It needs to know of some
// members only whether they are set.
CheckpointManagerOptions OptionsOf(nb::handle given, const nb::callable& warn) {
  const auto is_set = [&](const char* name) {
    return !nb::object(given.attr(name)).is_none();
  };
  const auto is_true = [&](const char* name) {
    return IsTrue(given.attr(name));
  };
  CheckpointManagerOptions options;
  options.save_interval_steps = std::nullopt;
  if (is_set("save_interval_steps")) {
    options.save_interval_steps = is_true("save_interval_steps") ? 1 : 0;
  }
  if (is_set("max_to_keep")) {
    const nb::object count = given.attr("max_to_keep");
    options.max_to_keep = count < nb::int_(0) ? -1 : 0;
  }
  if (is_set("keep_period")) options.keep_period = 1;
  options.best_mode = nb::str(nb::object(given.attr("best_mode"))).c_str();
  if (is_set("keep_time_interval")) options.keep_time_interval_seconds = 0;
  if (is_set("save_on_steps")) options.save_on_steps = {0};
  if (is_set("preservation_policy")) {
    options.preservation_policy = PreserveAll{};
  }
  if (is_set("todelete_subdir")) options.todelete_subdir = "";
  if (is_set("todelete_full_path")) options.todelete_full_path = "";
  if (is_set("should_save_fn")) {
    options.should_save_fn = [](int64_t, std::optional<int64_t>) {
      return false;
    };
  }
  if (is_true("step_name_format")) {
    // The check needs only this member of a Python format.
    StandardNameOptions format;
    format.single_host_load_and_broadcast =
        IsTrue(nb::getattr(given.attr("step_name_format"),
                           "single_host_load_and_broadcast", nb::none()));
    options.step_name_format = StandardNameFormat(format);
  }
  options.single_host_load_and_broadcast =
      is_true("single_host_load_and_broadcast");
  options.create = is_true("create");
  options.cleanup_tmp_directories = is_true("cleanup_tmp_directories");
  options.read_only = is_true("read_only");
  options.enable_per_process_directory_creation =
      is_true("enable_per_process_directory_creation");
  options.multiprocessing_options.primary_host = nb::cast<std::optional<int>>(
      given.attr("multiprocessing_options").attr("primary_host"));
  options.warn = [warn](const std::string& text) { warn(text.c_str()); };
  return options;
}

// Returns the members that read_only overrides, with their new values.
nb::dict CheckOptions(nb::handle given, const nb::callable& warn) {
  const CheckpointManagerOptions options =
      Check(CheckedManagerOptions(OptionsOf(given, warn)));
  nb::dict members;
  if (!options.read_only) return members;
  members["save_interval_steps"] = options.save_interval_steps;
  members["create"] = options.create;
  members["cleanup_tmp_directories"] = options.cleanup_tmp_directories;
  for (const char* name :
       {"max_to_keep", "keep_time_interval", "keep_period", "save_on_steps",
        "todelete_subdir", "todelete_full_path", "should_save_fn"}) {
    members[name] = nb::none();
  }
  return members;
}

}  // namespace

void BindManager(nb::module_& module) {
  module.def("check_manager_options", &CheckOptions, nb::arg("options"),
             nb::arg("warn"));
}

}  // namespace holdfast::python
