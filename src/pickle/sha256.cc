#include "pickle/sha256.h"

#include "base/sha256.h"
#include "pickle/elements.h"

namespace holdfast::pickle {

std::string Sha256OfElements(const ConstArrayView& view) {
  Sha256 hash;
  ForEachPiece(view, [&](std::string_view piece) { hash.Update(piece); });
  return hash.HexDigest();
}

}  // namespace holdfast::pickle
