#include "engine/format/shape_json.h"

#include <charconv>

namespace holdfast {

void AppendJsonShape(std::string& out, const Shape& shape) {
  out += '[';
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) out += ", ";
    char digits[24];
    const auto end =
        std::to_chars(digits, digits + sizeof digits, shape[i]).ptr;
    out.append(digits, end);
  }
  out += ']';
}

Status ReadJsonShape(JsonScanner& in, Shape& shape) {
  shape.clear();
  return in.ReadArray([&] {
    int64_t extent = 0;
    HF_RETURN_IF_ERROR(in.ReadInt64(extent));
    if (extent < 0) return in.Error("negative extent");
    if (shape.size() >= kRankMax) {
      return in.Error("rank is too large (want " + std::to_string(kRankMax) +
                      " at most)");
    }
    shape.push_back(extent);
    return Status();
  });
}

}  // namespace holdfast
