// doctor: finds out what is wrong with an object store.

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "cli/failures.h"
#include "cli/json_out.h"
#include "cli/units.h"
#include "cli/verbs.h"
#include "holdfast/tools/remote.h"

namespace holdfast::cli {
namespace {

struct DoctorArgs : Args {
  DiagnoseOptions doctor;

  template <typename Fn>
  void Fields(const Fn& fn) {
    Args::Fields(fn);
    fn("read_only", doctor.read_only);
  }
};

std::string Milliseconds(double seconds) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f ms", seconds * 1000);
  return text;
}

std::string PerSecond(double bytes) {
  return HumanBytes(static_cast<uint64_t>(bytes)) + "/s";
}

std::string SkewText(double seconds) {
  char text[64];
  std::snprintf(text, sizeof(text), "%.1f s %s ours", std::abs(seconds),
                seconds < 0 ? "behind" : "ahead of");
  return text;
}

void PrintLine(const std::string& label, const std::string& value,
               std::ostream& out) {
  if (value.empty()) return;
  std::string padded = label;
  padded.resize(std::max<size_t>(padded.size() + 1, 20), ' ');
  out << padded << PrintableText(value) << '\n';
}

const char* ColorOf(CheckOutcome outcome) {
  switch (outcome) {
    case CheckOutcome::kFine:
      return "\x1b[32m";
    case CheckOutcome::kWarning:
      return "\x1b[33m";
    case CheckOutcome::kFailed:
      return "\x1b[31m";
    case CheckOutcome::kSkipped:
      return "\x1b[2m";
  }
  return "";
}

void PrintDiagnosisText(const Diagnosis& found, const DoctorArgs& args,
                        Env& env) {
  std::ostream& out = env.out;
  if (!args.quiet) {
    PrintLine("url", found.url, out);
    PrintLine("endpoint", found.endpoint, out);
    PrintLine("region", found.region, out);
    PrintLine("credentials", found.credentials, out);
    PrintLine("libcurl", found.libcurl, out);
    PrintLine("certificates", found.ca_bundle, out);
    if (found.latency_seconds > 0) {
      PrintLine("latency", Milliseconds(found.latency_seconds), out);
    }
    if (found.read_bytes_per_second > 0) {
      PrintLine("read", PerSecond(found.read_bytes_per_second), out);
    }
    if (found.write_bytes_per_second > 0) {
      PrintLine("write", PerSecond(found.write_bytes_per_second), out);
    }
    if (found.has_clock) {
      PrintLine("server's clock", SkewText(found.clock_skew_seconds), out);
    }
    out << '\n';
  }
  const bool color = UseColor(args, env);
  for (const RemoteCheck& check : found.checks) {
    std::string name = check.name;
    name.resize(std::max<size_t>(name.size() + 1, 20), ' ');
    std::string outcome(CheckOutcomeName(check.outcome));
    outcome.resize(9, ' ');
    out << name << (color ? ColorOf(check.outcome) : "") << outcome
        << (color ? "\x1b[0m" : "") << PrintableText(check.text) << '\n';
  }
}

void PrintDiagnosisJson(const Diagnosis& found, std::ostream& out) {
  JsonWriter json(out);
  json.BeginObject();
  json.Field("url", found.url);
  json.Field("ok", !found.has_failed());
  json.Field("store", found.store);
  json.Field("endpoint", found.endpoint);
  json.Field("region", found.region);
  json.Field("credentials", found.credentials);
  json.Field("libcurl", found.libcurl);
  json.Field("ca_bundle", found.ca_bundle);
  json.Field("latency_seconds", found.latency_seconds);
  json.Field("read_bytes_per_second", found.read_bytes_per_second);
  json.Field("write_bytes_per_second", found.write_bytes_per_second);
  if (found.has_clock) {
    json.Field("clock_skew_seconds", found.clock_skew_seconds);
  } else {
    json.NullField("clock_skew_seconds");
  }
  json.Key("checks");
  json.BeginArray();
  for (const RemoteCheck& check : found.checks) {
    json.BeginObject();
    json.Field("name", check.name);
    json.Field("outcome", CheckOutcomeName(check.outcome));
    json.Field("text", check.text);
    json.EndObject();
  }
  json.EndArray();
  json.EndObject();
  out << '\n';
}

int RunDoctor(const DoctorArgs& args, Env& env) {
  DiagnoseOptions options = args.doctor;
  options.cancel = env.cancel;
  const auto found = Diagnose(args.operands[0], options);
  if (!found.ok()) return Fail(env, found.status());
  if (args.json) {
    PrintDiagnosisJson(*found, env.out);
  } else {
    PrintDiagnosisText(*found, args, env);
  }
  return found->has_failed() ? kExitFailure : kExitFine;
}

}  // namespace

int RunDoctor(const Words& words, Env& env) {
  return RunFilled<DoctorArgs>(words, env, RunDoctor);
}

}  // namespace holdfast::cli
