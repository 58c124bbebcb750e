#include "formats/pickle/torch_writer.h"

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "formats/pickle/elements.h"
#include "formats/pickle/numpy_dtype.h"
#include "formats/pickle/pickle_writer.h"
#include "formats/pickle/torch_archive.h"
#include "formats/zip/zip_writer.h"
#include "ground/base/status_macros.h"
#include "holdfast/tools/torch_file.h"

namespace holdfast {
namespace pickle {
namespace {

constexpr std::string_view kRoot = "archive";

std::string EntryName(std::string_view name) {
  return std::string(kRoot) + "/" + std::string(name);
}

// Adds the entries that torch writes before the storages.
void AddHead(ZipWriter& zip, std::string_view pickle) {
  zip.Add(EntryName("data.pkl"), pickle);
  zip.Add(EntryName(".format_version"), "1");
  zip.Add(EntryName(".storage_alignment"), "64");
  zip.Add(EntryName("byteorder"), "little");
}

void AddTail(ZipWriter& zip) {
  zip.Add(EntryName("version"), "3\n");
  zip.Finish(kRoot);
}

// Writes the archive up to the elements of its tensor.
void AddTensorHead(ZipWriter& zip, const TensorFilePlan& plan) {
  PickleWriter pickle;
  pickle.PutTensor(plan.dtype, plan.shape, "0");
  AddHead(zip, pickle.Finish());
  zip.BeginEntry(EntryName("data/0"), plan.data_bytes);
}

Status NoTorchDType(DType dtype) {
  return InvalidArgumentError("torch has no dtype " +
                              std::string(DTypeName(dtype)));
}

// Writes the entries of a file with another pickle.
std::string WithPickle(
    std::string_view pickle,
    const std::vector<std::pair<std::string, std::string>>& storages) {
  ZipWriter zip;
  AddHead(zip, pickle);
  for (const auto& [name, bytes] : storages) zip.Add(EntryName(name), bytes);
  AddTail(zip);
  return zip.TakeBytes();
}

// Returns the entries "data/..." of an archive.
Result<std::vector<std::pair<std::string, std::string>>> StoragesOf(
    const TorchArchive& archive) {
  std::vector<std::pair<std::string, std::string>> storages;
  for (const ZipEntry& entry : archive.zip().entries()) {
    const std::string_view name =
        std::string_view(entry.name).substr(entry.name.find('/') + 1);
    if (!name.starts_with("data/")) continue;
    HF_ASSIGN_OR_RETURN(std::string bytes, archive.zip().Read(entry));
    storages.emplace_back(std::string(name), std::move(bytes));
  }
  return storages;
}

// Returns true for protocol 2 without frames, where memo indices are explicit,
// so opcodes may be added before and after the existing ones.
bool IsPlainProtocol2(std::string_view pickle) {
  return pickle.starts_with("\x80\x02") && pickle.ends_with('.');
}

}  // namespace

Result<TensorFilePlan> PlanTensorFile(DType dtype, const Shape& shape) {
  if (!TorchStorageOf(dtype)) return NoTorchDType(dtype);
  TensorFilePlan plan;
  plan.dtype = dtype;
  plan.shape = shape;
  plan.data_bytes =
      static_cast<uint64_t>(ElementCount(shape)) * DTypeBytes(dtype);
  ZipWriter zip;
  AddTensorHead(zip, plan);
  plan.head = zip.TakeBytes();
  plan.tail_bytes = TensorFileTail(plan, 0).size();
  return plan;
}

std::string TensorFileTail(const TensorFilePlan& plan, uint32_t crc32) {
  ZipWriter zip;
  AddTensorHead(zip, plan);
  zip.TakeBytes();
  zip.Skip(plan.data_bytes);
  zip.EndEntry(crc32);
  AddTail(zip);
  return zip.TakeBytes();
}

Result<std::string> WrapInList(std::string_view torch_file) {
  const MemorySource source(torch_file);
  HF_ASSIGN_OR_RETURN(const TorchArchive archive, TorchArchive::Open(source));
  HF_ASSIGN_OR_RETURN(const std::string pickle, archive.ReadPickleText());
  if (!IsPlainProtocol2(pickle)) {
    HF_ASSIGN_OR_RETURN(PickleValue value, ReadTorchFile(torch_file));
    return WriteTorchFile(PickleValue::List({std::move(value)}));
  }
  HF_RETURN_IF_ERROR(RunPickle(pickle, {.persistent_ids = true}).status());
  HF_ASSIGN_OR_RETURN(const auto storages, StoragesOf(archive));
  // Without the two bytes of PROTO and the STOP.
  const std::string_view inner(pickle.data() + 2, pickle.size() - 3);
  return WithPickle("\x80\x02]" + std::string(inner) + "a.", storages);
}

Result<std::string> UnwrapFromList(std::string_view torch_file) {
  const MemorySource source(torch_file);
  HF_ASSIGN_OR_RETURN(const TorchArchive archive, TorchArchive::Open(source));
  HF_ASSIGN_OR_RETURN(const std::string pickle, archive.ReadPickleText());
  HF_ASSIGN_OR_RETURN(const Program program,
                      RunPickle(pickle, {.persistent_ids = true}));
  const Node& list = program.node(program.root);
  if (list.kind != NodeKind::kList || list.children.size() != 1) {
    return DataLossError("torch file: it holds " +
                         std::string(NodeKindName(list.kind)) +
                         ", not a list of one object");
  }
  // PROTO 2, EMPTY_LIST, BINPUT (optional), the object, APPEND, STOP.
  if (IsPlainProtocol2(pickle) && pickle.ends_with("a.") && pickle.size() > 5 &&
      pickle[2] == ']') {
    const size_t start = pickle[3] == 'q' ? 5 : 3;
    std::string inner =
        "\x80\x02" + pickle.substr(start, pickle.size() - start - 2) + ".";
    const auto alone = RunPickle(inner, {.persistent_ids = true});
    if (alone.ok() && alone->byte_count == inner.size()) {
      HF_ASSIGN_OR_RETURN(const auto storages, StoragesOf(archive));
      return WithPickle(inner, storages);
    }
  }
  HF_ASSIGN_OR_RETURN(const PickleValue value, ReadTorchFile(torch_file));
  return WriteTorchFile(value.items()[0]);
}

// ---- complete values
namespace {

class ValueWriter {
 public:
  Result<std::string> WritePickle(const PickleValue& value) && {
    HF_RETURN_IF_ERROR(Put(value));
    if (arrays_.empty()) return pickle_.Finish();
    return InvalidArgumentError("pickle: a tensor needs a file of its own");
  }

