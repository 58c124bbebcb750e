// Emits pickles of protocol 2, opcode by opcode.
//
// Thread-safety: one thread. Units: bytes. Errors: none. REQUIRES: strings pass
// IsPythonText and are shorter than 4 GiB.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "formats/pickle/opcodes.h"
#include "holdfast/tensor.h"

namespace holdfast::pickle {

class PickleWriter {
 public:
  PickleWriter() { out_ = "\x80\x02"; }

  void Put(Opcode opcode) { out_ += static_cast<char>(opcode); }
  void PutBool(bool value) {
    Put(value ? Opcode::kNewTrue : Opcode::kNewFalse);
  }
  void PutInt(int64_t value);
  // `bytes` is two's complement, little endian.
  void PutBigInt(std::string_view bytes);
  void PutFloat(double value);
  void PutString(std::string_view utf8);
  // Puts bytes as protocol 2 writes them: as a call of _codecs.encode.
  void PutBytes(std::string_view bytes);
  void PutGlobal(std::string_view module, std::string_view name);
  // Puts a tuple of ints.
  void PutInts(const Shape& values);
  // Puts an empty OrderedDict.
  void PutEmptyHooks();
  // Puts a tensor in C order as a call of _rebuild_tensor_v2 or _v3. REQUIRES:
  // TorchStorageOf(dtype) is not nullopt.
  void PutTensor(DType dtype, const Shape& shape, std::string_view key);
  void Append(std::string_view opcodes) { out_ += opcodes; }

  // Adds the STOP.
  std::string Finish() {
    Put(Opcode::kStop);
    return std::move(out_);
  }

 private:
  std::string out_;
};

}  // namespace holdfast::pickle
