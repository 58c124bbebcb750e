#include "ground/record/outputs.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <utility>

#include "ground/base/clock.h"
#include "ground/base/no_throw.h"
#include "ground/base/utf8.h"
#include "holdfast/tools/metrics.h"

namespace holdfast {
namespace {

// The tail ends the file after every call; the next call overwrites the tail.
constexpr std::string_view kTraceHead = "{\"traceEvents\":[\n";
constexpr std::string_view kTraceTail = "\n]}\n";

std::atomic<int64_t> output_rank{0};
std::atomic<bool> is_trace_wanted{false};
std::atomic<bool> is_metrics_wanted{false};

struct Outputs {
  std::mutex mutex;
  std::string trace_pattern;
  std::string metrics_pattern;
  int fd = -1;      // of the trace
  int64_t pid = 0;  // of the owner: a forked child opens its own
  int64_t end = 0;  // where the tail begins
  bool is_first = true;
  bool has_complained = false;
};

Outputs& TheOutputs() {
  static auto* const outputs = new Outputs;
  return *outputs;
}

std::string Expanded(const std::string& pattern) {
  std::string path;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char next = i + 1 < pattern.size() ? pattern[i + 1] : '\0';
    if (pattern[i] != '%' || (next != 'p' && next != 'r')) {
      path += pattern[i];
      continue;
    }
    path += std::to_string(next == 'p' ? static_cast<int64_t>(::getpid())
                                       : output_rank.load());
    ++i;
  }
  return path;
}

// REQUIRES: the mutex is held.
void Complain(Outputs& outputs, const char* what, const std::string& path) {
  if (outputs.has_complained) return;
  outputs.has_complained = true;
  const std::string line = "holdfast: " + std::string(what) + " " + path +
                           " cannot be written: " + std::strerror(errno) + "\n";
  (void)!::write(STDERR_FILENO, line.data(), line.size());
}

bool WriteAllAt(int fd, std::string_view text, int64_t offset) {
  while (!text.empty()) {
    const ssize_t count = ::pwrite(fd, text.data(), text.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    text.remove_prefix(static_cast<size_t>(count));
    offset += count;
  }
  return true;
}

void AppendMicroseconds(int64_t ns, std::string& out) {
  char text[40];
  std::snprintf(text, sizeof text, "%lld.%03lld",
                static_cast<long long>(ns / 1000),
                static_cast<long long>(ns % 1000));
  out += text;
}

void AppendJsonString(std::string_view text, std::string& out) {
  out += '"';
  const bool is_utf8 = IsValidUtf8(text);
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || (byte >= 0x80 && !is_utf8)) {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\u%04x", byte);
      out += escaped;
    } else {
      out += c;
    }
  }
  out += '"';
}

// REQUIRES: the mutex is held.
bool OpenTrace(Outputs& outputs) {
  const int64_t pid = ::getpid();
  if (outputs.fd >= 0 && outputs.pid == pid) return true;
  if (outputs.fd >= 0) ::close(outputs.fd);
  const std::string path = Expanded(outputs.trace_pattern);
  outputs.fd =
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (outputs.fd < 0) {
    Complain(outputs, "trace", path);
    return false;
  }
  outputs.pid = pid;
  outputs.end = static_cast<int64_t>(kTraceHead.size());
  outputs.is_first = true;
  return WriteAllAt(outputs.fd, kTraceHead, 0);
}

std::string ProcessLine(int64_t pid) {
  return "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":" +
         std::to_string(pid) + ",\"args\":{\"name\":\"holdfast rank " +
         std::to_string(output_rank.load()) + "\"}}";
}

