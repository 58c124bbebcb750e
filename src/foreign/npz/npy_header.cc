#include "foreign/npz/npy_header.h"

#include <charconv>
#include <limits>
#include <optional>

#include "formats/pickle/numpy_dtype.h"
#include "ground/base/coding.h"
#include "ground/base/status_macros.h"

namespace holdfast {
namespace {

constexpr std::string_view kNpyMagic = "\x93NUMPY";

Status BadNpy(const std::string& why) {
  return DataLossError("npy header: " + why);
}

struct NpyFields {
  std::optional<std::string> descr;
  std::optional<bool> fortran_order;
  std::optional<Shape> shape;
};

// Parses the dict that numpy writes, and only as much of Python's syntax as
// that needs.
class NpyDict {
 public:
  explicit NpyDict(std::string_view text) : text_(text) {}

  Result<NpyFields> Parse() {
    NpyFields fields;
    HF_RETURN_IF_ERROR(Expect('{'));
    while (!Take('}')) {
      HF_ASSIGN_OR_RETURN(const std::string key, Text());
      HF_RETURN_IF_ERROR(Expect(':'));
      HF_RETURN_IF_ERROR(Value(key, fields));
      if (Take(',')) continue;
      HF_RETURN_IF_ERROR(Expect('}'));
      break;
    }
    SkipSpace();
    if (at_ != text_.size()) return Bad("the end");
    if (!fields.descr || !fields.fortran_order || !fields.shape) {
      return BadNpy("it lacks descr, fortran_order or shape");
    }
    return fields;
  }

 private:
  Status Bad(const std::string& want) const {
    return BadNpy("want " + want + " at byte " + std::to_string(at_));
  }
  void SkipSpace() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) {
      ++at_;
    }
  }
  bool Take(char c) {
    SkipSpace();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  Status Expect(char c) {
    return Take(c) ? Status() : Bad(std::string("'") + c + "'");
  }
  bool TakeWord(std::string_view word) {
    SkipSpace();
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }

  Result<std::string> Text() {
    SkipSpace();
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    if (quote != '\'' && quote != '"') return Bad("a text");
    const size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) return Bad("a text that ends");
    std::string text(text_.substr(at_ + 1, end - at_ - 1));
    if (text.find('\\') != std::string::npos) return Bad("a plain text");
    at_ = end + 1;
    return text;
  }

  Status Value(const std::string& key, NpyFields& fields) {
    if (key == "descr" && !fields.descr) {
      SkipSpace();
      if (at_ < text_.size() && text_[at_] == '[') {
        return UnimplementedError(
            "an array of structures (its dtype is a list of fields)");
      }
      HF_ASSIGN_OR_RETURN(fields.descr, Text());
      return Status();
    }
    if (key == "fortran_order" && !fields.fortran_order) {
      fields.fortran_order = TakeWord("True");
      if (*fields.fortran_order || TakeWord("False")) return Status();
      return Bad("True or False");
    }
    if (key == "shape" && !fields.shape) return ShapeValue(fields);
    return BadNpy("the key \"" + key + "\" is unknown, or there twice");
  }

  Status ShapeValue(NpyFields& fields) {
    Shape shape;
    HF_RETURN_IF_ERROR(Expect('('));
    while (!Take(')')) {
      SkipSpace();
      int64_t extent = 0;
      const char* begin = text_.data() + at_;
      const char* end = text_.data() + text_.size();
      const auto [stop, error] = std::from_chars(begin, end, extent);
      if (error != std::errc() || extent < 0) return Bad("an extent");
      at_ += stop - begin;
      (void)TakeWord("L");  // Python 2
      shape.push_back(extent);
      if (Take(',')) continue;
      HF_RETURN_IF_ERROR(Expect(')'));
      break;
    }
    if (shape.size() + 1 > kRankMax) {
      return UnimplementedError("an array of " + std::to_string(shape.size()) +
                                " axes");
    }
    fields.shape = std::move(shape);
    return Status();
  }

  const std::string_view text_;
  size_t at_ = 0;
};

// Describes the elements of an array that holdfast does not support.
std::string ForeignElements(const std::string& descr, const std::string& kind) {
  const std::string type = " (dtype \"" + descr + "\")";
  switch (kind.empty() ? '\0' : kind[0]) {
    case 'O':
      return "an array of Python objects, which only a pickle can hold";
    case 'M':
      return "an array of dates" + type;
    case 'm':
      return "an array of spans of time" + type;
    case 'U':
      return "an array of texts" + type;
    case 'S':
      return "an array of rows of bytes" + type;
    case 'V':
      return kind == "V1"
                 ? "an array of raw bytes" + type +
                       ": which of the types of ml_dtypes they are, if any, "
                       "the "
                       "file does not say; save array.astype(numpy.float32)"
                 : "an array of raw bytes" + type;
    default:
      return "an array of dtype \"" + descr + "\"";
  }
}

