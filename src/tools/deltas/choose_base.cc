#include "tools/deltas/choose_base.h"

#include <ranges>
#include <vector>

#include "engine/format/directory_names.h"
#include "engine/references/referrers.h"
#include "ground/base/status_macros.h"
#include "holdfast/checkpoint.h"
#include "holdfast/steps/steps.h"
#include "stores/place/place.h"

namespace holdfast {

Result<ChosenBase> ChooseBase(const std::string& step, const std::string& item,
                              uint64_t anchor_every) {
  if (anchor_every == 0) {
    return InvalidArgumentError("save " + step +
                                ": a whole step every 0 steps; want 1 or more");
  }
  Place target = Place(step).Absolute();
  if (const auto final_name = FinalName(target.name())) {
    target = target.parent() / *final_name;  // its final place
  }
  const std::string root = target.parent().path();
  ScanOptions scan;
  scan.read_metadata = false;
  HF_ASSIGN_OR_RETURN(const std::vector<ScannedStep> steps,
                      ScanSteps(root, scan));
  const Result<int64_t> number = StepFromCheckpointName(target.name());
  OpenOptions open;
  open.stored_sizes = false;
  open.item = item;
  for (const ScannedStep& before : std::views::reverse(steps)) {
    if (!before.committed || before.name == target.name()) continue;
    if (number.ok() && before.step >= *number) continue;
    const auto base = Open(root + "/" + before.name, open);
    if (base.status().code() == StatusCode::kCancelled) return base.status();
    if (!base.ok()) return ChosenBase{"", base.status().ToString()};
    const CheckpointInfo& info = (*base)->info();
    const auto is_made_from = IsMadeFrom(info.path, info.bases, target);
    if (!is_made_from.ok()) {
      return ChosenBase{"", is_made_from.status().ToString()};
    }
    if (*is_made_from) continue;
    if (info.bases.size() + 1 >= anchor_every) return ChosenBase();
    return ChosenBase{info.path, ""};
  }
  return ChosenBase();
}

}  // namespace holdfast
