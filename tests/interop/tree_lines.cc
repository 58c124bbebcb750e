#include "tree_lines.h"

#include <cstring>
#include <istream>
#include <ostream>
#include <sstream>
#include <utility>
#include <vector>

namespace holdfast::interop {
namespace {

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

// Reads one tree. The first error is kept, and ends the recursion.
class Reader {
 public:
  Reader(std::istream& lines, std::string_view data)
      : lines_(lines), data_(data) {}

  Tree ReadNode() {
    std::istringstream words = NextLine();
    std::string word;
    words >> word;
    if (word == "dict") return Tree::Dict(ReadMembers(ReadCount(words)));
    if (word == "namedtuple") return ReadNamedTuple(words);
    if (word == "list") return Tree::List(ReadItems(ReadCount(words)));
    if (word == "tuple") return Tree::Tuple(ReadItems(ReadCount(words)));
    if (word == "array") return ReadArray(words);
    if (word == "scalar") return ReadScalar(words);
    if (word == "string") return Tree(ReadText(words));
    if (word == "bytes") return Tree::ByteString(ReadText(words));
    if (word == "placeholder") return Tree::Placeholder();
    if (word != "none") Fail("unknown word");
    return Tree::None();
  }

  const Status& status() const { return status_; }

 private:
  void Fail(const std::string& why) {
    if (!status_.ok()) return;
    status_ = InvalidArgumentError("tree lines: line " +
                                   std::to_string(line_number_) + ": " + why);
  }

  std::istringstream NextLine() {
    std::string line;
    ++line_number_;
    if (!status_.ok() || !std::getline(lines_, line)) {
      Fail("ends early");
      line = "none";
    }
    return std::istringstream(line);
  }

  size_t ReadCount(std::istringstream& words) {
    size_t count = 0;
    if (!(words >> count)) Fail("no count");
    return status_.ok() ? count : 0;
  }

  std::string ReadText(std::istringstream& words) {
    std::string hex;
    words >> hex;
    Result<std::string> text = FromHex(hex);
    if (!text.ok()) Fail("bad hex");
    return text.ok() ? *std::move(text) : std::string();
  }

  std::vector<Tree::Member> ReadMembers(size_t count) {
    std::vector<Tree::Member> members;
    for (size_t i = 0; i < count && status_.ok(); ++i) {
      std::istringstream words = NextLine();
      std::string word;
      words >> word;
      if (word != "key") Fail("want a key");
      std::string key = ReadText(words);
      members.emplace_back(std::move(key), ReadNode());
    }
    return members;
  }

  std::vector<Tree> ReadItems(size_t count) {
    std::vector<Tree> items;
    for (size_t i = 0; i < count && status_.ok(); ++i) {
      items.push_back(ReadNode());
    }
    return items;
  }

  Tree ReadNamedTuple(std::istringstream& words) {
    size_t count = ReadCount(words);
    std::string module = ReadText(words);
    std::string name = ReadText(words);
    return Tree::NamedTuple(module, name, ReadMembers(count));
  }

  Tree ReadArray(std::istringstream& words) {
    std::string kind, dtype_name;
    uint64_t offset = 0;
    size_t rank = 0;
    words >> kind >> dtype_name >> offset >> rank;
    std::optional<DType> dtype = DTypeFromName(dtype_name);
    if (!words || !dtype || rank > kRankMax) {
      Fail("bad array");
      return Tree::None();
    }
    Shape shape(rank);
    for (int64_t& extent : shape) words >> extent;
    uint64_t bytes =
        static_cast<uint64_t>(ElementCount(shape)) * DTypeBytes(*dtype);
    if (!words || offset > data_.size() || bytes > data_.size() - offset) {
      Fail("array outside the data");
      return Tree::None();
    }
    ConstArrayView view{*dtype, data_.data() + offset, shape,
                        ContiguousStrides(shape, DTypeBytes(*dtype))};
    Array array = Array::Borrow(view, nullptr);
    return kind == "jax" ? Tree::JaxArray(std::move(array))
                         : Tree(std::move(array));
  }

  Tree ReadScalar(std::istringstream& words) {
    std::string origin, dtype_name;
    words >> origin >> dtype_name;
    std::optional<DType> dtype = DTypeFromName(dtype_name);
    std::string bytes = ReadText(words);
    if (!dtype || bytes.size() != DTypeBytes(*dtype)) {
      Fail("bad scalar");
      return Tree::None();
    }
    Scalar scalar{*dtype, origin == "python", {}};
    std::memcpy(scalar.bytes.data(), bytes.data(), bytes.size());
    return Tree(scalar);
  }

