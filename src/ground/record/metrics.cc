// GetMetrics and MetricsText of holdfast/tools/metrics.h.
#include "holdfast/tools/metrics.h"

#include <cstdio>
#include <iterator>
#include <utility>

#include "ground/record/recorder.h"
#include "ground/record/request_counts.h"

namespace holdfast {
namespace {

struct NamedCount {
  Count count;
  const char* name;
  const char* help;
};
constexpr NamedCount kCounts[] = {
    {Count::kSaves, "saves", "Saves that have ended."},
    {Count::kLoads, "loads", "Loads that have ended."},
    {Count::kConversions, "conversions", "Conversions that have ended."},
    {Count::kCopies, "copies", "Copies that have ended."},
    {Count::kFailures, "failures",
     "Saves, loads, conversions and copies that "
     "have failed."},
    {Count::kStalls, "stalls", "Ranks and objects that were named as late."},
};
static_assert(std::size(kCounts) == kCountCount);

struct NamedRequestCount {
  uint64_t RemoteCounters::* count;
  const char* name;
  const char* help;
};
constexpr NamedRequestCount kRequestCounts[] = {
    {&RemoteCounters::requests, "requests", "Requests to object stores."},
    {&RemoteCounters::attempts, "attempts", "Attempts of requests."},
    {&RemoteCounters::retries, "retries", "Attempts after a failed one."},
    {&RemoteCounters::throttled, "throttled", "Answers 429 and 503."},
    {&RemoteCounters::hedges, "hedges", "Second copies of slow requests."},
    {&RemoteCounters::hedge_bytes, "hedge_bytes", "Bytes received twice."},
    {&RemoteCounters::connections, "connections", "Connections made."},
    {&RemoteCounters::sent_bytes, "sent_bytes", "Bytes of bodies sent."},
    {&RemoteCounters::received_bytes, "received_bytes",
     "Bytes of bodies received."},
};

std::string NumberText(double number) {
  char text[40];
  std::snprintf(text, sizeof text, "%.9g", number);
  return text;
}

void AddFamily(const std::string& name, const char* type, const char* help,
               std::string& out) {
  out += "# TYPE " + name + " " + type + "\n# HELP " + name + " " + help + "\n";
}

void AddCounter(const char* name, const char* help, uint64_t count,
                std::string& out) {
  const std::string family = std::string("holdfast_") + name;
  AddFamily(family, "counter", help, out);
  out += family + "_total " + std::to_string(count) + "\n";
}

void AddHistogram(std::string_view phase, const PhaseSums& sums,
                  std::string& out) {
  const std::string label = "phase=\"" + std::string(phase) + "\"";
  uint64_t sum = 0;
  for (int i = 0; i < PhaseSums::kBuckets; ++i) {
    sum += sums.counts[static_cast<size_t>(i)];
    const bool is_last = i + 1 == PhaseSums::kBuckets;
    out += "holdfast_phase_seconds_bucket{" + label + ",le=\"" +
           (is_last ? "+Inf" : NumberText(PhaseSums::UpperSeconds(i))) +
           "\"} " + std::to_string(sum) + "\n";
  }
  out += "holdfast_phase_seconds_count{" + label + "} " + std::to_string(sum) +
         "\nholdfast_phase_seconds_sum{" + label + "} " +
         NumberText(static_cast<double>(sums.total_ns) / 1e9) + "\n";
}

template <typename Fn>
void ForEachPhase(const Fn& fn) {
  const auto all = Recorder::Get().phase_sums();
  for (int i = 0; i < kPhaseCount; ++i) {
    const PhaseSums& sums = all[static_cast<size_t>(i)];
    if (sums.event_count() > 0) fn(PhaseName(static_cast<Phase>(i)), sums);
  }
}

}  // namespace

std::string MetricsText() {
  std::string out;
  const Recorder& recorder = Recorder::Get();
  for (const NamedCount& named : kCounts) {
    AddCounter(named.name, named.help, recorder.count(named.count), out);
  }
  const RemoteCounters requests = RequestCounts::OfProcess().Read();
  for (const NamedRequestCount& named : kRequestCounts) {
    AddCounter(named.name, named.help, requests.*named.count, out);
  }
  AddFamily("holdfast_phase_bytes", "counter", "Bytes that a phase moved.",
            out);
  ForEachPhase([&](std::string_view phase, const PhaseSums& sums) {
    out += "holdfast_phase_bytes_total{phase=\"" + std::string(phase) + "\"} " +
           std::to_string(sums.byte_count) + "\n";
  });
  AddFamily("holdfast_phase_seconds", "histogram",
            "Seconds that a phase took, of each chunk, batch or request.", out);
  ForEachPhase([&](std::string_view phase, const PhaseSums& sums) {
    AddHistogram(phase, sums, out);
  });
  return out + "# EOF\n";
}

std::map<std::string, double> GetMetrics() {
  std::map<std::string, double> numbers;
  const Recorder& recorder = Recorder::Get();
  for (const NamedCount& named : kCounts) {
    numbers[named.name] = static_cast<double>(recorder.count(named.count));
  }
  const RemoteCounters requests = RequestCounts::OfProcess().Read();
  for (const NamedRequestCount& named : kRequestCounts) {
    numbers[named.name] = static_cast<double>(requests.*named.count);
  }
  ForEachPhase([&](std::string_view phase, const PhaseSums& sums) {
    const std::string name(phase);
    numbers[name + "_count"] = static_cast<double>(sums.event_count());
    numbers[name + "_seconds"] = static_cast<double>(sums.total_ns) / 1e9;
    numbers[name + "_bytes"] = static_cast<double>(sums.byte_count);
  });
  return numbers;
}

}  // namespace holdfast
