// Which step a delta is made from, and when a whole step is due.
#include "chain/choose_base.h"

#include "base/status_macros.h"
#include "holdfast/delta.h"
#include "holdfast/orbax/steps.h"
#include "place/place.h"

namespace holdfast {

Result<std::string> ChooseBase(const std::string& path, uint64_t anchor_every) {
  return ChooseBaseOf(path, "", anchor_every);
}

Result<std::string> ChooseBaseOf(const std::string& path,
                                 const std::string& item,
                                 uint64_t anchor_every) {
  if (anchor_every == 0) {
    return InvalidArgumentError("save " + path +
                                ": a whole step every 0 steps; want 1 or more");
  }
  const Place target = Place(path).Absolute();
  const std::string root = target.parent().path();
  ScanOptions scan;
  scan.read_metadata = false;
  HF_ASSIGN_OR_RETURN(const std::vector<ScannedStep> steps,
                      ScanSteps(root, scan));
  std::string newest;
  for (const ScannedStep& step : steps) {
    if (step.committed && step.name != target.name()) newest = step.name;
  }
  if (newest.empty()) return newest;
  OpenOptions open;
  open.stored_sizes = false;
  open.item = item;
  const auto base = Open(root + "/" + newest, open);
  // A run goes on beside a step that is damaged, and does not build on it.
  if (!base.ok() && IsDamage(base.status())) return std::string();
  if (!base.ok()) return base.status();
  const CheckpointInfo& info = (*base)->info();
  return info.bases.size() + 1 < anchor_every ? info.path : std::string();
}

}  // namespace holdfast
