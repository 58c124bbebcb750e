#include "foreign/npz/inflate_reader.h"

#include <zlib.h>

#include <algorithm>
#include <mutex>

#include "foreign/extents/c_order_runs.h"
#include "formats/zip/zip_writer.h"
#include "ground/base/status_macros.h"
#include "ground/tensor/box.h"
#include "ground/tensor/copy.h"

namespace holdfast {
namespace {

constexpr size_t kInputBytes = 256 << 10;

// Inflates a stream from its beginning.
class Inflater {
 public:
  explicit Inflater(const DeflatedStream& stream) : stream_(stream) {}
  ~Inflater() { End(); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  uint64_t position() const { return position_; }

  Status Restart() {
    End();
    z_ = {};
    if (inflateInit2(&z_, -MAX_WBITS) != Z_OK) {
      return ResourceExhaustedError("no memory to inflate");
    }
    is_open_ = true;
    position_ = input_at_ = 0;
    crc_ = 0;
    return Status();
  }

  // Reads exactly the next `byte_count` bytes.
  Status Read(char* target, uint64_t byte_count) {
    if (!is_open_) HF_RETURN_IF_ERROR(Restart());
    for (uint64_t done = 0; done < byte_count;) {
      const uint64_t want = std::min<uint64_t>(byte_count - done, 1 << 30);
      z_.next_out = reinterpret_cast<Bytef*>(target + done);
      z_.avail_out = static_cast<uInt>(want);
      HF_RETURN_IF_ERROR(Step());
      const uint64_t got = want - z_.avail_out;
      crc_ = pickle::ZipCrc32({target + done, got}, crc_);
      done += got;
      position_ += got;
    }
    // The CRC covers the complete stream, so only the last read can check it.
    if (position_ == stream_.byte_count && crc_ != stream_.crc32) {
      return DataLossError(
          "the deflated bytes are damaged: their CRC-32 does not match");
    }
    return Status();
  }

  Status Skip(uint64_t byte_count) {
    std::string dropped(std::min<uint64_t>(byte_count, 64 << 10), '\0');
    while (byte_count > 0) {
      const uint64_t piece = std::min<uint64_t>(byte_count, dropped.size());
      HF_RETURN_IF_ERROR(Read(dropped.data(), piece));
      byte_count -= piece;
    }
    return Status();
  }

 private:
  void End() {
    if (is_open_) inflateEnd(&z_);
    is_open_ = false;
  }

  // Produces more output, at least one byte.
  Status Step() {
    const uInt before = z_.avail_out;
    while (z_.avail_out == before) {
      if (z_.avail_in == 0) HF_RETURN_IF_ERROR(Refill());
      const int result = inflate(&z_, Z_NO_FLUSH);
      const bool is_done = result == Z_STREAM_END;
      if ((result != Z_OK && !is_done) || (is_done && z_.avail_out == before)) {
        return DataLossError("the deflated bytes are damaged or cut after " +
                             std::to_string(position_) + " bytes (want " +
                             std::to_string(stream_.byte_count) + ")");
      }
    }
    return Status();
  }

  Status Refill() {
    const uint64_t left = stream_.stored_bytes - input_at_;
    if (left == 0) {
      return DataLossError("the deflated bytes are cut after " +
                           std::to_string(position_) + " bytes");
    }
    HF_ASSIGN_OR_RETURN(
        input_, stream_.store->Read(stream_.file,
                                    {stream_.offset + input_at_,
                                     std::min<uint64_t>(left, kInputBytes)}));
    input_at_ += input_.size();
    z_.next_in =
        reinterpret_cast<Bytef*>(const_cast<char*>(input_.data()));  // NOLINT
    z_.avail_in = static_cast<uInt>(input_.size());
    return Status();
  }

  const DeflatedStream stream_;
  z_stream z_{};
  bool is_open_ = false;
  Bytes input_;
  uint64_t input_at_ = 0;
  uint64_t position_ = 0;
  uint32_t crc_ = 0;
};

class InflateReader final : public ArrayReader {
 public:
  InflateReader(DeflatedStream stream, NpyHeader header)
      : header_(std::move(header)),
        element_bytes_(DTypeBytes(header_.dtype)),
        inflater_(std::move(stream)) {}

  Status Read(const Shape& origin, const ArrayView& target) const override {
    std::lock_guard lock(mutex_);
    const bool is_c_order =
        header_.strides == ContiguousStrides(header_.shape, element_bytes_);
    if (!is_c_order) return ReadOfWhole(origin, target);
    return ForEachRunOfBox(
        header_.shape, origin, target,
        [this](uint64_t first, const ArrayView& run) {
          return ReadRun(header_.header_bytes + first * element_bytes_, run);
        });
  }

 private:
  Status ReadRun(uint64_t offset, const ArrayView& target) const {
    const uint64_t byte_count = ElementCount(target.shape) * element_bytes_;
    if (offset < inflater_.position()) HF_RETURN_IF_ERROR(inflater_.Restart());
    HF_RETURN_IF_ERROR(inflater_.Skip(offset - inflater_.position()));
    const bool swaps = header_.is_big_endian && element_bytes_ > 1;
    if (!swaps && IsContiguous(target)) {
      return inflater_.Read(target.data, byte_count);
    }
    std::string run(byte_count, '\0');
    HF_RETURN_IF_ERROR(inflater_.Read(run.data(), byte_count));
    Put({target.dtype, run.data(), target.shape,
         ContiguousStrides(target.shape, element_bytes_)},
        target);
    return Status();
  }

  void Put(const ConstArrayView& source, const ArrayView& target) const {
    if (header_.is_big_endian && element_bytes_ > 1) {
      CopyByteSwapped(source, target);
    } else {
      CopyStrided(source, target);
    }
  }

  Status ReadOfWhole(const Shape& origin, const ArrayView& target) const {
    if (whole_.size() < header_.data_bytes) {
      Buffer whole = Buffer::TryAllocate(header_.data_bytes);
      if (whole.data() == nullptr) {
        return ResourceExhaustedError("no memory for an array of " +
                                      std::to_string(header_.data_bytes) +
                                      " bytes");
      }
      HF_RETURN_IF_ERROR(inflater_.Restart());
      HF_RETURN_IF_ERROR(inflater_.Skip(header_.header_bytes));
      HF_RETURN_IF_ERROR(inflater_.Read(whole.data(), header_.data_bytes));
      whole_ = std::move(whole);
    }
    const ConstArrayView all{header_.dtype, whole_.data(), header_.shape,
                             header_.strides};
    Put(Subview(all, {origin, target.shape}), target);
    return Status();
  }

  const NpyHeader header_;
  const size_t element_bytes_;
  mutable std::mutex mutex_;
  mutable Inflater inflater_;
  mutable Buffer whole_;
};

}  // namespace

Result<std::string> InflateStart(const DeflatedStream& stream,
                                 uint64_t byte_count) {
  Inflater inflater(stream);
  std::string start(std::min(byte_count, stream.byte_count), '\0');
  HF_RETURN_IF_ERROR(inflater.Read(start.data(), start.size()));
  return start;
}

Status CheckDeflated(const DeflatedStream& stream) {
  return Inflater(stream).Skip(stream.byte_count);
}

std::shared_ptr<const ArrayReader> MakeInflateReader(DeflatedStream stream,
                                                     NpyHeader header) {
  return std::make_shared<InflateReader>(std::move(stream), std::move(header));
}

}  // namespace holdfast
