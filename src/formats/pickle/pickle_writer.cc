#include "formats/pickle/pickle_writer.h"

#include <bit>
#include <limits>

#include "formats/pickle/numpy_dtype.h"
#include "formats/pickle/pickle_reader.h"
#include "ground/base/coding.h"

namespace holdfast::pickle {

void PickleWriter::PutInt(int64_t value) {
  if (value >= 0 && value <= 0xff) {
    Put(Opcode::kBinInt1);
    out_ += static_cast<char>(value);
  } else if (value >= 0 && value <= 0xffff) {
    Put(Opcode::kBinInt2);
    out_ += static_cast<char>(value);
    out_ += static_cast<char>(value >> 8);
  } else if (value >= std::numeric_limits<int32_t>::min() &&
             value <= std::numeric_limits<int32_t>::max()) {
    Put(Opcode::kBinInt);
    PutU32Little(out_, static_cast<uint32_t>(value));
  } else {
    std::string bytes;
    PutU64Little(bytes, static_cast<uint64_t>(value));
    PutBigInt(bytes);
  }
}

void PickleWriter::PutBigInt(std::string_view bytes) {
  if (bytes.size() < 256) {
    Put(Opcode::kLong1);
    out_ += static_cast<char>(bytes.size());
  } else {
    Put(Opcode::kLong4);
    PutU32Little(out_, static_cast<uint32_t>(bytes.size()));
  }
  out_ += bytes;
}

void PickleWriter::PutFloat(double value) {
  Put(Opcode::kBinFloat);
  PutU64Little(out_, __builtin_bswap64(std::bit_cast<uint64_t>(value)));
}

void PickleWriter::PutString(std::string_view utf8) {
  Put(Opcode::kBinUnicode);
  PutU32Little(out_, static_cast<uint32_t>(utf8.size()));
  out_ += utf8;
}

void PickleWriter::PutBytes(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) {
    AppendPythonChar(text, static_cast<unsigned char>(byte));
  }
  PutGlobal("_codecs", "encode");
  PutString(text);
  PutString("latin1");
  Put(Opcode::kTuple2);
  Put(Opcode::kReduce);
}

void PickleWriter::PutGlobal(std::string_view module, std::string_view name) {
  Put(Opcode::kGlobal);
  out_ += module;
  out_ += '\n';
  out_ += name;
  out_ += '\n';
}

void PickleWriter::PutInts(const Shape& values) {
  if (values.empty()) return Put(Opcode::kEmptyTuple);
  if (values.size() > 3) Put(Opcode::kMark);
  for (const int64_t value : values) PutInt(value);
  switch (values.size()) {
    case 1:
      return Put(Opcode::kTuple1);
    case 2:
      return Put(Opcode::kTuple2);
    case 3:
      return Put(Opcode::kTuple3);
    default:
      return Put(Opcode::kTuple);
  }
}

void PickleWriter::PutEmptyHooks() {
  PutGlobal("collections", "OrderedDict");
  Put(Opcode::kEmptyTuple);
  Put(Opcode::kReduce);
}

void PickleWriter::PutTensor(DType dtype, const Shape& shape,
                             std::string_view key) {
  const std::string_view storage = *TorchStorageOf(dtype);
  const auto element = static_cast<int64_t>(DTypeBytes(dtype));
  const int64_t count = ElementCount(shape);
  PutGlobal("torch._utils",
            storage.empty() ? "_rebuild_tensor_v3" : "_rebuild_tensor_v2");
  Put(Opcode::kMark);
  Put(Opcode::kMark);
  PutString("storage");
  if (storage.empty()) {
    PutGlobal("torch.storage", "UntypedStorage");
  } else {
    PutGlobal("torch", storage);
  }
  PutString(key);
  PutString("cpu");
  PutInt(storage.empty() ? count * element : count);
  Put(Opcode::kTuple);
  Put(Opcode::kBinPersid);
  PutInt(0);
  PutInts(shape);
  PutInts(ContiguousStrides(shape, 1));
  PutBool(false);
  PutEmptyHooks();
  if (storage.empty()) PutGlobal("torch", DTypeName(dtype));
  Put(Opcode::kTuple);
  Put(Opcode::kReduce);
}

}  // namespace holdfast::pickle
