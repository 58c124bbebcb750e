// ShardingFromJson: a parsed sharding has the same text after writing and
// parsing, and a plan for an array under it writes as many elements as the
// array has.
#include "fuzz_util.h"
#include "holdfast/shard_plan.h"

namespace holdfast {
namespace {

// Old texts do not list devices, so a few bytes may describe millions of
// devices.
constexpr int64_t kDevicesMax = 1 << 12;

int64_t DeviceCount(const Sharding& sharding) {
  const auto* named = std::get_if<NamedSharding>(&sharding);
  return named == nullptr ? 1 : ElementCount(named->mesh.shape);
}

void CheckPlan(const Sharding& sharding) {
  const Shape shape(4, 1 << 10);
  const auto planner = ShardPlanner::OfAll(sharding);
  if (!planner.ok()) return;
  const auto layout = planner->Layout(shape, 4, {});
  if (!layout.ok()) return;
  const auto shares = planner->Shares(shape, *layout);
  FUZZ_CHECK_OK(shares);
  int64_t written = 0;
  for (const DeviceShare& share : *shares) {
    if (share.write_origin) written += ElementCount(layout->write_shape);
  }
  FUZZ_CHECK(written == ElementCount(shape));
}

}  // namespace
}  // namespace holdfast

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto sharding =
      holdfast::ShardingFromJson(holdfast::FuzzText(data, size));
  if (!sharding.ok()) return 0;
  if (holdfast::DeviceCount(*sharding) > holdfast::kDevicesMax) return 0;
  const std::string text = holdfast::ShardingToJson(*sharding);
  const auto again = holdfast::ShardingFromJson(text);
  FUZZ_CHECK_OK(again);
  FUZZ_CHECK(holdfast::ShardingToJson(*again) == text);
  holdfast::CheckPlan(*sharding);
  return 0;
}
