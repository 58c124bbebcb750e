#include "cli/map_rules.h"

#include <fstream>
#include <span>
#include <sstream>

#include "cli/report.h"
#include "cli/select.h"
#include "holdfast/checkpoint.h"

namespace holdfast::cli {

Result<LeafMap> MapRules(const Args& args) {
  LeafMap map = args.map;
  for (const std::string& name : args.map_files) {
    std::ifstream file(name, std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    if (!file) return NotFoundError("--map-file: cannot read " + name);
    auto rules = ParseRenameTable(text.str());
    if (!rules.ok()) return rules.status().WithContext("--map-file: " + name);
    map.renames.insert(map.renames.end(), rules->begin(), rules->end());
  }
  return map;
}

Result<std::vector<std::string>> SelectedNames(const Args& args) {
  const auto patterns = std::span(args.operands).subspan(2);
  std::vector<std::string> names;
  if (patterns.empty()) return names;
  const auto opened = Open(args.operands[0], OpenOptionsOf(args));
  if (!opened.ok()) return opened.status();
  const std::vector<LeafInfo>& leaves = (*opened)->leaves();
  const auto selected = SelectLeaves(leaves, patterns);
  if (!selected.ok()) return selected.status();
  for (const size_t i : *selected) names.push_back(leaves[i].name);
  return names;
}

ConvertOptions TargetOptionsOf(const Args& args, const Env& env) {
  ConvertOptions options;
  options.run = RunOptionsOf(args, env);
  options.format = args.format;
  options.zarr_format = args.zarr_format;
  options.use_ocdbt = args.use_ocdbt;
  options.compression = args.compression;
  options.chunk_bytes_target = args.chunk_bytes;
  options.overwrite = args.overwrite;
  options.check = args.check;
  options.shard_bytes_max = args.shard_bytes;
  return options;
}

}  // namespace holdfast::cli
