// Converts Python arguments to the engine's options.
//
// Thread-safety: needs the GIL. Errors: StatusError (InvalidArgument), or
// nb::python_error from an object's own methods (TypeError for an object that
// is not a path).
#pragma once

#include <nanobind/nanobind.h>

#include <map>
#include <optional>
#include <string>

#include "holdfast/options.h"
#include "holdfast/tensor.h"

namespace holdfast::python {

// Accepts str, bytes or os.PathLike; returns the path in the file system's
// encoding.
std::string PathOf(nanobind::handle path);
// Converts a sequence of ints.
Shape ShapeOf(nanobind::handle sequence, const char* what);
// The same; None becomes nullopt.
std::optional<Shape> OptionalShapeOf(nanobind::handle sequence,
                                     const char* what);
nanobind::tuple ToTuple(const Shape& shape);

Compression CompressionOf(const std::optional<std::string>& name);
// Returns null without a name. Refuses formats that SaveOptions::also does not
// support.
std::shared_ptr<const AlsoFormat> AlsoOf(const std::optional<std::string>& name,
                                         uint64_t shard_bytes_max);
Format FormatOf(const std::string& name);
MissingChunks MissingChunksOf(const std::string& name);
std::map<std::string, SaveArgs> SaveArgsOf(nanobind::handle save_args);
RunOptions RunOf(int thread_count, uint64_t memory_bytes);

}  // namespace holdfast::python
