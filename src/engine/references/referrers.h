// Finds who needs a step: the deltas and views beside it that refer to it, by
// whatever name. They are found by what they say of themselves, with all links
// on both sides resolved; whoever removes or replaces a step asks here.
//
// For views only links count: hard links and copies hold what they need.
// Checkpoints in other directories than the step's are not known.
// Thread-safety: pure functions of the file system, or of a bucket.
// Errors: those of looking: who cannot look must not remove.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/references/base_record.h"
#include "holdfast/status.h"
#include "stores/place/place.h"

namespace holdfast {

// Those of `names`, directories of `root`, that a directory outside `names`
// refers to, be it by way of another; and by which: "the view 7".
Result<std::map<std::string, std::string>> NeededByOthers(
    const Place& root, const std::vector<std::string>& names);

// `names`, directories of `root`, in an order in which they may be removed:
// each after all others of them that refer to it. One that cannot be read
// counts as referring to nothing.
std::vector<std::string> ReferrersFirst(const Place& root,
                                        const std::vector<std::string>& names);

// A reference from one directory of a root to another.
struct Reference {
  std::string target;     // a name in the root
  std::string_view what;  // "the delta", "the view"
  BaseRecord base;        // of a delta
};

// The references to others in `root` that what lies at `directory` would have
// as its entry `name`. A delta has one to each place where its base may be.
Result<std::vector<Reference>> ReferencesOf(const Place& root,
                                            const std::string& name,
                                            const Place& directory);

// Ok when what is at `place` may be replaced by a checkpoint with other files:
// no other directory beside it refers to it. Deltas made from the result
// `result_id` do not count, where the new checkpoint has the same.
// FailedPrecondition names what would be lost, and the way on; also for an item
// of a step, whose list of checksums tells of it. Saves that have
// not ended count while their process lives.
Status CheckNothingNeeds(const Place& place, const std::string& result_id = "");

}  // namespace holdfast
