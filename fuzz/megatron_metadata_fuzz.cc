// megatron::ParseConfig (metadata.json): a parsed config is still equal after
// writing and parsing, no matter what else was in the file.
#include "fuzz_util.h"
#include "holdfast/megatron/zarr.h"

namespace {

using holdfast::megatron::ConfigText;
using holdfast::megatron::ParseConfig;
using holdfast::megatron::UnknownMembers;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto text = holdfast::FuzzText(data, size);
  auto config = ParseConfig(text, UnknownMembers::kIgnore);
  const auto strict = ParseConfig(text);
  FUZZ_CHECK(strict.ok() == (config.ok() && config->unknown_members.empty()));
  if (!config.ok()) {
    FUZZ_CHECK(holdfast::megatron::ErrorOf(config.status()).has_value());
    return 0;
  }
  config->unknown_members.clear();
  const auto again = ParseConfig(ConfigText(*config));
  FUZZ_CHECK_OK(again);
  FUZZ_CHECK(*again == *config);
  // This call may fail only by returning an error.
  (void)holdfast::megatron::GetDefaultStrategy(
      holdfast::megatron::StrategyAction::kLoadSharded, config->sharded_backend,
      config->sharded_backend_version);
  return 0;
}
