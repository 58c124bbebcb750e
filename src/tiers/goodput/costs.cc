#include "tiers/goodput/costs.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>

namespace holdfast {
namespace {

constexpr int64_t kHostCountMax = 65'536;
constexpr double kStateBytesMax = 0x1p70;
constexpr int64_t kEveryMax = 1'000'000'000;

Status Refuse(const char* name, const char* wanted) {
  return InvalidArgumentError(std::string("goodput: ") + name + ": want " +
                              wanted);
}

Status CheckPolicy(const GoodputPolicy& policy) {
  if (policy.local_every < 1 || policy.local_every > kEveryMax) {
    return Refuse("local_every", "1 to 1000000000");
  }
  if (policy.shared_every < 0 || policy.shared_every > kEveryMax ||
      policy.shared_every % policy.local_every != 0) {
    return Refuse("shared_every",
                  "a multiple of local_every, at most 1000000000, or 0");
  }
  if (policy.data_shards < 1 || policy.data_shards > 255) {
    return Refuse("data_shards", "1 to 255");
  }
  if (policy.parity_shards < 0 ||
      policy.parity_shards > 255 - policy.data_shards) {
    return Refuse("parity_shards", "0 to 255, less data_shards");
  }
  return Status();
}

bool IsPositive(double number) { return number > 0 && std::isfinite(number); }

}  // namespace

Status CheckGoodput(const GoodputModel& model, const GoodputPolicy& policy) {
  if (model.host_count < 1 || model.host_count > kHostCountMax) {
    return Refuse("host_count", "1 to 65536");
  }
  const struct {
    const char* name;
    double number;
  } positive[] = {{"host_mtbf_seconds", model.host_mtbf_seconds},
                  {"state_bytes", model.state_bytes},
                  {"step_seconds", model.step_seconds},
                  {"local_bytes_per_second", model.local_bytes_per_second},
                  {"peer_bytes_per_second", model.peer_bytes_per_second},
                  {"shared_bytes_per_second", model.shared_bytes_per_second},
                  {"simulated_seconds", model.simulated_seconds}};
  for (const auto& [name, number] : positive) {
    if (!IsPositive(number)) return Refuse(name, "more than 0");
  }
  if (!(model.lost_share >= 0 && model.lost_share <= 1)) {
    return Refuse("lost_share", "0 to 1");
  }
  if (model.state_bytes > kStateBytesMax) {
    return Refuse("state_bytes", "at most 2^70");
  }
  const struct {
    const char* name;
    double number;
  } at_least_0[] = {{"blocking_seconds", model.blocking_seconds},
                    {"restart_seconds", model.restart_seconds},
                    {"domain_mtbf_seconds", model.domain_mtbf_seconds}};
  for (const auto& [name, number] : at_least_0) {
    if (!(number >= 0 && std::isfinite(number))) {
      return Refuse(name, "0 or more");
    }
  }
  if (model.hosts_per_domain < 1 || model.hosts_per_domain > kHostCountMax) {
    return Refuse("hosts_per_domain", "1 to 65536");
  }
  return CheckPolicy(policy);
}

Status CheckPlayable(const GoodputModel& model, const GoodputCosts& costs) {
  const double save_count = model.simulated_seconds / costs.period_seconds;
  const double failure_count =
      model.simulated_seconds * costs.failures_per_second();
  const double work =
      (save_count + failure_count) * static_cast<double>(kGoodputEventWork) +
      model.simulated_seconds * costs.domain_failures_per_second *
          static_cast<double>(
              std::min(model.hosts_per_domain, model.host_count));
  if (work <= static_cast<double>(kGoodputWorkMax)) return Status();
  return TooMuchToPlayError(model, costs);
}

Status TooMuchToPlayError(const GoodputModel& model,
                          const GoodputCosts& costs) {
  char text[96];
  std::snprintf(text, sizeof text, "got about %.2g saves and %.2g failures",
                model.simulated_seconds / costs.period_seconds,
                model.simulated_seconds * costs.failures_per_second());
  return InvalidArgumentError(
      "goodput: simulated_seconds: too much to simulate (" + std::string(text) +
      ", want at most " + std::to_string(kGoodputWorkMax / kGoodputEventWork) +
      ", fewer if copies to the shared tier fall behind); reduce it, or "
      "increase host_mtbf_seconds, domain_mtbf_seconds, step_seconds, "
      "local_every, shared_every or shared_bytes_per_second");
}

GoodputCosts CostsOf(const GoodputModel& model, const GoodputPolicy& policy) {
  const double hosts = static_cast<double>(model.host_count);
  const double n = static_cast<double>(policy.data_shards);
  const double m = static_cast<double>(policy.parity_shards);
  GoodputCosts costs;
  costs.member_bytes = model.state_bytes / hosts;
  // Each host writes its part and its parity. For every parity block that it
  // keeps, it receives the n blocks from which the block is computed: m times
  // what it wrote.
  costs.write_seconds = costs.member_bytes / model.local_bytes_per_second;
  costs.protect_seconds =
      m * costs.member_bytes / model.peer_bytes_per_second +
      m / n * costs.member_bytes / model.local_bytes_per_second;
  costs.drain_seconds = model.state_bytes / model.shared_bytes_per_second;
  costs.host_bytes = 2 * costs.member_bytes * (1 + m / n);
  // The next save waits until the previous one is protected.
  costs.period_seconds =
      model.blocking_seconds +
      std::max(static_cast<double>(policy.local_every) * model.step_seconds,
               costs.write_seconds + costs.protect_seconds);
  // All bytes are read and compared with their checksums. To rebuild a member,
  // a host receives n other blocks. To compute its parity again, it receives m
  // times the size of a member, as in a save.
  costs.local_restore_seconds =
      (1 + m / n) * costs.member_bytes / model.local_bytes_per_second;
  costs.parity_restore_seconds =
      costs.local_restore_seconds +
      (n + m) * costs.member_bytes / model.peer_bytes_per_second;
  costs.shared_restore_seconds =
      model.state_bytes / model.shared_bytes_per_second;
  costs.host_failures_per_second = hosts / model.host_mtbf_seconds;
  if (model.domain_mtbf_seconds > 0) {
    const double domains =
        std::ceil(hosts / static_cast<double>(model.hosts_per_domain));
    costs.domain_failures_per_second = domains / model.domain_mtbf_seconds;
  }
  return costs;
}

}  // namespace holdfast
