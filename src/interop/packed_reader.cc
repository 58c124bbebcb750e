#include "interop/packed_reader.h"

#include "base/status_macros.h"
#include "checkpoint/restore/extent_read.h"
#include "tensor/box.h"

namespace holdfast {
namespace {

class NibbleReader final : public ArrayReader {
 public:
  NibbleReader(std::shared_ptr<Store> store, std::string file, uint64_t offset,
               Shape shape)
      : store_(std::move(store)),
        file_(std::move(file)),
        offset_(offset),
        strides_(ContiguousStrides(shape, 1)) {}

  Status Read(const Shape& origin, const ArrayView& target) const override {
    return ReadRows(0, First(origin), target.data, target);
  }

 private:
  uint64_t First(const Shape& origin) const {
    uint64_t first = 0;
    for (size_t d = 0; d < origin.size(); ++d) first += origin[d] * strides_[d];
    return first;
  }

  // Whether the elements of the box are one run from axis `axis` on.
  bool IsRun(size_t axis, const ArrayView& target) const {
    for (size_t d = axis; d + 1 < target.shape.size(); ++d) {
      if (target.shape[d + 1] * strides_[d + 1] != strides_[d]) return false;
    }
    return true;
  }

  Status ReadRows(size_t axis, uint64_t first, char* data,
                  const ArrayView& target) const {
    if (IsRun(axis, target)) return ReadRun(axis, first, data, target);
    for (int64_t i = 0; i < target.shape[axis]; ++i) {
      HF_RETURN_IF_ERROR(ReadRows(axis + 1, first + i * strides_[axis],
                                  data + i * target.strides[axis], target));
    }
    return Status();
  }

  Status ReadRun(size_t axis, uint64_t first, char* data,
                 const ArrayView& target) const {
    int64_t count = 1;
    for (size_t d = axis; d < target.shape.size(); ++d)
      count *= target.shape[d];
    if (count == 0) return Status();
    HF_ASSIGN_OR_RETURN(
        const Bytes packed,
        store_->Read(file_, {offset_ + first / 2,
                             (first + count - 1) / 2 - first / 2 + 1}));
    uint64_t next = first % 2;
    Put(axis, data, target, packed.data(), next);
    return Status();
  }

  static void Put(size_t axis, char* data, const ArrayView& target,
                  const char* packed, uint64_t& next) {
    if (axis == target.shape.size()) {
      const auto pair = static_cast<unsigned char>(packed[next / 2]);
      *data = static_cast<char>(next % 2 == 0 ? pair & 0xf : pair >> 4);
      ++next;
      return;
    }
    for (int64_t i = 0; i < target.shape[axis]; ++i) {
      Put(axis + 1, data + i * target.strides[axis], target, packed, next);
    }
  }

  const std::shared_ptr<Store> store_;
  const std::string file_;
  const uint64_t offset_;
  const Shape strides_;  // in elements
};

}  // namespace

std::shared_ptr<const ArrayReader> MakeNibbleReader(
    std::shared_ptr<Store> store, std::string file, uint64_t offset,
    Shape shape) {
  return std::make_shared<NibbleReader>(std::move(store), std::move(file),
                                        offset, std::move(shape));
}

}  // namespace holdfast
