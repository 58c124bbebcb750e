#include "foreign/dcp/dcp_target.h"

#include <algorithm>
#include <cstring>
#include <unordered_set>

#include "engine/restore/leaf_request.h"
#include "foreign/dcp/dcp.h"
#include "foreign/dcp/dcp_metadata.h"
#include "foreign/extents/piece_sums.h"
#include "foreign/extents/target_pieces.h"
#include "foreign/extents/target_sidecar.h"
#include "foreign/megatron/megatron_common.h"
#include "formats/pickle/torch_writer.h"
#include "ground/base/no_throw.h"
#include "ground/base/status_macros.h"
#include "ground/base/utf8.h"
#include "ground/tensor/grid.h"
#include "holdfast/tools/torch_file.h"
#include "stores/place/directory_ops.h"
#include "stores/storage/positioned_file.h"

namespace holdfast {
namespace {

constexpr uint64_t kFileBytesDefault = uint64_t{5} << 30;
constexpr std::string_view kMegatronJson =
    R"({"sharded_backend": "torch_dist", "sharded_backend_version": 1, )"
    R"("common_backend": "torch", "common_backend_version": 1})";

// A torch.save file with one tensor.
struct PlannedRecord {
  Box box;
  size_t file = 0;
  uint64_t offset = 0;      // of the record
  uint64_t head_bytes = 0;  // before the elements
  size_t number = 0;        // index in all records
};

struct PlannedLeaf {
  std::vector<PlannedRecord> records;  // arrays
  Shape step;                          // of the grid of records
  size_t entry = 0;                    // of the metadata
  DType stored = DType::kUint8;
  std::string object;  // objects: the record's bytes
  bool is_stored = false;
};

// Returns the shape (1, ..., count, full extents...) of a box of at most
// bytes_max bytes.
Shape RecordShape(const TargetLeaf& leaf, uint64_t bytes_max) {
  if (!leaf.chunk_shape.empty()) return leaf.chunk_shape;
  Shape shape = leaf.shape;
  uint64_t bytes = leaf.byte_count();
  for (size_t i = 0; i < shape.size() && bytes > bytes_max; ++i) {
    const uint64_t step = bytes / static_cast<uint64_t>(shape[i]);
    const uint64_t count = std::max<uint64_t>(1, bytes_max / step);
    shape[i] = std::min<int64_t>(shape[i], static_cast<int64_t>(count));
    bytes = step * static_cast<uint64_t>(shape[i]);
  }
  return shape;
}

bool IsUniqueKey(std::string_view name) {
  const size_t slash = name.rfind('/');
  return slash != std::string_view::npos &&
         name.substr(slash + 1).starts_with("shard_");
}

// Returns the value of a leaf that is not an array; nullopt if torch has no
// such value.
std::optional<PickleValue> ValueOfLeaf(const TargetLeaf& leaf) {
  switch (leaf.kind) {
    case ValueKind::kString:
    case ValueKind::kJson:
      if (!IsValidUtf8(leaf.text)) return std::nullopt;
      return SmallPickleValue(leaf);
    case ValueKind::kNone:
    case ValueKind::kEmptyDict:
    case ValueKind::kEmptyList:
    case ValueKind::kEmptyTuple:
    case ValueKind::kBytes:
      return SmallPickleValue(leaf);
    case ValueKind::kScalar:
      break;
    default:
      return std::nullopt;
  }
  Scalar scalar;
  scalar.dtype = leaf.dtype;
  std::memcpy(scalar.bytes.data(), leaf.text.data(), leaf.text.size());
  const Result<PickleValue> value = PickleValueOf(Tree(scalar));
  return value.ok() ? std::optional(*value) : std::nullopt;
}

class DcpTarget final : public FormatTarget {
 public:
  explicit DcpTarget(bool is_megatron) : is_megatron_(is_megatron) {}

  Status Begin(const TargetPlan& plan, const std::string& directory,
               bool resume) override {
    return CatchBadAlloc([&]() -> Status {
      plan_ = plan;
      directory_ = directory;
      planned_.resize(plan.leaves.size());
      for (size_t i = 0; i < plan.leaves.size(); ++i) {
        HF_RETURN_IF_ERROR(PlanLeaf(i));
      }
      for (size_t i = 0; i < file_bytes_.size(); ++i) {
        HF_ASSIGN_OR_RETURN(files_.emplace_back(),
                            PositionedFile::Open(directory + "/" + FileName(i),
                                                 file_bytes_[i], resume));
      }
      return Status();
    });
  }

