// Turns a view, or a delta, into a checkpoint with its own bytes.
#include <filesystem>

#include "ground/base/no_throw.h"
#include "ground/base/status_macros.h"
#include "holdfast/tools/view.h"

namespace holdfast {

Result<ConvertResult> Materialize(const std::string& view,
                                  const std::string& target,
                                  const ConvertOptions& options) {
  return CatchBadAlloc([&]() -> Result<ConvertResult> {
    OpenOptions open = options.open;
    open.stored_sizes = false;
    open.verify = true;  // the digest list says what the view refers to
    HF_ASSIGN_OR_RETURN(const auto opened, Open(view, open));
    const std::string& path = opened->info().path;
    if (opened->info().sources.empty() && opened->info().bases.empty()) {
      return InvalidArgumentError("materialize " + path +
                                  ": it is neither a view nor a delta; it has "
                                  "bytes of its own, and convert copies them");
    }
    ConvertOptions convert = options;
    convert.open.step.reset();  // already chosen
    if (!target.empty()) return Convert(path, target, convert);
    if (!open.item.empty()) {
      OpenOptions all = open;
      all.item.clear();
      HF_ASSIGN_OR_RETURN(const auto whole, Open(path, all));
      if (whole->info().items.size() > 1) {
        return InvalidArgumentError(
            "materialize item " + open.item + " of " + path +
            " in its place: the other items would go; materialize the whole "
            "step, or give a target");
      }
    }
    convert.overwrite = true;
    // Replace the directory behind a link, so that the link still leads to the
    // step.
    std::error_code error;
    const auto real = std::filesystem::canonical(path, error);
    return Convert(path, error ? path : real.string(), convert);
  });
}

}  // namespace holdfast
