// ParseDeltaInfo: a parsed document is still the same after writing and
// parsing. The id of its arrays is corrected, so that other mutations are
// accepted.
#include "foreign/chain/delta_info.h"
#include "fuzz_util.h"

namespace holdfast {
namespace {

void Check(const nlohmann::ordered_json& document) {
  const auto info = ParseDeltaInfo(document);
  if (!info.ok()) return;
  const auto again = ParseDeltaInfo(DeltaInfoToJson(*info));
  FUZZ_CHECK_OK(again);
  FUZZ_CHECK(again->hashes == info->hashes);
  FUZZ_CHECK(again->states == info->states);
  FUZZ_CHECK(again->tree == info->tree);
}

// Checks the document with the id that fits its tree and hashes.
void CheckRepaired(nlohmann::ordered_json document) {
  if (!document.is_object()) return;
  const auto tree = document.find("tree");
  const auto hashes = document.find("hashes");
  if (tree == document.end() || !tree->is_string()) return;
  if (hashes == document.end() || !hashes->is_array()) return;
  DeltaInfo info;
  auto parsed = ParseSidecar(tree->get<std::string>());
  if (!parsed.ok()) return;
  info.tree = *std::move(parsed);
  for (const auto& hash : *hashes) {
    if (!hash.is_string()) return;
    info.hashes.push_back(
        std::strtoull(hash.get<std::string>().c_str(), nullptr, 16));
  }
  size_t array_count = 0;
  for (const SidecarLeaf& leaf : info.tree.leaves) {
    array_count += leaf.stored.empty() ? 0 : 1;
  }
  if (info.hashes.size() < array_count) return;
  document["id"] = DeltaResultId(info);
  Check(document);
}

}  // namespace
}  // namespace holdfast

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto document =
      nlohmann::ordered_json::parse(holdfast::FuzzText(data, size), nullptr,
                                    /*allow_exceptions=*/false);
  if (document.is_discarded()) return 0;
  holdfast::Check(document);
  holdfast::CheckRepaired(document);
  return 0;
}
