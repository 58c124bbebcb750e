#include "engine/save/save_options.h"

#include <numeric>

#include "ground/base/clock.h"
#include "ground/base/sha256.h"
#include "ground/json/text.h"

namespace holdfast {

SaveOptions WithSources(SaveOptions options) {
  if (!options.now_ns) options.now_ns = SystemNowNs;
  if (!options.random_hex) options.random_hex = RandomHex32;
  return options;
}

SaveOptions ItemOptions(const Place& place, SaveOptions options) {
  options.format = Format::kOrbax;
  return OptionsFor(place, std::move(options));
}

SaveOptions OptionsFor(const Place& place, SaveOptions options) {
  if (options.ocdbt_target_data_file_bytes ==
      SaveOptions().ocdbt_target_data_file_bytes) {
    options.ocdbt_target_data_file_bytes = DefaultDataFileBytes(place);
  }
  return options;
}

int64_t DefaultDataFileBytes(const Place& directory) {
  constexpr int64_t kRemoteDataFileBytes = int64_t{400} << 20;
  return directory.is_remote() ? kRemoteDataFileBytes
                               : SaveOptions().ocdbt_target_data_file_bytes;
}

Result<nlohmann::ordered_json> ParseJsonOption(const std::string& text,
                                               const char* what) {
  if (text.empty()) return nlohmann::ordered_json();
  Result<nlohmann::ordered_json> json = ParseJsonText(text);
  if (json.ok() && json->is_object()) return json;
  return InvalidArgumentError(std::string(what) +
                              " must be the text of a JSON object (got " +
                              text.substr(0, 60) + ")");
}

FinishItemOptions FinishOptionsOf(const SaveOptions& options,
                                  const std::string& save_id,
                                  int64_t rank_count) {
  FinishItemOptions finish;
  finish.ranks.resize(rank_count);
  std::iota(finish.ranks.begin(), finish.ranks.end(), int64_t{0});
  finish.save_id = save_id;
  finish.use_ocdbt = options.use_ocdbt;
  finish.sync = options.sync;
  finish.write_digests = options.write_digests;
  finish.adopt_existing = options.adopt_existing;
  finish.now_ns = options.now_ns;
  finish.random_hex = options.random_hex;
  return finish;
}

}  // namespace holdfast