  Result<std::string> Write(const PickleValue& value) && {
    HF_RETURN_IF_ERROR(Put(value));
    ZipWriter zip;
    AddHead(zip, pickle_.Finish());
    for (size_t i = 0; i < arrays_.size(); ++i) {
      zip.Add(EntryName("data/" + std::to_string(i)),
              ElementBytes(arrays_[i].view()));
    }
    AddTail(zip);
    return zip.TakeBytes();
  }

 private:
  using Values = std::vector<PickleValue>;
  using Pairs = std::vector<PickleValue::Pair>;

  Status Put(const PickleValue& value);
  Status PutContainer(const PickleValue& value);
  Status PutObject(const PickleValue& value);
  Status PutTuple(const Values& items);
  Status PutItems(const Values& items);
  Status PutPairs(const Pairs& pairs);
  Status PutSet(std::string_view name, const Values& items);
  Status PutTensor(const Array& array);
  Status PutNumpy(const PickleValue& value);
  void PutNumpyDType(std::string_view dtype);
  void PutNumpyState(const PickleValue& value);
  Status PutRecord(const PickleRecord& record);

  PickleWriter pickle_;
  std::vector<Array> arrays_;
  int depth_ = 0;
};

Status ValueWriter::Put(const PickleValue& value) {
  if (depth_ == kPickleDepthMax) {
    return InvalidArgumentError("pickle: values are nested deeper than " +
                                std::to_string(kPickleDepthMax));
  }
  ++depth_;
  const Status status = PutContainer(value);
  --depth_;
  return status;
}

Status ValueWriter::PutContainer(const PickleValue& value) {
  switch (value.kind()) {
    case PickleKind::kNone:
      pickle_.Put(Opcode::kNone);
      return {};
    case PickleKind::kBool:
      pickle_.PutBool(value.bool_value());
      return {};
    case PickleKind::kInt:
      if (const auto small = value.int_value()) {
        pickle_.PutInt(*small);
      } else {
        pickle_.PutBigInt(value.int_bytes());
      }
      return {};
    case PickleKind::kFloat:
      pickle_.PutFloat(value.float_value());
      return {};
    case PickleKind::kString:
      pickle_.PutString(value.text());
      return {};
    case PickleKind::kBytes:
      pickle_.PutBytes(value.text());
      return {};
    case PickleKind::kList:
      pickle_.Put(Opcode::kEmptyList);
      return PutItems(value.items());
    case PickleKind::kTuple:
      return PutTuple(value.items());
    case PickleKind::kDict:
      pickle_.Put(Opcode::kEmptyDict);
      return PutPairs(value.pairs());
    case PickleKind::kTensor:
      return PutTensor(value.array());
    default:
      return PutObject(value);
  }
}

Status ValueWriter::PutObject(const PickleValue& value) {
  switch (value.kind()) {
    case PickleKind::kComplex:
      pickle_.PutGlobal("__builtin__", "complex");
      pickle_.PutFloat(value.float_value());
      pickle_.PutFloat(value.imaginary());
      pickle_.Put(Opcode::kTuple2);
      break;
    case PickleKind::kByteArray:
      pickle_.PutGlobal("__builtin__", "bytearray");
      pickle_.PutBytes(value.text());
      pickle_.Put(Opcode::kTuple1);
      break;
    case PickleKind::kBytesIO:
      pickle_.PutGlobal("_io", "BytesIO");
      pickle_.Append(")\x81(");
      pickle_.PutBytes(value.text());
      pickle_.PutInt(0);
      pickle_.Append("Ntb");
      return {};
    case PickleKind::kSet:
      return PutSet("set", value.items());
    case PickleKind::kFrozenSet:
      return PutSet("frozenset", value.items());
    case PickleKind::kOrderedDict:
      pickle_.PutEmptyHooks();
      return PutPairs(value.pairs());
    case PickleKind::kNamespace:
      pickle_.PutGlobal("argparse", "Namespace");
      pickle_.Append(")\x81}");
      HF_RETURN_IF_ERROR(PutPairs(value.pairs()));
      pickle_.Put(Opcode::kBuild);
      return {};
    case PickleKind::kTorchDType:
      pickle_.PutGlobal("torch",
                        value.text().substr(value.text().find('.') + 1));
      return {};
    case PickleKind::kTorchDevice:
      pickle_.PutGlobal("torch", "device");
      pickle_.PutString(value.text());
      pickle_.Put(Opcode::kTuple1);
      break;
    case PickleKind::kTorchSize:
      pickle_.PutGlobal("torch", "Size");
      HF_RETURN_IF_ERROR(PutTuple(value.items()));
      pickle_.Put(Opcode::kTuple1);
      break;
    case PickleKind::kNdarray:
    case PickleKind::kNumpyScalar:
      return PutNumpy(value);
    case PickleKind::kGlobal:
      pickle_.PutGlobal(value.record().module, value.record().name);
      return {};
    default:
      return PutRecord(value.record());
  }
  pickle_.Put(Opcode::kReduce);
  return {};
}

Status ValueWriter::PutTuple(const Values& items) {
  if (items.empty()) {
    pickle_.Put(Opcode::kEmptyTuple);
    return {};
  }
  pickle_.Put(Opcode::kMark);
  for (const PickleValue& item : items) HF_RETURN_IF_ERROR(Put(item));
  pickle_.Put(Opcode::kTuple);
  return {};
}

Status ValueWriter::PutItems(const Values& items) {
  if (items.empty()) return {};
  pickle_.Put(Opcode::kMark);
  for (const PickleValue& item : items) HF_RETURN_IF_ERROR(Put(item));
  pickle_.Put(Opcode::kAppends);
  return {};
}

Status ValueWriter::PutPairs(const Pairs& pairs) {
  if (pairs.empty()) return {};
  pickle_.Put(Opcode::kMark);
  for (const auto& [key, value] : pairs) {
    HF_RETURN_IF_ERROR(Put(key));
    HF_RETURN_IF_ERROR(Put(value));
  }
  pickle_.Put(Opcode::kSetItems);
  return {};
}

Status ValueWriter::PutSet(std::string_view name, const Values& items) {
  pickle_.PutGlobal("__builtin__", name);
  pickle_.Put(Opcode::kEmptyList);
  HF_RETURN_IF_ERROR(PutItems(items));
  pickle_.Put(Opcode::kTuple1);
  pickle_.Put(Opcode::kReduce);
  return {};
}

Status ValueWriter::PutTensor(const Array& array) {
  if (!TorchStorageOf(array.dtype())) return NoTorchDType(array.dtype());
  pickle_.PutTensor(array.dtype(), array.shape(),
                    std::to_string(arrays_.size()));
  arrays_.push_back(array);
  return {};
}

// Puts numpy.dtype(kind, False, True) with its state.
void ValueWriter::PutNumpyDType(std::string_view dtype) {
  const bool has_order = dtype[0] == '<' || dtype[0] == '|';
  const std::string_view kind = has_order ? dtype.substr(1) : dtype;
  pickle_.PutGlobal("numpy", "dtype");
  if (has_order) {
    pickle_.PutString(kind);
  } else {
    pickle_.PutGlobal("ml_dtypes", kind);
  }
  pickle_.Append("\x89\x88\x87R(");
  pickle_.PutInt(3);
  pickle_.PutString(has_order ? dtype.substr(0, 1) : "<");
  pickle_.Append("NNN");
  const bool has_size = kind[0] == 'U' || kind[0] == 'S' || kind[0] == 'V';
  if (has_size) {
    const int64_t count = std::stoll(std::string(kind.substr(1)));
    pickle_.PutInt(kind[0] == 'U' ? count * 4 : count);
    pickle_.PutInt(kind[0] == 'U' ? 4 : 1);
    pickle_.PutInt(kind[0] == 'U' ? 8 : 0);
  } else {
    pickle_.PutInt(-1);
    pickle_.PutInt(-1);
    pickle_.PutInt(0);
  }
  pickle_.Append("tb");
}

void ValueWriter::PutNumpyState(const PickleValue& value) {
  pickle_.Put(Opcode::kMark);
  pickle_.PutInt(1);
  pickle_.PutInts(value.shape());
  PutNumpyDType(value.numpy_dtype());
  pickle_.PutBool(false);
  pickle_.PutBytes(ElementBytes(value.array().view()));
  pickle_.Append("tb");
}

Status ValueWriter::PutNumpy(const PickleValue& value) {
  if (value.is(PickleKind::kNumpyScalar)) {
    pickle_.PutGlobal("numpy.core.multiarray", "scalar");
    PutNumpyDType(value.numpy_dtype());
    pickle_.PutBytes(ElementBytes(value.array().view()));
    pickle_.Append("\x86R");
    return {};
  }
  pickle_.PutGlobal("numpy.core.multiarray", "_reconstruct");
  pickle_.PutGlobal("numpy", "ndarray");
  pickle_.PutInts({0});
  pickle_.PutBytes("b");
  pickle_.Append("\x87R");
  PutNumpyState(value);
  return {};
}

Status ValueWriter::PutRecord(const PickleRecord& record) {
  if (record.by_name) {
    pickle_.PutGlobal("__builtin__", "getattr");
    pickle_.PutGlobal(record.module, record.name);
    HF_RETURN_IF_ERROR(Put(record.args.at(0)));
    pickle_.Append("\x86R");
    return {};
  }
  pickle_.PutGlobal(record.module, record.name);
  HF_RETURN_IF_ERROR(PutTuple(record.args));
  pickle_.Put(record.is_called ? Opcode::kReduce : Opcode::kNewObj);
  HF_RETURN_IF_ERROR(PutItems(record.items));
  HF_RETURN_IF_ERROR(PutPairs(record.pairs));
  if (!record.state) return {};
  HF_RETURN_IF_ERROR(Put(*record.state));
  pickle_.Put(Opcode::kBuild);
  return {};
}

}  // namespace

Result<std::string> PickleOf(const PickleValue& value) {
  return ValueWriter().WritePickle(value);
}

}  // namespace pickle

Result<std::string> WriteTorchFile(const PickleValue& value) {
  return pickle::ValueWriter().Write(value);
}

}  // namespace holdfast
