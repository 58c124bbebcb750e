#include "ground/fingerprint/parts.h"

#include <mutex>
#include <utility>

#include "ground/base/status_macros.h"
#include "ground/tensor/box.h"

namespace holdfast {
namespace {

// Enough work for a thread, but little enough that all threads finish together.
constexpr uint64_t kPieceBytesMax = 4 << 20;

struct Piece {
  size_t part = 0;
  Box box;  // of the part's view
};

// Cuts the piece along its outermost axis that has more than one index.
void AddPieces(const FingerprintPart& part, Piece piece,
               std::vector<Piece>& pieces) {
  const uint64_t byte_count =
      ElementCount(piece.box.shape) * DTypeBytes(part.view.dtype);
  size_t axis = 0;
  while (axis < piece.box.shape.size() && piece.box.shape[axis] <= 1) ++axis;
  if (byte_count <= kPieceBytesMax || axis == piece.box.shape.size()) {
    if (byte_count > 0) pieces.push_back(std::move(piece));
    return;
  }
  Piece tail = piece;
  piece.box.shape[axis] /= 2;
  tail.box.origin[axis] += piece.box.shape[axis];
  tail.box.shape[axis] -= piece.box.shape[axis];
  AddPieces(part, std::move(piece), pieces);
  AddPieces(part, std::move(tail), pieces);
}

}  // namespace

Result<std::vector<FingerprintSum>> SumsOf(
    const std::vector<FingerprintPart>& parts, Executor& executor,
    const CancelToken& cancel) {
  std::vector<Piece> pieces;
  for (size_t i = 0; i < parts.size(); ++i) {
    AddPieces(parts[i], {i, BoxOf(parts[i].view.shape)}, pieces);
  }
  std::vector<FingerprintSum> sums(parts.size());
  std::mutex mutex;
  const auto add = [&](size_t i, int) {
    const FingerprintPart& part = parts[pieces[i].part];
    const FingerprintSum sum =
        SumOfBox(Subview(part.view, pieces[i].box),
                 Absolute(pieces[i].box, part.origin).origin, part.array_shape);
    const std::lock_guard lock(mutex);
    sums[pieces[i].part] += sum;
    return Status();
  };
  HF_RETURN_IF_ERROR(executor.ParallelFor(pieces.size(), add, &cancel));
  return sums;
}

Status CheckFingerprint(std::string_view name, DType dtype, const Shape& shape,
                        FingerprintSum elements, std::string_view want) {
  elements += TagOf(dtype, shape);
  const std::string got = FingerprintHex(elements);
  if (got == want) return Status();
  return DataLossError("tensor " + std::string(name) + ": fingerprint got " +
                       got + ", want " + std::string(want) +
                       ": the elements in memory are not those that were "
                       "saved");
}

}  // namespace holdfast
