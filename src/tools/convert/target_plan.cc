#include "tools/convert/target_plan.h"

#include <algorithm>
#include <set>
#include <utility>

#include "ground/base/status_macros.h"

namespace holdfast {
namespace {

// Renames leaves whose names the format cannot hold: the empty name of a bare
// leaf, and names with a NUL in an archive. The sidecar keeps the keys.
void NameForFormat(Format format, std::vector<TargetLeaf>& leaves) {
  std::set<std::string> taken;
  for (const TargetLeaf& leaf : leaves) taken.insert(leaf.name);
  for (TargetLeaf& leaf : leaves) {
    const bool is_cut =
        format == Format::kNpz && leaf.name.find('\0') != std::string::npos;
    if (!leaf.name.empty() && !is_cut) continue;
    std::string name = leaf.name.empty() ? "value" : leaf.name;
    std::replace(name.begin(), name.end(), '\0', '_');
    while (!taken.insert(name).second) name += '_';
    leaf.name = std::move(name);
  }
}

}  // namespace

Result<TargetPlan> MakeTargetPlan(const Checkpoint& source,
                                  const TargetPlanRequest& request,
                                  ConvertReport& report) {
  HF_ASSIGN_OR_RETURN(MappedLeaves mapped,
                      MapLeaves(source.leaves(), request.names, request.map,
                                request.keeps_chunks));
  report = std::move(mapped.report);
  TargetPlan plan;
  plan.leaves = std::move(mapped.leaves);
  NameForFormat(request.format, plan.leaves);
  plan.source_info = source.info();
  plan.options = request.target;
  HF_RETURN_IF_ERROR(FillTexts(source, plan));
  return plan;
}

Status FillTexts(const Checkpoint& source, TargetPlan& plan) {
  for (TargetLeaf& leaf : plan.leaves) {
    if (leaf.kind == ValueKind::kScalar) {
      HF_ASSIGN_OR_RETURN(const Array value, source.Read(leaf.source));
      leaf.text.assign(value.view().data, value.byte_count());
    } else if (leaf.kind == ValueKind::kString ||
               leaf.kind == ValueKind::kBytes ||
               leaf.kind == ValueKind::kJson ||
               leaf.kind == ValueKind::kObject) {
      HF_ASSIGN_OR_RETURN(leaf.text, source.ReadText(leaf.source));
    }
  }
  return Status();
}

}  // namespace holdfast