  std::vector<Box> PiecesOf(size_t leaf, uint64_t bytes_max) const override {
    std::vector<Box> pieces;
    if (plan_.leaves[leaf].byte_count() == 0) return pieces;
    for (const PlannedRecord& record : planned_[leaf].records) {
      for (Box& piece : CPiecesOf(PartOf(leaf, record), bytes_max)) {
        pieces.push_back(Absolute(std::move(piece), record.box.origin));
      }
    }
    return pieces;
  }

  Result<std::string> Write(size_t leaf, const Box& box,
                            std::string_view elements) override {
    PlannedRecord* record = FindRecord(leaf, box);
    if (record == nullptr) return NoPiece(leaf, box);
    HF_ASSIGN_OR_RETURN(
        const uint64_t offset,
        CPieceOffset(PartOf(leaf, *record), Relative(box, record->box.origin),
                     elements));
    HF_RETURN_IF_ERROR(files_[record->file]->WriteAt(
        record->offset + record->head_bytes + offset, elements));
    return sums_.Add(record->number, offset, elements);
  }

  Status Restore(size_t leaf, const Box& box, std::string_view mark) override {
    PlannedRecord* record = FindRecord(leaf, box);
    if (record == nullptr) return NoPiece(leaf, box);
    return sums_.Restore(record->number, PartOf(leaf, *record),
                         Relative(box, record->box.origin), mark);
  }

  Status SyncData() override {
    if (!plan_.options.sync) return Status();
    for (const auto& file : files_) HF_RETURN_IF_ERROR(file->Sync());
    return SyncDirectory(Place(directory_));
  }

  // Writes the metadata last: without them, no reader takes the directory for a
  // checkpoint.
  Status Finish() override {
    return CatchBadAlloc([&]() -> Status {
      for (size_t i = 0; i < planned_.size(); ++i) {
        HF_RETURN_IF_ERROR(FinishLeaf(i));
      }
      HF_RETURN_IF_ERROR(SyncData());
      HF_RETURN_IF_ERROR(WriteSidecar());
      if (is_megatron_) HF_RETURN_IF_ERROR(WriteCommonState());
      metadata_.checkpoint_id = plan_.options.final_path;
      HF_ASSIGN_OR_RETURN(const std::string metadata,
                          DcpMetadataBytes(metadata_, is_megatron_));
      HF_RETURN_IF_ERROR(WriteFile(kDcpMetadataFile, metadata));
      if (is_megatron_) {
        HF_RETURN_IF_ERROR(WriteFile("metadata.json", kMegatronJson));
      }
      return plan_.options.sync ? SyncDirectory(Place(directory_)) : Status();
    });
  }

 private:
  std::string_view format() const {
    return is_megatron_ ? "torch-dist" : "dcp";
  }

  Status Refuse(const TargetLeaf& leaf, const std::string& why) const {
    return InvalidArgumentError("leaf " + leaf.name + ": " +
                                std::string(format()) + ": " + why);
  }

  Status NoPiece(size_t leaf, const Box& box) const {
    return Refuse(plan_.leaves[leaf], BoxToString(box) + " is not part of it");
  }

  // Returns a record as a separate leaf, for the functions of target_pieces.h.
  TargetLeaf PartOf(size_t leaf, const PlannedRecord& record) const {
    TargetLeaf part;
    part.name = plan_.leaves[leaf].name;
    part.dtype = plan_.leaves[leaf].dtype;
    part.shape = record.box.shape;
    return part;
  }

  PlannedRecord* FindRecord(size_t leaf, const Box& box) {
    PlannedLeaf& planned = planned_[leaf];
    const Shape& shape = plan_.leaves[leaf].shape;
    if (box.origin.size() != shape.size() || box.shape.size() != shape.size() ||
        planned.step.empty() != shape.empty()) {
      return nullptr;
    }
    size_t number = 0;
    for (size_t i = 0; i < shape.size(); ++i) {
      const int64_t step = planned.step[i];
      number = number * static_cast<size_t>((shape[i] + step - 1) / step) +
               static_cast<size_t>(box.origin[i] / step);
    }
    if (number >= planned.records.size()) return nullptr;
    PlannedRecord& record = planned.records[number];
    const auto common = Intersect(record.box, box);
    return common && *common == box ? &record : nullptr;
  }

  static std::string FileName(size_t number) {
    return "__0_" + std::to_string(number) + ".distcp";
  }

  // Reserves room for a record at the end of the last file.
  DcpRecord NextRecord(uint64_t byte_count) {
    const uint64_t bytes_max = plan_.options.shard_bytes_max != 0
                                   ? plan_.options.shard_bytes_max
                                   : kFileBytesDefault;
    const bool is_full =
        !file_bytes_.empty() && file_bytes_.back() != 0 &&
        (byte_count > bytes_max || file_bytes_.back() > bytes_max - byte_count);
    if (file_bytes_.empty() || is_full) file_bytes_.push_back(0);
    const DcpRecord record{FileName(file_bytes_.size() - 1), file_bytes_.back(),
                           byte_count};
    file_bytes_.back() += byte_count;
    return record;
  }

