#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <string>

#include "bindings.h"
#include "errors.h"
#include "holdfast/tools/remote.h"

namespace nb = nanobind;

namespace holdfast::python {
namespace {

using AddressStyle = RemoteSettings::AddressStyle;

const char* NameOf(AddressStyle style) {
  switch (style) {
    case AddressStyle::kPath:
      return "path";
    case AddressStyle::kVirtualHost:
      return "virtual";
    case AddressStyle::kAuto:
      return "auto";
  }
  return "auto";
}

AddressStyle StyleOf(const std::string& name) {
  for (const AddressStyle style :
       {AddressStyle::kAuto, AddressStyle::kPath, AddressStyle::kVirtualHost}) {
    if (name == NameOf(style)) return style;
  }
  ThrowValueError("address_style: got '" + name +
                  "', want 'auto', 'path' or 'virtual'");
}

// Calls fn(name, member) for each plain member.
template <typename Settings, typename Fn>
void ForEachSetting(Settings& settings, const Fn& fn) {
  fn("endpoint", settings.endpoint);
  fn("region", settings.region);
  fn("profile", settings.profile);
  fn("anonymous", settings.anonymous);
  fn("requester_pays", settings.requester_pays);
  fn("user_project", settings.user_project);
  fn("requests_in_flight_max", settings.requests_in_flight_max);
  fn("attempt_count_max", settings.attempt_count_max);
  fn("connect_seconds", settings.connect_seconds);
  fn("stall_seconds", settings.stall_seconds);
  fn("request_seconds", settings.request_seconds);
  fn("hedge", settings.hedge);
  fn("ca_bundle", settings.ca_bundle);
}

nb::dict BindingRemoteSettings() {
  const RemoteSettings settings = GetRemoteSettings();
  nb::dict values;
  ForEachSetting(settings, [&](const char* name, const auto& value) {
    values[name] = nb::cast(value);
  });
  values["address_style"] = NameOf(settings.address_style);
  return values;
}

void BindingSetRemoteSettings(const nb::dict& values) {
  RemoteSettings settings;
  ForEachSetting(settings, [&](const char* name, auto& value) {
    using Value = std::decay_t<decltype(value)>;
    if (!nb::try_cast<Value>(values[name], value)) {
      ThrowValueError(std::string("remote settings: ") + name +
                      ": wrong type, want the type of the default");
    }
  });
  settings.address_style =
      StyleOf(nb::cast<std::string>(nb::str(values["address_style"])));
  Check(SetRemoteSettings(settings));
}

nb::dict BindingRemoteCounters() {
  const RemoteCounters counters = GetRemoteCounters();
  nb::dict values;
  values["requests"] = counters.requests;
  values["attempts"] = counters.attempts;
  values["retries"] = counters.retries;
  values["throttled"] = counters.throttled;
  values["hedges"] = counters.hedges;
  values["hedge_bytes"] = counters.hedge_bytes;
  values["connections"] = counters.connections;
  values["sent_bytes"] = counters.sent_bytes;
  values["received_bytes"] = counters.received_bytes;
  return values;
}

void BindingSetLibcurlPath(const std::string& path) { SetLibcurlPath(path); }

}  // namespace

void BindRemote(nb::module_& module) {
  module.def("remote_settings", &BindingRemoteSettings);
  module.def("set_remote_settings", &BindingSetRemoteSettings,
             nb::arg("values"));
  module.def("remote_counters", &BindingRemoteCounters);
  module.def("set_libcurl_path", &BindingSetLibcurlPath, nb::arg("path"));
}

}  // namespace holdfast::python
