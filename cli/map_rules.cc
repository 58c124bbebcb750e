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

}  // namespace holdfast::cli