  std::istream& lines_;
  std::string_view data_;
  int64_t line_number_ = 0;
  Status status_;
};

class Writer {
 public:
  Writer(std::ostream& lines, std::ostream& data)
      : lines_(lines), data_(data) {}

  void WriteNode(const Tree& tree) {
    switch (tree.kind()) {
      case NodeKind::kDict:
        lines_ << "dict " << tree.size() << "\n";
        return WriteChildren(tree);
      case NodeKind::kNamedTuple:
        lines_ << "namedtuple " << tree.size() << " "
               << ToHex(tree.type_module()) << " " << ToHex(tree.type_name())
               << "\n";
        return WriteChildren(tree);
      case NodeKind::kList:
        lines_ << "list " << tree.size() << "\n";
        return WriteChildren(tree);
      case NodeKind::kTuple:
        lines_ << "tuple " << tree.size() << "\n";
        return WriteChildren(tree);
      case NodeKind::kLeaf:
        return WriteLeaf(tree);
    }
  }

 private:
  void WriteChildren(const Tree& tree) {
    for (size_t i = 0; i < tree.size(); ++i) {
      if (tree.is_mapping()) {
        lines_ << "key " << ToHex(tree.keys()[i]) << "\n";
      }
      WriteNode(tree.children()[i]);
    }
  }

  void WriteLeaf(const Tree& tree) {
    switch (tree.leaf_kind()) {
      case LeafKind::kArray:
        return WriteArray(tree);
      case LeafKind::kScalar:
        lines_ << "scalar " << (tree.scalar().is_python ? "python" : "numpy")
               << " " << DTypeName(tree.scalar().dtype) << " "
               << ToHex(tree.scalar().view()) << "\n";
        return;
      case LeafKind::kString:
        lines_ << "string " << ToHex(tree.text()) << "\n";
        return;
      case LeafKind::kBytes:
        lines_ << "bytes " << ToHex(tree.text()) << "\n";
        return;
      case LeafKind::kPlaceholder:
        lines_ << "placeholder\n";
        return;
      default:
        lines_ << "none\n";
    }
  }

  void WriteArray(const Tree& tree) {
    const Array& array = tree.array();
    lines_ << "array "
           << (tree.array_kind() == ArrayKind::kJax ? "jax" : "numpy") << " "
           << DTypeName(array.dtype()) << " " << offset_ << " "
           << array.shape().size();
    for (int64_t extent : array.shape()) lines_ << " " << extent;
    lines_ << "\n";
    WriteElements(array.view(), 0, array.view().data);
    offset_ += array.byte_count();
  }

  void WriteElements(const ConstArrayView& view, size_t axis,
                     const char* from) {
    if (IsContiguous(view)) {
      data_.write(view.data, ElementCount(view.shape) *
                                 static_cast<int64_t>(DTypeBytes(view.dtype)));
      return;
    }
    if (axis == view.shape.size()) {
      data_.write(from, static_cast<int64_t>(DTypeBytes(view.dtype)));
      return;
    }
    for (int64_t i = 0; i < view.shape[axis]; ++i) {
      WriteElements(view, axis + 1, from + i * view.strides[axis]);
    }
  }

  std::ostream& lines_;
  std::ostream& data_;
  uint64_t offset_ = 0;
};

}  // namespace

Result<Tree> ReadTreeLines(std::istream& lines, std::string_view data) {
  Reader reader(lines, data);
  Tree tree = reader.ReadNode();
  if (!reader.status().ok()) return reader.status();
  return tree;
}

Status WriteTreeLines(const Tree& tree, std::ostream& lines,
                      std::ostream& data) {
  Writer(lines, data).WriteNode(tree);
  lines.flush();
  data.flush();
  if (!lines || !data) return UnavailableError("tree lines: write failed");
  return Status();
}

std::string ToHex(std::string_view bytes) {
  if (bytes.empty()) return "-";
  constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (char c : bytes) {
    hex += kDigits[(c >> 4) & 15];
    hex += kDigits[c & 15];
  }
  return hex;
}

Result<std::string> FromHex(std::string_view hex) {
  std::string bytes;
  if (hex == "-") return bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    int high = HexDigit(hex[i]), low = HexDigit(hex[i + 1]);
    if (high < 0 || low < 0) return InvalidArgumentError("not hex");
    bytes += static_cast<char>(high * 16 + low);
  }
  if (hex.size() % 2) return InvalidArgumentError("odd number of hex digits");
  return bytes;
}

}  // namespace holdfast::interop
