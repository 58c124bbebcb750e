// Reads the sources of a view: the files outside the view that it refers to.
// They are read through their links, and only while they are unchanged since
// the view was made.
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

// Returns a row of `sources` with the size and modification time of the file at
// `place`. `path` is the file's name in the view.
Result<SourceFile> DescribeSource(const std::string& path, const Place& place);

// Returns ok while a source matches its row in `list`. The source is the file
// that `row` leads to from `directory`. If the list has checksums for the
// file's contents, neither its time nor bytes appended to it matter: copying a
// view gives its files new times.
Status CheckSource(const Place& directory, const SourceFile& row,
                   const DigestIndex& list);

// Where a view keeps files of formats other than safetensors; safetensors files
// are in the item's directory itself.
inline constexpr std::string_view kSourcesDirectory = "sources";

// Returns false only if no source in the directory can be a link. Reads no
// file.
bool MayHaveLinks(const Place& directory);

// Returns `files`, the store of `directory`, with every source in `list`
// replaced by the file that its link leads to. With `must_match`, first checks
// all sources against their rows.
Result<std::shared_ptr<Store>> WithSources(std::shared_ptr<Store> files,
                                           const Place& directory,
                                           const DigestIndex& list,
                                           bool must_match);

}  // namespace holdfast
