// The limits with which specs are opened, and counters of the work done.
#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

#include "ground/base/status_macros.h"
#include "holdfast/orbax/spec.h"
#include "orbax/tspec/spec_json.h"

namespace holdfast {
namespace {

using spec::OrderedJson;

constexpr int64_t kFileIoConcurrency = 128;
constexpr uint64_t kNodeCacheBytes = 100000000;

Status CheckLimit(const std::optional<int64_t>& limit) {
  if (!limit || *limit >= 1) return Status();
  return InvalidArgumentError(
      "Error parsing object member \"limit\": Expected integer in the range "
      "[1, 18446744073709551615], but received: " +
      std::to_string(*limit));
}

// Adds the kernel's counters for this process: bytes that all its threads read
// and wrote.
void AddProcessCounters(OrderedJson& metrics) {
  const std::pair<const char*, const char*> names[] = {
      {"rchar:", "/holdfast/io/bytes_read"},
      {"wchar:", "/holdfast/io/bytes_written"},
      {"syscr:", "/holdfast/io/read_calls"},
      {"syscw:", "/holdfast/io/write_calls"}};
  std::ifstream file("/proc/self/io");
  std::string key;
  uint64_t value = 0;
  while (file >> key >> value) {
    for (const auto& [counter, name] : names) {
      if (key != counter) continue;
      OrderedJson metric = OrderedJson::object();
      metric["name"] = name;
      metric["values"][0]["value"] = value;
      metrics.push_back(std::move(metric));
    }
  }
}

}  // namespace

Result<TsContext> GetTsContext(const TsContextOptions& options) {
  HF_RETURN_IF_ERROR(CheckLimit(options.file_io_concurrency_limit));
  HF_RETURN_IF_ERROR(CheckLimit(options.data_copy_concurrency_limit));
  TsContext context;
  context.use_ocdbt = options.use_ocdbt;
  context.file_io_concurrency_limit =
      options.file_io_concurrency_limit.value_or(kFileIoConcurrency);
  context.data_copy_concurrency_limit = options.data_copy_concurrency_limit;
  context.cache_pool_bytes = options.use_ocdbt ? kNodeCacheBytes : 0;
  return context;
}

std::string TsContext::json() const {
  OrderedJson context = OrderedJson::object();
  context["file_io_concurrency"]["limit"] = file_io_concurrency_limit;
  if (use_ocdbt) {
    context["cache_pool#ocdbt"]["total_bytes_limit"] = cache_pool_bytes;
  }
  if (data_copy_concurrency_limit) {
    context["data_copy_concurrency"]["limit"] = *data_copy_concurrency_limit;
  }
  return spec::Dump(context);
}

RunOptions TsContext::run_options() const {
  constexpr int64_t kThreadsMax = std::numeric_limits<int>::max();
  RunOptions run;
  const int64_t thread_count = data_copy_concurrency_limit.value_or(0);
  run.threads = static_cast<int>(std::min(thread_count, kThreadsMax));
  if (file_io_concurrency_limit < kFileIoConcurrency) {
    const int64_t io = file_io_concurrency_limit;
    const int threads = static_cast<int>(std::min(io, kThreadsMax));
    run.threads = run.threads == 0 ? threads : std::min(run.threads, threads);
  }
  return run;
}

std::string PrintTsDebugData(const std::optional<std::string>& key,
                             const std::vector<ParamInfo>& infos) {
  OrderedJson metrics = OrderedJson::array();
  AddProcessCounters(metrics);
  OrderedJson with_key = OrderedJson::object();
  with_key["key"] = key ? OrderedJson(*key) : OrderedJson();
  metrics.push_back(std::move(with_key));
  OrderedJson names = OrderedJson::array();
  for (const ParamInfo& info : infos) names.push_back(info.name);
  OrderedJson with_infos = OrderedJson::object();
  with_infos["infos"] = std::move(names);
  metrics.push_back(std::move(with_infos));
  return spec::Dump(metrics);
}

}  // namespace holdfast
