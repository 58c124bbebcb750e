// The files of others that a view refers to: read wherever their links lead,
// and only while they are what the view was made of.
//
// Thread-safety: as Store. Ownership: the store shares `files`.
// Errors: DataLoss for a source that is gone, or that has changed, naming it,
// what it was, and what to do.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "engine/check/digest_index.h"
#include "engine/format/digest_file.h"
#include "stores/place/place.h"
#include "stores/storage/store.h"

namespace holdfast {

// The size and the time of the last change of the file at `place`, as a row of
// `sources`; `path` is its name in the view.
Result<SourceFile> DescribeSource(const std::string& path, const Place& place);

// Ok while the file that `row`, one of `list`, leads to from `directory` is
// what the row says. Where the list has checksums of what is in it, its time
// does not matter, nor what was added behind it: a view that was copied has
// files of another time.
Status CheckSource(const Place& directory, const SourceFile& row,
                   const DigestIndex& list);

// Where a view has files of formats other than safetensors, which lie in the
// item's directory itself.
inline constexpr std::string_view kSourcesDirectory = "sources";

// False only of a directory of which no source is a link; reads no file.
bool MayHaveLinks(const Place& directory);

// `files`, the store of `directory`, with the sources in its list as what their
// links lead to. With `must_match` all of them are compared with their rows
// now.
Result<std::shared_ptr<Store>> WithSources(std::shared_ptr<Store> files,
                                           const Place& directory,
                                           const DigestIndex& list,
                                           bool must_match);

}  // namespace holdfast
