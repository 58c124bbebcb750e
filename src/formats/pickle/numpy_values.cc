#include "formats/pickle/numpy_values.h"

#include <algorithm>
#include <string_view>

#include "formats/pickle/elements.h"
#include "formats/pickle/numpy_dtype.h"
#include "formats/pickle/pickle_reader.h"
#include "formats/pickle/tensor_parts.h"
#include "ground/base/status_macros.h"

namespace holdfast::pickle {
namespace {

Status BadNumpy(const std::string& what) {
  return DataLossError("pickle: a numpy value " + what);
}

const Node* Arg(const Program& program, const std::vector<NodeIndex>& args,
                size_t i, NodeKind kind) {
  if (i >= args.size() || program.node(args[i]).kind != kind) return nullptr;
  return &program.node(args[i]);
}

// Reads numpy.dtype('f4', False, True) with the state (version, byte order,
// subarray, names, fields, element size, alignment, flags, ...).
Result<NumpyDType> DTypeOfNode(const Program& program, const Node& node) {
  if (node.kind != NodeKind::kObject ||
      program.global(program.node(program.object(node).callee)).use !=
          NameUse::kNumpyDType) {
    return BadNumpy("has no dtype");
  }
  const Object& object = program.object(node);
  const auto& args = program.node(object.args).children;
  std::string kind;
  if (const Node* text = Arg(program, args, 0, NodeKind::kString)) {
    kind = text->text;
  } else if (const Node* cls = Arg(program, args, 0, NodeKind::kGlobal)) {
    kind = program.global(*cls).name;
  } else {
    return BadNumpy("has a dtype without a name");
  }
  char byte_order = '|';
  int64_t element_bytes = -1;
  if (object.state) {
    const Node& state = program.node(*object.state);
    if (state.kind != NodeKind::kTuple || state.children.size() < 7) {
      return BadNumpy("has a dtype whose state is not one");
    }
    const Node* order = Arg(program, state.children, 1, NodeKind::kString);
    const Node* size = Arg(program, state.children, 5, NodeKind::kInt);
    if (order == nullptr || order->text.size() != 1 || size == nullptr) {
      return BadNumpy("has a dtype whose state is not one");
    }
    if (program.node(state.children[2]).kind != NodeKind::kNone ||
        program.node(state.children[3]).kind != NodeKind::kNone) {
      return UnimplementedError("pickle: a numpy array of dtype " + kind +
                                " is structured, which is not read");
    }
    byte_order = order->text[0];
    element_bytes = size->number;
  }
  const auto dtype = ParseNumpyDType(kind, byte_order, element_bytes);
  if (!dtype) {
    return UnimplementedError("pickle: a numpy array is of dtype " + kind +
                              ", which is not read");
  }
  return *dtype;
}

void SwapParts(std::string& bytes, int64_t part) {
  if (part <= 1) return;
  for (size_t i = 0; i + part <= bytes.size(); i += part) {
    std::reverse(bytes.begin() + static_cast<long>(i),
                 bytes.begin() + static_cast<long>(i + part));
  }
}

// Makes a value from `bytes` in C or Fortran order, after checking their size.
Result<PickleValue> Assemble(PickleKind kind, const NumpyDType& dtype,
                             const Shape& shape, bool is_fortran,
                             std::string bytes) {
  if (shape.size() >= kRankMax) {
    return UnimplementedError("pickle: a numpy array has " +
                              std::to_string(shape.size()) + " axes");
  }
  int64_t count = dtype.element_bytes;
  for (const int64_t extent : shape) {
    if (extent < 0 || __builtin_mul_overflow(count, extent, &count)) {
      return BadNumpy("has the shape " + ShapeToString(shape));
    }
  }
  // An extent of zero makes the array empty, even if the product of the others
  // would overflow.
  if (ElementCount(shape) == 0) count = 0;
  if (count != static_cast<int64_t>(bytes.size())) {
    return BadNumpy("of shape " + ShapeToString(shape) + " and dtype " +
                    dtype.name + " has " + std::to_string(bytes.size()) +
                    " bytes, not " + std::to_string(count));
  }
  SwapParts(bytes, dtype.swap_bytes);
  Shape extents = shape;
  Shape strides = ContiguousStrides(shape, 1);
  if (is_fortran) {
    const Shape reversed(shape.rbegin(), shape.rend());
    strides = ContiguousStrides(reversed, 1);
    std::ranges::reverse(strides);
  }
  for (int64_t& stride : strides) stride *= dtype.element_bytes;
  // Strings and raw bytes have no dtype here, so they become uint8 with one
  // additional axis.
  if (!dtype.dtype) {
    extents.push_back(dtype.element_bytes);
    strides.push_back(1);
  }
  auto owner = std::make_shared<const std::string>(std::move(bytes));
  const char* data = owner->data();
  return PickleValue::Numpy(kind,
                            Array::Borrow({dtype.dtype.value_or(DType::kUint8),
                                           data, extents, strides},
                                          std::move(owner)),
                            dtype.name, shape);
}

// Reads the arguments of __setstate__((version, shape, dtype, is_fortran,
// bytes)).
Result<PickleValue> OfState(const Program& program, const Object& object) {
  if (!object.state) return BadNumpy("is an array without a state");
  const Node& state = program.node(*object.state);
  if (state.kind != NodeKind::kTuple || state.children.size() != 5) {
    return BadNumpy("is an array whose state is not one");
  }
  const auto part = [&](size_t i) -> const Node& {
    return program.node(state.children[i]);
  };
  HF_ASSIGN_OR_RETURN(const Shape shape, ParseInts(program, part(1)));
  HF_ASSIGN_OR_RETURN(const NumpyDType dtype, DTypeOfNode(program, part(2)));
  if (part(3).kind != NodeKind::kBool && part(3).kind != NodeKind::kInt) {
    return BadNumpy("is an array that does not say its order");
  }
  HF_ASSIGN_OR_RETURN(std::string bytes, BytesOfNode(program, part(4)));
  return Assemble(PickleKind::kNdarray, dtype, shape, part(3).number != 0,
                  std::move(bytes));
}

// Reads the arguments of _frombuffer(buffer, dtype, shape, order).
Result<PickleValue> OfBuffer(const Program& program,
                             const std::vector<NodeIndex>& args) {
  const Node* order = Arg(program, args, 3, NodeKind::kString);
  if (args.size() != 4 || order == nullptr) {
    return BadNumpy("is made of no buffer");
  }
  HF_ASSIGN_OR_RETURN(std::string bytes,
                      BytesOfNode(program, program.node(args[0])));
  HF_ASSIGN_OR_RETURN(const NumpyDType dtype,
                      DTypeOfNode(program, program.node(args[1])));
  HF_ASSIGN_OR_RETURN(const Shape shape,
                      ParseInts(program, program.node(args[2])));
  return Assemble(PickleKind::kNdarray, dtype, shape, order->text == "F",
                  std::move(bytes));
}

Result<PickleValue> OfScalar(const Program& program,
                             const std::vector<NodeIndex>& args) {
  if (args.size() != 2) return BadNumpy("is a scalar without a value");
  HF_ASSIGN_OR_RETURN(const NumpyDType dtype,
                      DTypeOfNode(program, program.node(args[0])));
  HF_ASSIGN_OR_RETURN(std::string bytes,
                      BytesOfNode(program, program.node(args[1])));
  return Assemble(PickleKind::kNumpyScalar, dtype, {}, false, std::move(bytes));
}

}  // namespace

Result<std::string> BytesOfArgs(const Program& program,
                                const std::vector<NodeIndex>& args) {
  if (args.empty()) return std::string();
  const Node& first = program.node(args[0]);
  if (first.kind == NodeKind::kBytes || first.kind == NodeKind::kByteArray) {
    return std::string(first.text);
  }
  if (args.size() == 1 && first.kind == NodeKind::kObject) {
    return BytesOfNode(program, first);
  }
  const Node* encoding = Arg(program, args, 1, NodeKind::kString);
  if (first.kind != NodeKind::kString || encoding == nullptr ||
      (encoding->text != "latin1" && encoding->text != "latin-1")) {
    return DataLossError("pickle: bytes are not written as latin1");
  }
  std::string bytes;
  bytes.reserve(first.text.size());
  for (size_t i = 0; i < first.text.size();) {
    const uint32_t c = NextPythonChar(first.text, i);
    if (c > 0xff) {
      return DataLossError("pickle: bytes are not written as latin1");
    }
    bytes += static_cast<char>(c);
  }
  return bytes;
}

Result<std::string> BytesOfNode(const Program& program, const Node& node) {
  if (node.kind == NodeKind::kBytes || node.kind == NodeKind::kByteArray) {
    return std::string(node.text);
  }
  if (node.kind == NodeKind::kObject) {
    const Object& object = program.object(node);
    const NameUse use = program.global(program.node(object.callee)).use;
    const auto& args = program.node(object.args).children;
    const bool has_object =
        !args.empty() && program.node(args[0]).kind == NodeKind::kObject;
    if (!has_object && (use == NameUse::kCodecsEncode ||
                        use == NameUse::kBytes || use == NameUse::kByteArray)) {
      return BytesOfArgs(program, args);
    }
  }
  return DataLossError("pickle: " + std::string(NodeKindName(node.kind)) +
                       " stands where bytes should");
}

Result<PickleValue> NumpyValueOf(const Program& program, const Node& node) {
  const Object& object = program.object(node);
  const auto& args = program.node(object.args).children;
  switch (program.global(program.node(object.callee)).use) {
    case NameUse::kNdarrayReconstruct:
      return OfState(program, object);
    case NameUse::kNdarrayFromBuffer:
      return OfBuffer(program, args);
    default:
      return OfScalar(program, args);
  }
}

}  // namespace holdfast::pickle