// Sets dtype and byte order from numpy's `descr`, and the length of a string.
Status TakeDescr(const std::string& descr, NpyHeader& header) {
  const char order = descr.empty() ? '|' : descr[0];
  const bool has_order = order == '<' || order == '>' || order == '|';
  const std::string kind = has_order ? descr.substr(1) : descr;
  if (descr == "<V2" || descr == "<f1") {
    header.dtype = kind == "V2" ? DType::kBfloat16 : DType::kFloat8E5m2;
    return Status();
  }
  const auto known = pickle::ParseNumpyDType(kind, order);
  const bool is_text =
      known && header.shape.empty() && (kind[0] == 'U' || kind[0] == 'S');
  if (!known || (!known->dtype && !is_text)) {
    return UnimplementedError(ForeignElements(descr, kind));
  }
  header.is_big_endian = known->swap_bytes != 0;
  if (known->dtype) {
    header.dtype = *known->dtype;
    return Status();
  }
  header.text_kind = kind[0];
  header.dtype = kind[0] == 'U' ? DType::kUint32 : DType::kUint8;
  header.shape.push_back(known->element_bytes /
                         static_cast<int64_t>(DTypeBytes(header.dtype)));
  return Status();
}

// Sets strides and byte count. The last axis of a string is inside its element.
Status TakeLayout(size_t numpy_rank, bool is_fortran, NpyHeader& header) {
  const size_t element_bytes = DTypeBytes(header.dtype);
  const size_t rank = header.shape.size();
  uint64_t bytes = element_bytes;
  bool is_empty = false;
  for (const int64_t extent : header.shape) {
    is_empty |= extent == 0;
    if (extent > 0 &&
        (__builtin_mul_overflow(bytes, static_cast<uint64_t>(extent), &bytes) ||
         bytes > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))) {
      return BadNpy("an array of shape " + ShapeToString(header.shape) +
                    " is too large");
    }
  }
  header.data_bytes = is_empty ? 0 : bytes;
  header.strides.assign(rank, 0);
  int64_t stride = static_cast<int64_t>(element_bytes);
  for (size_t d = rank; d-- > numpy_rank;) {
    header.strides[d] = stride;
    stride *= header.shape[d];
  }
  for (size_t i = 0; i < numpy_rank; ++i) {
    const size_t d = is_fortran ? i : numpy_rank - 1 - i;
    header.strides[d] = stride;
    if (!is_empty) stride *= header.shape[d];
  }
  return Status();
}

}  // namespace

Result<uint64_t> NpyHeaderLength(std::string_view start) {
  if (!start.starts_with(kNpyMagic) || start.size() < 10) {
    return BadNpy("it does not begin with \\x93NUMPY");
  }
  const int major = static_cast<unsigned char>(start[6]);
  const int minor = static_cast<unsigned char>(start[7]);
  if (major < 1 || major > 3 || minor != 0) {
    return UnimplementedError("npy version " + std::to_string(major) + "." +
                              std::to_string(minor) + " (want 1.0 to 3.0)");
  }
  if (major == 1) return 10 + uint64_t{LoadLittle<uint16_t>(&start[8])};
  if (start.size() < kNpyStartBytes) return BadNpy("it is cut");
  const uint64_t length = 12 + uint64_t{LoadLittle<uint32_t>(&start[8])};
  if (length > kNpyHeaderBytesMax) {
    return BadNpy("a length of " + std::to_string(length) + " bytes");
  }
  return length;
}

Result<NpyHeader> ParseNpyHeader(std::string_view bytes) {
  HF_ASSIGN_OR_RETURN(const uint64_t length, NpyHeaderLength(bytes));
  if (bytes.size() != length) return BadNpy("it is cut");
  const size_t text_at = bytes[6] == 1 ? 10 : 12;
  HF_ASSIGN_OR_RETURN(NpyFields fields, NpyDict(bytes.substr(text_at)).Parse());
  NpyHeader header;
  header.header_bytes = length;
  header.shape = *std::move(fields.shape);
  const size_t numpy_rank = header.shape.size();
  HF_RETURN_IF_ERROR(TakeDescr(*fields.descr, header));
  HF_RETURN_IF_ERROR(TakeLayout(numpy_rank, *fields.fortran_order, header));
  return header;
}

std::string NpyHeaderBytes(DType dtype, const Shape& shape) {
  const std::string dict =
      "{'descr': '" + pickle::NumpyDTypeName(dtype) +
      "', 'fortran_order': False, 'shape': " + ShapeToString(shape) + ", }";
  // Magic, version, length, dict and line feed fill a multiple of 64 bytes.
  const size_t length = (10 + dict.size() + 1 + 63) / 64 * 64 - 10;
  std::string out(kNpyMagic);
  out += {'\1', '\0', static_cast<char>(length & 0xff),
          static_cast<char>(length >> 8)};
  out += dict;
  out.append(length - dict.size() - 1, ' ');
  return out + "\n";
}

}  // namespace holdfast
