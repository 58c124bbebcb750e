// The files outside a view that it refers to: read wherever their links lead,
// and only while they are unchanged since the view was made.
//
// Thread-safety: as Store. Ownership: the store shares `files`.
// Errors: DataLoss for a source that is missing or has changed, naming it, its
// recorded state, and what to do.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "engine/check/digest_index.h"
#include "engine/format/digest_file.h"
#include "stores/place/place.h"
#include "stores/storage/store.h"

namespace holdfast {

// The size and modification time of the file at `place`, as a row of `sources`;
// `path` is its name in the view.
Result<SourceFile> DescribeSource(const std::string& path, const Place& place);

// Ok while the file that `row` in `list` leads to from `directory` matches the
// row. If the list has checksums for its contents, its time does not matter,
// nor do bytes appended to it: a view that was copied has files with other
// times.
Status CheckSource(const Place& directory, const SourceFile& row,
                   const DigestIndex& list);

// Where a view keeps files of formats other than safetensors; safetensors files
// are in the item's directory itself.
inline constexpr std::string_view kSourcesDirectory = "sources";

// False only for a directory in which no source is a link; reads no file.
bool MayHaveLinks(const Place& directory);

// `files`, the store of `directory`, in which each source in its list stands
// for the file that its link leads to. With `must_match`, all sources are
// checked against their rows now.
Result<std::shared_ptr<Store>> WithSources(std::shared_ptr<Store> files,
                                           const Place& directory,
                                           const DigestIndex& list,
                                           bool must_match);

}  // namespace holdfast
