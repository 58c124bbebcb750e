// Which steps of a root a view among its other steps refers to: they must stay
// as long as it does.
//
// Only links count: hard links and copies hold what they need.
// Thread-safety: pure functions of the file system.
// Errors: none: what cannot be looked at refers to nothing.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "place/place.h"

namespace holdfast {

// Of each of these directories of `root` the others that it refers to, by name.
std::map<std::string, std::vector<std::string>> ReferencesOfSteps(
    const Place& root, const std::vector<std::string>& names);

// `names` without those that a directory of `root` which is none of them refers
// to, be it by way of another.
std::vector<std::string> WithoutReferred(const Place& root,
                                         std::vector<std::string> names);

}  // namespace holdfast
