#include "cli/map_rules.h"

#include <fstream>
#include <sstream>

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
