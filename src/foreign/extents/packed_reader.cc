#include "foreign/extents/packed_reader.h"

#include "foreign/extents/c_order_runs.h"
#include "ground/base/status_macros.h"
#include "ground/tensor/copy.h"

namespace holdfast {
namespace {

class NibbleReader final : public ArrayReader {
 public:
  NibbleReader(std::shared_ptr<Store> store, std::string file, uint64_t offset,
               Shape shape)
      : store_(std::move(store)),
        file_(std::move(file)),
        offset_(offset),
        shape_(std::move(shape)) {}

  Status Read(const Shape& origin, const ArrayView& target) const override {
    return ForEachRunOfBox(
        shape_, origin, target,
        [this](uint64_t first, const ArrayView& run) -> Status {
          return ReadRun(first, run);
        });
  }

 private:
  Status ReadRun(uint64_t first, const ArrayView& run) const {
    const uint64_t count = ElementCount(run.shape);
    HF_ASSIGN_OR_RETURN(
        const Bytes packed,
        store_->Read(file_, {offset_ + first / 2,
                             (first + count - 1) / 2 - first / 2 + 1}));
    std::string elements(count, '\0');
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t place = first % 2 + i;
      const auto pair = static_cast<unsigned char>(packed.data()[place / 2]);
      elements[i] = static_cast<char>(place % 2 == 0 ? pair & 0xf : pair >> 4);
    }
    CopyStrided({run.dtype, elements.data(), run.shape,
                 ContiguousStrides(run.shape, 1)},
                run);
    return Status();
  }

  const std::shared_ptr<Store> store_;
  const std::string file_;
  const uint64_t offset_;
  const Shape shape_;
};

}  // namespace

std::shared_ptr<const ArrayReader> MakeNibbleReader(
    std::shared_ptr<Store> store, std::string file, uint64_t offset,
    Shape shape) {
  return std::make_shared<NibbleReader>(std::move(store), std::move(file),
                                        offset, std::move(shape));
}

}  // namespace holdfast