// REQUIRES: the mutex is held.
void WriteTrace(Outputs& outputs) {
  if (outputs.trace_pattern.empty() || !OpenTrace(outputs)) return;
  uint64_t lost_count = 0;
  const std::vector<PhaseEvent> events = Recorder::Get().TakeEvents(lost_count);
  const int64_t steady_to_system_ns = SystemNowNs() - SteadyNowNs();
  std::string text;
  if (outputs.is_first) text += ProcessLine(outputs.pid);
  outputs.is_first = false;
  for (const PhaseEvent& event : events) {
    text += ",\n";
    text += TraceLine(event, outputs.pid, steady_to_system_ns);
  }
  if (lost_count > 0) {
    text += ",\n{\"name\":\"" + std::to_string(lost_count) +
            " phases left out\",\"ph\":\"i\",\"s\":\"p\",\"pid\":" +
            std::to_string(outputs.pid) + ",\"tid\":0,\"ts\":";
    AppendMicroseconds(SystemNowNs(), text);
    text += "}";
  }
  const auto byte_count = static_cast<int64_t>(text.size());
  text += kTraceTail;
  if (!WriteAllAt(outputs.fd, text, outputs.end)) {
    Complain(outputs, "trace", Expanded(outputs.trace_pattern));
    return;
  }
  outputs.end += byte_count;
}

// REQUIRES: the mutex is held.
void WriteMetrics(Outputs& outputs) {
  if (outputs.metrics_pattern.empty()) return;
  const std::string path = Expanded(outputs.metrics_pattern);
  const std::string grown = path + "." + std::to_string(::getpid()) + ".tmp";
  const int fd =
      ::open(grown.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  bool is_written = fd >= 0 && WriteAllAt(fd, MetricsText(), 0);
  if (fd >= 0) ::close(fd);
  is_written = is_written && ::rename(grown.c_str(), path.c_str()) == 0;
  if (is_written) return;
  Complain(outputs, "metrics", path);
  if (fd >= 0) ::unlink(grown.c_str());
}

std::string FromEnvironment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

std::string TraceLine(const PhaseEvent& event, int64_t pid,
                      int64_t steady_to_system_ns) {
  std::string line =
      "{\"name\":\"" + std::string(PhaseName(event.phase)) +
      "\",\"cat\":\"holdfast\",\"ph\":\"X\",\"pid\":" + std::to_string(pid) +
      ",\"tid\":" + std::to_string(event.thread) + ",\"ts\":";
  AppendMicroseconds(event.begun_ns + steady_to_system_ns, line);
  line += ",\"dur\":";
  AppendMicroseconds(event.took_ns, line);
  line += ",\"args\":{\"rank\":" + std::to_string(event.rank);
  if (event.byte_count > 0) {
    line += ",\"bytes\":" + std::to_string(event.byte_count);
  }
  if (event.attempt_count > 0) {
    line += ",\"attempts\":" + std::to_string(event.attempt_count) +
            ",\"wait_us\":";
    AppendMicroseconds(event.waited_ns, line);
  }
  const std::string_view subject = event.SubjectText();
  if (!subject.empty()) {
    line += ",\"of\":";
    AppendJsonString(subject, line);
  }
  return line + "}}";
}

void SetOutputRank(int64_t rank) { output_rank = rank; }

void PrepareOutputs() {
  // If memory is short, the next call tries again.
  (void)CatchBadAlloc([] {
    static const bool is_read = [] {
      Outputs& outputs = TheOutputs();
      const std::string trace = FromEnvironment("HOLDFAST_TRACE");
      std::string metrics = FromEnvironment("HOLDFAST_METRICS");
      if (!trace.empty() && !is_trace_wanted) SetTraceFile(trace);
      const std::lock_guard lock(outputs.mutex);
      is_metrics_wanted = !metrics.empty();
      outputs.metrics_pattern = std::move(metrics);
      return true;
    }();
    (void)is_read;
    return Status();
  });
}

void WriteOutputs() {
  if (!is_trace_wanted && !is_metrics_wanted) return;
  (void)CatchBadAlloc([] {
    Outputs& outputs = TheOutputs();
    const std::lock_guard lock(outputs.mutex);
    WriteTrace(outputs);
    WriteMetrics(outputs);
    return Status();
  });
}

void SetTraceFile(const std::string& path) {
  Outputs& outputs = TheOutputs();
  const std::lock_guard lock(outputs.mutex);
  if (outputs.fd >= 0) ::close(outputs.fd);
  outputs.fd = -1;
  outputs.trace_pattern = path;
  is_trace_wanted = !path.empty();
  if (is_trace_wanted) Recorder::Get().KeepForTrace();
}

void FlushTrace() {
  PrepareOutputs();
  WriteOutputs();
}

}  // namespace holdfast
