#include "arguments.h"

#include <nanobind/stl/string.h>

#include <string>
#include <string_view>
#include <utility>

#include "errors.h"

namespace nb = nanobind;

namespace holdfast::python {

namespace {

// Refuses "gs:/bucket", which pathlib makes of "gs://bucket", and which would
// be a path in a directory called "gs:".
void RefuseCollapsedUrl(const std::string& path) {
  for (const std::string_view scheme :
       {"gs:/", "s3:/", "hf:/", "http:/", "https:/", "file:/"}) {
    if (path.starts_with(scheme) &&
        !path.substr(scheme.size()).starts_with('/')) {
      ThrowValueError(
          path + ": a URL that has lost a slash, as pathlib.Path" +
          " makes them; give a str or a holdfast.remote.RemotePath");
    }
  }
}

}  // namespace

std::string PathOf(nb::handle path) {
  PyObject* bytes = nullptr;
  if (!PyUnicode_FSConverter(path.ptr(), &bytes)) nb::raise_python_error();
  const nb::object held = nb::steal(bytes);
  std::string text(PyBytes_AsString(bytes),
                   static_cast<size_t>(PyBytes_Size(bytes)));
  RefuseCollapsedUrl(text);
  return text;
}

Shape ShapeOf(nb::handle sequence, const char* what) {
  const nb::object values = nb::steal(PySequence_Tuple(sequence.ptr()));
  if (!values.is_valid()) {
    if (!PyErr_ExceptionMatches(PyExc_TypeError)) nb::raise_python_error();
    PyErr_Clear();
    PyErr_SetString(PyExc_TypeError, "want a sequence of ints");
    nb::raise_python_error();
  }
  Shape shape;
  const Py_ssize_t rank = PyTuple_Size(values.ptr());
  if (rank > kRankMax) {
    ThrowValueError(std::string(what) + ": rank " + std::to_string(rank) +
                    " is above " + std::to_string(kRankMax));
  }
  for (Py_ssize_t i = 0; i < rank; ++i) {
    const nb::object index =
        nb::steal(PyNumber_Index(PyTuple_GetItem(values.ptr(), i)));
    if (!index.is_valid()) nb::raise_python_error();
    const long long value = PyLong_AsLongLong(index.ptr());
    if (value == -1 && PyErr_Occurred()) nb::raise_python_error();
    shape.push_back(value);
  }
  return shape;
}

std::optional<Shape> OptionalShapeOf(nb::handle sequence, const char* what) {
  if (sequence.is_none()) return std::nullopt;
  return ShapeOf(sequence, what);
}

nb::tuple ToTuple(const Shape& shape) {
  nb::list values;
  for (const int64_t value : shape) values.append(value);
  return nb::tuple(values);
}

Compression CompressionOf(const std::optional<std::string>& name) {
  if (!name) return Compression::kNone;
  const auto compression = CompressionFromName(*name);
  if (compression && compression != Compression::kNone) return *compression;
  ThrowValueError("compression: got '" + *name +
                  "', want 'planes', 'zstd', 'fast' or None");
}

std::shared_ptr<const AlsoFormat> AlsoOf(const std::optional<std::string>& name,
                                         uint64_t shard_bytes_max) {
  if (!name) return nullptr;
  if (*name == "safetensors") return AlsoSafetensors(shard_bytes_max);
  ThrowValueError("also: got '" + *name + "', want 'safetensors' or None");
}

Format FormatOf(const std::string& name) {
  if (name == "orbax") return Format::kOrbax;
  if (name == "orbax-v1") return Format::kOrbaxV1;
  ThrowValueError("format: got '" + name + "', want 'orbax' or 'orbax-v1'");
}

MissingChunks MissingChunksOf(const std::string& name) {
  if (name == "as_recorded") return MissingChunks::kAsRecorded;
  if (name == "refuse") return MissingChunks::kRefuse;
  if (name == "fill") return MissingChunks::kFill;
  ThrowValueError("missing_chunks: got '" + name +
                  "', want 'as_recorded', 'refuse' or 'fill'");
}

std::map<std::string, SaveArgs> SaveArgsOf(nb::handle save_args) {
  std::map<std::string, SaveArgs> result;
  if (save_args.is_none()) return result;
  for (const auto& [name, value] : nb::cast<nb::dict>(save_args)) {
    const auto key = nb::cast<std::string>(name);
    const auto entry = nb::cast<nb::tuple>(value);
    if (entry.size() != 3 && entry.size() != 5) {
      ThrowValueError("save_args['" + key +
                      "']: want (dtype, chunk_byte_size, shard_axes) and, if "
                      "wanted, write_chunk_shape and read_chunk_shape");
    }
    SaveArgs args;
    if (!entry[0].is_none()) {
      const auto dtype_name = nb::cast<std::string>(entry[0]);
      args.dtype = DTypeFromName(dtype_name);
      if (!args.dtype) {
        ThrowValueError(
            "Error parsing object member \"dtype\": Unsupported "
            "data type: \"" +
            dtype_name + "\" (leaf \"" + key + "\")");
      }
    }
    if (!entry[1].is_none()) {
      args.chunk_byte_size = nb::cast<int64_t>(entry[1]);
    }
    args.shard_axes =
        std::vector<int64_t>(ShapeOf(nb::object(entry[2]), "shard_axes"));
    if (entry.size() == 5) {
      args.write_chunk_shape =
          OptionalShapeOf(nb::object(entry[3]), "write_chunk_shape");
      args.read_chunk_shape =
          OptionalShapeOf(nb::object(entry[4]), "read_chunk_shape");
    }
    result.emplace(key, std::move(args));
  }
  return result;
}

RunOptions RunOf(int thread_count, uint64_t memory_bytes) {
  if (thread_count < 0) {
    ThrowValueError("threads: got " + std::to_string(thread_count) +
                    ", want >= 0");
  }
  RunOptions run;
  run.threads = thread_count;
  run.memory_bytes = memory_bytes;
  return run;
}

}  // namespace holdfast::python
