#include "foreign/megatron/chunk_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "foreign/megatron/error.h"
#include "foreign/megatron/flat_boxes.h"
#include "formats/zarr/format/chunk_key.h"
#include "ground/base/bytes.h"
#include "ground/base/status_macros.h"
#include "ground/tensor/copy.h"
#include "stores/storage/errno_status.h"
#include "stores/storage/new_file.h"
#include "stores/storage/path_parts.h"

namespace holdfast::megatron {
namespace {

// Elements that are not contiguous are gathered in pieces of this size.
constexpr size_t kGatherBytes = size_t{4} << 20;

// Returns the first axis of the box's runs: on this axis and the later axes,
// elements are consecutive in the chunk, because the later axes are complete.
size_t SplitAxis(const Shape& chunk_shape, const Box& box) {
  size_t split = chunk_shape.size();
  while (split > 0) {
    --split;
    if (box.shape[split] != chunk_shape[split]) break;
  }
  return split;
}

// Returns whether the view's bytes can be written directly from memory.
bool IsPlainRun(const ConstArrayView& view) {
  return IsContiguous(view) &&
         !HasUnusedBits(
             view.dtype,
             {view.data, static_cast<size_t>(ElementCount(view.shape)) *
                             DTypeBytes(view.dtype)});
}

// Calls fn(offset in elements, bytes) for each run of the box in its chunk.
// Runs are gathered if the source is not contiguous, or has bools that are
// neither 0 nor 1.
Status ForEachRun(const Shape& chunk_shape, const Box& box,
                  const ConstArrayView& source,
                  const std::function<Status(int64_t, std::string_view)>& fn) {
  const size_t item_bytes = DTypeBytes(source.dtype);
  const Shape strides = ContiguousStrides(chunk_shape, 1);
  const size_t split = SplitAxis(chunk_shape, box);
  // A piece has one index on each axis before the split, and as many rows of
  // the split axis as are gathered together.
  Shape piece_shape = box.shape;
  for (size_t i = 0; i < split; ++i) piece_shape[i] = 1;
  int64_t run_elements = ElementCount(piece_shape);
  const bool is_direct =
      source.dtype == DType::kBool
          ? IsPlainRun(source)
          : IsContiguous(Subview(
                source, Box{Shape(piece_shape.size(), 0), piece_shape}));
  Buffer scratch;
  if (!is_direct) {
    const Shape gathered = RowPieceShape(piece_shape, item_bytes, kGatherBytes);
    piece_shape = gathered;
    run_elements = ElementCount(piece_shape);
    scratch =
        Buffer::TryAllocate(static_cast<size_t>(run_elements) * item_bytes);
    if (scratch.data() == nullptr) {
      return ResourceExhaustedError("no memory to gather elements of a shard");
    }
  }
  const ChunkGrid pieces = {box.shape, piece_shape};
  return ForEachChunk(
      pieces, BoxOf(box.shape), [&](const Shape& index) -> Status {
        const Box piece = pieces.ChunkBox(index);
        ConstArrayView view = Subview(source, piece);
        const size_t byte_count =
            static_cast<size_t>(ElementCount(piece.shape)) * item_bytes;
        if (!is_direct) {
          const ArrayView packed = {view.dtype, scratch.data(), view.shape,
                                    ContiguousStrides(view.shape, item_bytes)};
          CopyStrided(view, packed);
          ClearUnusedBits(view.dtype, scratch.data(), byte_count);
          view = packed;
        }
        int64_t offset = 0;
        for (size_t i = 0; i < strides.size(); ++i) {
          offset += (box.origin[i] + piece.origin[i]) * strides[i];
        }
        return fn(offset, {view.data, byte_count});
      });
}

Status OutOfRange(const ZarrArray::State& array, const ShardedTensor& tensor) {
  return MakeError(StatusCode::kOutOfRange, "OUT_OF_RANGE", "ValueError",
                   "shard is outside of the array at " + array.path +
                       " of shape " + ShapeToString(array.metadata().shape) +
                       ": " + tensor.ToString());
}

void AppendParts(const ZarrArray::State& array, const Box& box,
                 const ConstArrayView& source, std::vector<ChunkPart>& parts) {
  const ChunkGrid grid = array.grid();
  const Status status =
      ForEachChunk(grid, box, [&](const Shape& index) -> Status {
        const Shape origin = grid.ChunkBox(index).origin;
        const Box chunk = {origin, grid.chunk_shape};
        const Box common = *Intersect(chunk, box);
        parts.push_back({&array, index, Relative(common, origin),
                         Subview(source, Relative(common, box.origin))});
        return Status();
      });
  (void)status;  // fn never fails
}

// Returns the view with `count` leading axes of extent 1 added.
ConstArrayView WithPrepended(const ConstArrayView& view, size_t count) {
  ConstArrayView result = view;
  result.shape.insert(result.shape.begin(), count, 1);
  result.strides.insert(result.strides.begin(), count, 0);
  return result;
}

}  // namespace

Status CheckIsPlain(const ZarrArray::State& array) {
  const zarr::ArrayMetadata& metadata = array.metadata();
  if (metadata.bytes_codecs.empty() && metadata.endian == Endian::kLittle &&
      metadata.order == 'C' && metadata.chunk_key_encoding.separator == '.') {
    return Status();
  }
  return FailedPreconditionError(
      "array " + array.path +
      " is compressed or laid out as Megatron never does; shards cannot be "
      "written into it");
}

Result<std::vector<ChunkPart>> PlanParts(const ZarrArray::State& array,
                                         const ShardedTensor& tensor) {
  HF_RETURN_IF_ERROR(tensor.Check());
  HF_RETURN_IF_ERROR(CheckIsPlain(array));
  const zarr::ArrayMetadata& metadata = array.metadata();
  if (tensor.dtype != metadata.dtype || tensor.data.dtype != tensor.dtype) {
    return MakeError(StatusCode::kInvalidArgument, "DTYPE_MISMATCH",
                     "ValueError",
                     "array " + array.path + " has dtype " +
                         std::string(DTypeName(metadata.dtype)) +
                         ", the shard is " + tensor.ToString());
  }
  const Box box = {tensor.global_offset, tensor.BoxShape()};
  if (box.shape.size() != metadata.shape.size()) {
    return OutOfRange(array, tensor);
  }
  for (size_t i = 0; i < box.shape.size(); ++i) {
    if (box.origin[i] + box.shape[i] > metadata.shape[i]) {
      return OutOfRange(array, tensor);
    }
  }
  std::vector<ChunkPart> parts;
  if (ElementCount(tensor.data.shape) == 0) return parts;
  if (tensor.data.data == nullptr) {
    return InvalidArgumentError("no elements to save in " + tensor.ToString());
  }
  const auto prepended = static_cast<size_t>(tensor.prepend_axis_num);
  if (!tensor.flattened_range) {
    AppendParts(array, box, WithPrepended(tensor.data, prepended), parts);
    return parts;
  }
  for (const FlatBox& flat :
       FlatBoxes(tensor.local_shape, *tensor.flattened_range)) {
    Box part = flat.box;
    part.origin.insert(part.origin.begin(), prepended, 0);
    part.shape.insert(part.shape.begin(), prepended, 1);
    AppendParts(array, Absolute(std::move(part), tensor.global_offset),
                WithPrepended(FlatView(tensor.data, flat), prepended), parts);
  }
  return parts;
}

namespace {

Status SharedChunkAtUrlError(const ChunkPart& part, const std::string& key) {
  return UnimplementedError(
      "save " + part.array->store->Describe(key) +
      ": several ranks or tensors share this chunk, and objects cannot be "
      "written in parts by several writers; save to a local directory, and "
      "copy it with `holdfast cp`");
}

}  // namespace

Result<ChunkWriter> ChunkWriter::Open(const Place& root) {
  if (root.is_remote()) return ChunkWriter(UniqueFd());
  UniqueFd fd(::open(root.path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) return ErrnoStatus(errno, "open", root.path());
  return ChunkWriter(std::move(fd));
}

Result<bool> ChunkWriter::Write(const ChunkPart& part, bool sync) const {
  const std::string key = zarr::ChunkKey(
      part.array->prefix, part.array->metadata(), part.chunk_index);
  if (part.box_in_chunk.shape == part.array->metadata().chunk_shape) {
    HF_RETURN_IF_ERROR(WriteWhole(part, key, sync));
    return false;
  }
  if (!root_.valid()) return SharedChunkAtUrlError(part, key);
  HF_RETURN_IF_ERROR(WriteShared(part, key));
  return true;
}

Status ChunkWriter::WriteWhole(const ChunkPart& part, const std::string& key,
                               bool sync) const {
  Store& store = *part.array->store;
  if (IsPlainRun(part.source)) {
    return store.Write(key,
                       std::string_view(part.source.data, part.byte_count()),
                       {.sync = sync, .atomic = false});
  }
  HF_ASSIGN_OR_RETURN(const std::unique_ptr<ObjectWriter> writer,
                      store.Create(key));
  const size_t item_bytes = DTypeBytes(part.source.dtype);
  HF_RETURN_IF_ERROR(ForEachRun(
      part.box_in_chunk.shape, BoxOf(part.box_in_chunk.shape), part.source,
      [&](int64_t offset, std::string_view bytes) {
        return writer->WriteAt(static_cast<uint64_t>(offset) * item_bytes,
                               std::span<const std::string_view>(&bytes, 1));
      }));
  return writer->Finish(sync);
}

// Opens the file at `key` with exactly the chunk's length. Every rank that
// shares the chunk sets the same length, so the order does not matter.
Result<UniqueFd> ChunkWriter::OpenShared(const std::string& key,
                                         uint64_t chunk_bytes) const {
  const std::string parent(ParentKey(key));
  const std::string name(LastPart(key));
  UniqueFd directory;
  if (const int error =
          calls_.OpenBeneath(root_.get(), parent, O_PATH | O_DIRECTORY,
                             FileCalls::Links::kInside, directory)) {
    return ErrnoStatus(error, "open", parent);
  }
  UniqueFd fd;
  int error = calls_.CreateFile(directory.get(), name, key, fd);
  if (error == EEXIST) {
    error = calls_.OpenBeneath(directory.get(), name, O_RDWR,
                               FileCalls::Links::kNone, fd);
  }
  if (error != 0) return ErrnoStatus(error, "open", key);
  struct stat info;
  if ((error = calls_.Stat(fd.get(), key, info)) != 0) {
    return ErrnoStatus(error, "stat", key);
  }
  if (static_cast<uint64_t>(info.st_size) != chunk_bytes &&
      ::ftruncate(fd.get(), static_cast<off_t>(chunk_bytes)) != 0) {
    return ErrnoStatus(errno, "set the length of", key);
  }
  return fd;
}

Status ChunkWriter::WriteShared(const ChunkPart& part,
                                const std::string& key) const {
  const Shape& chunk_shape = part.array->metadata().chunk_shape;
  const size_t item_bytes = DTypeBytes(part.source.dtype);
  const uint64_t chunk_bytes =
      static_cast<uint64_t>(ElementCount(chunk_shape)) * item_bytes;
  HF_ASSIGN_OR_RETURN(const UniqueFd fd, OpenShared(key, chunk_bytes));
  return ForEachRun(chunk_shape, part.box_in_chunk, part.source,
                    [&](int64_t offset, std::string_view bytes) -> Status {
                      const int error = calls_.WriteFull(
                          fd.get(), static_cast<uint64_t>(offset) * item_bytes,
                          std::span<const std::string_view>(&bytes, 1), key);
                      return error == 0 ? Status()
                                        : ErrnoStatus(error, "write", key);
                    });
}

}  // namespace holdfast::megatron
