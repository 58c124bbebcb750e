// Where a checkpoint that is to be read lies: a snapshot in the hub's cache
// stands for the repository that it is of.
//
// Thread-safety: reads the environment and the cache's directory; asks no
// server. Errors: InvalidArgument (no name of a repository), NotFound
// (HF_HUB_OFFLINE is set and the cache lacks what is asked for; the message
// says what).
#pragma once

#include <string>

#include "place/place.h"

namespace holdfast {

// `path`, absolute. Of hf:// the snapshot's directory or file, where the cache
// has all of the weights that it names, in a format that is read through links;
// else the URL itself, which is read by ranges. For readers alone: nobody
// writes into the cache.
Result<Place> SourcePlace(const std::string& path);

}  // namespace holdfast
