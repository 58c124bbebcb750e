// The note that a step holds exactly the tensors of the step before it: the
// program may be saving a copy that it no longer updates, and then every step
// is as good as the first, which shows only when one is needed.
//
// A save knows a hash of its floating-point arrays from the checksums of their
// chunks (float_sums.h), and lists it in its digests. The process remembers
// what it committed last into each root, so a running trainer's saves read
// nothing. Only its first save into a root on disk reads the list of the newest
// earlier step, after the commit; in an object store it is not compared.
//
// There is a note only if the names are those of steps ("7", "step_7"; not
// "fold_7"), if the step's number is higher than the other's, if both know
// their arrays, and if there are floating-point arrays to compare. So equal
// arrays go unnoticed if the options changed in between, without digests, and
// where other code writes arrays into the item. Files that the caller put next
// to the items are not compared.
//
// Thread-safety: any thread. Errors: none; what cannot be read is not compared.
#pragma once

#include <optional>
#include <string>

#include "engine/format/digest_file.h"
#include "stores/place/place.h"

namespace holdfast {

// Returns the note about the step that was just committed at `step`, or an
// empty text, and remembers its arrays.
std::string NoteIfUnchanged(const Place& step,
                            const std::optional<FloatArrays>& floats);

}  // namespace holdfast