  // Returns the leaf's name in the format.
  std::string StoredName(const TargetLeaf& leaf) const {
    if (!is_megatron_ || leaf.kind == ValueKind::kArray ||
        IsUniqueKey(leaf.name)) {
      return leaf.name;
    }
    return leaf.name + "/shard_0_1";
  }

  Status PlanLeaf(size_t i) {
    const TargetLeaf& leaf = plan_.leaves[i];
    DcpEntry entry;
    entry.name = StoredName(leaf);
    entry.key = leaf.key;
    entry.key_kinds = leaf.key_kinds;
    if (HasNoName(leaf)) {
      entry.key = {leaf.name};
      entry.key_kinds = {KeyKind::kName};
    }
    if (!IsValidUtf8(entry.name)) return Refuse(leaf, "its name is not UTF-8");
    if (leaf.kind == ValueKind::kArray) {
      HF_RETURN_IF_ERROR(PlanArray(i, entry));
    } else {
      HF_ASSIGN_OR_RETURN(planned_[i].object, ObjectBytes(leaf));
      if (planned_[i].object.empty()) return Status();
      entry.is_object = true;
      entry.record = NextRecord(planned_[i].object.size());
    }
    if (!names_.insert(entry.name).second) {
      return Refuse(leaf, "there are two leaves of this name");
    }
    planned_[i].entry = metadata_.entries.size();
    planned_[i].is_stored = true;
    metadata_.entries.push_back(std::move(entry));
    return Status();
  }

  Status PlanArray(size_t i, DcpEntry& entry) {
    const TargetLeaf& leaf = plan_.leaves[i];
    const StoredAs stored = StorableDType(format(), leaf.dtype);
    if (stored.last_axis != 0) return Refuse(leaf, "its dtype has no bits");
    planned_[i].stored = stored.dtype;
    entry.dtype = stored.dtype;
    entry.shape = leaf.shape;
    Shape& step = planned_[i].step;
    step = RecordShape(leaf, kDcpRecordBytesMax);
    for (int64_t& extent : step) extent = std::max<int64_t>(extent, 1);
    if (step.size() != leaf.shape.size()) {
      return Refuse(leaf, "a chunk shape of another rank");
    }
    std::vector<Box> boxes = ChunkGrid{leaf.shape, step}.ChunkBoxes();
    if (boxes.empty()) boxes.push_back(BoxOf(leaf.shape));
    for (Box& box : boxes) {
      HF_ASSIGN_OR_RETURN(const pickle::TensorFilePlan file,
                          pickle::PlanTensorFile(stored.dtype, box.shape));
      PlannedRecord record;
      record.box = box;
      record.head_bytes = file.head.size();
      DcpRecord place = NextRecord(file.byte_count());
      record.file = file_bytes_.size() - 1;
      record.offset = place.offset;
      record.number = record_count_++;
      planned_[i].records.push_back(std::move(record));
      entry.chunks.push_back({std::move(box), std::move(place)});
    }
    return Status();
  }

  // Returns the record of a leaf that is not an array; empty if it has no
  // record.
  Result<std::string> ObjectBytes(const TargetLeaf& leaf) const {
    if (leaf.kind == ValueKind::kObject) {
      if (!is_megatron_) return leaf.text;
      if (leaf.name == kCommonStateLeaf) return std::string();
      Result<std::string> listed = pickle::WrapInList(leaf.text);
      if (!listed.ok()) {
        return listed.status().WithContext("leaf " + leaf.name);
      }
      return listed;
    }
    // Megatron's readers expect such values in the common state.
    if (is_megatron_) return std::string();
    const auto value = ValueOfLeaf(leaf);
    return value ? WriteTorchFile(*value) : std::string();
  }

  Status FinishLeaf(size_t i) {
    const PlannedLeaf& planned = planned_[i];
    if (!planned.is_stored) return Status();
    if (plan_.leaves[i].kind != ValueKind::kArray) {
      const DcpRecord& place = metadata_.entries[planned.entry].record;
      for (size_t file = 0; file < files_.size(); ++file) {
        if (FileName(file) != place.file) continue;
        return files_[file]->WriteAt(place.offset, planned.object);
      }
      return InternalError("dcp: a record has no file");
    }
    for (const PlannedRecord& record : planned.records) {
      HF_ASSIGN_OR_RETURN(
          const pickle::TensorFilePlan file,
          pickle::PlanTensorFile(planned.stored, record.box.shape));
      HF_ASSIGN_OR_RETURN(const uint32_t crc,
                          CrcOf(i, record, file.data_bytes));
      HF_RETURN_IF_ERROR(
          files_[record.file]->WriteAt(record.offset, file.head));
      HF_RETURN_IF_ERROR(files_[record.file]->WriteAt(
          record.offset + file.head.size() + file.data_bytes,
          pickle::TensorFileTail(file, crc)));
    }
    return Status();
  }

