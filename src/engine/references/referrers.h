// Finds what needs a step: the deltas and views in the same root that refer to
// it, whatever their names. They are found by their own records, with all links
// on both sides resolved. Callers that remove or replace a step must check here
// first.
//
// For views only links count: hard links and copies hold their own data.
// Checkpoints in directories other than the step's are not found.
// Thread-safety: pure functions of the file system, or of a bucket.
// Errors: read errors. A caller that gets one must not remove the step.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/references/base_record.h"
#include "holdfast/status.h"
#include "stores/place/place.h"

namespace holdfast {

// Returns those of `names` (directories of `root`) to which a directory outside
// `names` refers, directly or through another directory. Each comes with the
// directory that refers to it: "the view 7".
Result<std::map<std::string, std::string>> NeededByOthers(
    const Place& root, const std::vector<std::string>& names);

// Returns `names`, which are directories of `root`, in an order in which they
// may be removed: each comes after all others that refer to it. A directory
// that cannot be read counts as referring to nothing.
std::vector<std::string> ReferrersFirst(const Place& root,
                                        const std::vector<std::string>& names);

// A reference from one directory of a root to another.
struct Reference {
  std::string target;     // a name in the root
  std::string_view what;  // "the delta", "the view"
  BaseRecord base;        // for a delta
};

// Returns the references to other entries of `root` that the contents of
// `directory` would have if they were the entry `name`. A delta has one
// reference to each place where its base may be.
Result<std::vector<Reference>> ReferencesOf(const Place& root,
                                            const std::string& name,
                                            const Place& directory);

// Returns whether the checkpoint at `path` needs what is at `target`. For a
// delta, `bases` are the steps that it is based on; otherwise it is empty. The
// checkpoint needs the target if it or one of `bases` is there, or is a view
// whose links lead there.
Result<bool> IsMadeFrom(const std::string& path,
                        const std::vector<std::string>& bases,
                        const Place& target);

// Returns ok if the checkpoint at `place` may be replaced by one with other
// files, because no other directory in the same root refers to it. Deltas made
// from the result `result_id` do not count, since the new checkpoint has that
// result. Unfinished saves count while their process is alive.
//
// Otherwise returns FailedPrecondition, which names what would be lost and what
// to do. It is also returned for an item of a step whose list of checksums
// covers the item.
Status CheckNothingNeeds(const Place& place, const std::string& result_id = "");

}  // namespace holdfast