  Result<uint32_t> CrcOf(size_t leaf, const PlannedRecord& record,
                         uint64_t data_bytes) const {
    const PieceSums::Sum sum = sums_.Of(record.number);
    if (sum.byte_count == data_bytes) return sum.crc32;
    return Refuse(plan_.leaves[leaf], "pieces of " + BoxToString(record.box) +
                                          " were not written, or twice (got " +
                                          std::to_string(sum.byte_count) +
                                          " bytes, want " +
                                          std::to_string(data_bytes) + ")");
  }

  // Returns whether the leaf's name was made up for the format. Its keys are
  // then in the sidecar.
  static bool HasNoName(const TargetLeaf& leaf) {
    return leaf.key.empty() || (leaf.key.size() == 1 && leaf.key[0].empty());
  }

  // Returns whether the format records everything about the leaf without a
  // sidecar.
  bool IsPlainLeaf(size_t i) const {
    const TargetLeaf& leaf = plan_.leaves[i];
    if (HasTraits(leaf) || HasNoName(leaf)) return false;
    const bool has_path = !is_megatron_ || leaf.key.size() == 1;
    if (leaf.kind == ValueKind::kArray) {
      return has_path && planned_[i].stored == leaf.dtype;
    }
    if (is_megatron_) {
      return leaf.kind == ValueKind::kObject &&
             (leaf.name == kCommonStateLeaf || IsUniqueKey(leaf.name));
    }
    if (leaf.kind == ValueKind::kScalar) {
      return leaf.dtype == DType::kBool || leaf.dtype == DType::kInt64 ||
             leaf.dtype == DType::kFloat64 || leaf.dtype == DType::kComplex128;
    }
    if (leaf.kind == ValueKind::kObject && IsReadAsValue(leaf.text)) {
      return false;
    }
    return leaf.kind != ValueKind::kJson && planned_[i].is_stored;
  }

  // Returns the name of the leaf for a reader without the sidecar.
  std::string SidecarName(size_t i) const {
    const TargetLeaf& leaf = plan_.leaves[i];
    if (IsEmptyKind(leaf.kind)) return "";
    if (is_megatron_ && leaf.kind == ValueKind::kObject &&
        leaf.name == kCommonStateLeaf) {
      return leaf.name;
    }
    if (!planned_[i].is_stored) return "";
    return is_megatron_ ? StoredName(leaf) : leaf.name;
  }

  Status WriteSidecar() {
    bool is_needed = HasCustomMetadata(plan_.source_info);
    std::vector<std::string> stored;
    for (size_t i = 0; i < planned_.size(); ++i) {
      is_needed = is_needed || !IsPlainLeaf(i);
      stored.push_back(SidecarName(i));
    }
    if (!is_needed) return Status();
    return WriteFile(kSidecarFile, SidecarText(SidecarOf(plan_, stored)));
  }

  Status WriteCommonState() {
    std::vector<PickleValue::Pair> values;
    for (const TargetLeaf& leaf : plan_.leaves) {
      if (leaf.kind == ValueKind::kObject && leaf.name == kCommonStateLeaf) {
        return WriteFile("common.pt", leaf.text);
      }
      if (leaf.kind == ValueKind::kArray || leaf.kind == ValueKind::kObject) {
        continue;
      }
      if (auto value = ValueOfLeaf(leaf)) {
        values.emplace_back(PickleValue::String(leaf.name), *std::move(value));
      }
    }
    HF_ASSIGN_OR_RETURN(const std::string text,
                        WriteTorchFile(PickleValue::Dict(std::move(values))));
    return WriteFile("common.pt", text);
  }

  Status WriteFile(std::string_view name, std::string_view text) {
    return WriteTargetFile(directory_, name, text, plan_.options.sync);
  }

  const bool is_megatron_;
  TargetPlan plan_;
  std::string directory_;
  std::vector<PlannedLeaf> planned_;  // in the order of plan_.leaves
  std::unordered_set<std::string> names_;
  DcpMetadata metadata_;
  std::vector<uint64_t> file_bytes_;
  std::vector<std::unique_ptr<PositionedFile>> files_;  // by number
  size_t record_count_ = 0;
  PieceSums sums_;  // by record
};

}  // namespace

std::unique_ptr<FormatTarget> MakeDcpTarget(bool is_megatron) {
  return std::make_unique<DcpTarget>(is_megatron);
}

}  // namespace holdfast
