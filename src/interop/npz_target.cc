#include "interop/npz_target.h"

#include <charconv>
#include <map>
#include <mutex>
#include <unordered_set>

#include "base/no_throw.h"
#include "base/status_macros.h"
#include "interop/npy_header.h"
#include "interop/npz.h"
#include "interop/target_pieces.h"
#include "interop/target_sidecar.h"
#include "pickle/zip_writer.h"
#include "place/directory_ops.h"
#include "storage/positioned_file.h"
#include "tree/utf8.h"

namespace holdfast {
namespace {

constexpr std::string_view kNpzFile = "arrays.npz";
// A longer text is an array of its own.
constexpr size_t kNpzInlineBytesMax = 4096;

// What a member holds: a header of npy, then the elements of a leaf.
struct NpzMember {
  size_t leaf = 0;
  std::string name;
  std::string header;
  uint64_t byte_count = 0;  // of the elements
  uint64_t offset = 0;      // of the first one, in the archive
};

// A piece that was written, by its offset in the leaf.
struct NpzPiece {
  uint64_t byte_count = 0;
  uint32_t crc32 = 0;
};

class NpzTarget final : public FormatTarget {
 public:
  Status Begin(const TargetPlan& plan, const std::string& directory,
               bool resume) override {
    return CatchBadAlloc([&]() -> Status {
      leaves_ = plan.leaves;
      directory_ = directory;
      sync_ = plan.options.sync;
      HF_RETURN_IF_ERROR(PlanMembers());
      if (NeedsSidecar(plan, "npz")) {
        sidecar_ = SidecarText(SidecarOf(plan, stored_));
      }
      pieces_.resize(leaves_.size());
      HF_ASSIGN_OR_RETURN(const uint64_t byte_count, Lay(nullptr));
      HF_ASSIGN_OR_RETURN(
          file_, PositionedFile::Open(directory + "/" + std::string(kNpzFile),
                                      byte_count, resume));
      return Status();
    });
  }

  std::string OneFile() const override { return std::string(kNpzFile); }

  std::vector<Box> PiecesOf(size_t leaf, uint64_t bytes_max) const override {
    return CPiecesOf(leaves_[leaf], bytes_max);
  }

  Result<std::string> Write(size_t leaf, const Box& box,
                            std::string_view elements) override {
    HF_ASSIGN_OR_RETURN(const uint64_t offset,
                        CPieceOffset(leaves_[leaf], box, elements));
    const uint32_t crc32 = pickle::ZipCrc32(elements);
    HF_RETURN_IF_ERROR(
        file_->WriteAt(members_[member_of_[leaf]].offset + offset, elements));
    AddPiece(leaf, offset, {elements.size(), crc32});
    return std::to_string(crc32);
  }

  Status Restore(size_t leaf, const Box& box, std::string_view mark) override {
    uint32_t crc32 = 0;
    const auto [stop, error] =
        std::from_chars(mark.data(), mark.data() + mark.size(), crc32);
    if (error != std::errc() || stop != mark.data() + mark.size()) {
      return DataLossError("the mark of a piece of leaf " + leaves_[leaf].name +
                           " is no CRC");
    }
    const Shape strides =
        ContiguousStrides(leaves_[leaf].shape, DTypeBytes(leaves_[leaf].dtype));
    uint64_t offset = 0;
    for (size_t d = 0; d < strides.size(); ++d) {
      offset += box.origin[d] * strides[d];
    }
    AddPiece(
        leaf, offset,
        {ElementCount(box.shape) * DTypeBytes(leaves_[leaf].dtype), crc32});
    return Status();
  }

  Status SyncData() override {
    if (!sync_) return Status();
    HF_RETURN_IF_ERROR(file_->Sync());
    return SyncDirectory(directory_);
  }

  Status Finish() override {
    return CatchBadAlloc([&]() -> Status {
      HF_RETURN_IF_ERROR(Lay(file_.get()).status());
      return SyncData();
    });
  }

 private:
  static Status Refuse(const TargetLeaf& leaf, const std::string& why) {
    return InvalidArgumentError("leaf " + leaf.name + ": npz: " + why);
  }

  Status PlanMembers() {
    std::unordered_set<std::string_view> names;
    stored_.resize(leaves_.size());
    member_of_.resize(leaves_.size());
    for (size_t i = 0; i < leaves_.size(); ++i) {
      const TargetLeaf& leaf = leaves_[i];
      const bool has_elements =
          HasPieces(leaf) || leaf.kind == ValueKind::kScalar;
      if (!has_elements && leaf.text.size() <= kNpzInlineBytesMax) continue;
      if (!names.insert(leaf.name).second) {
        return Refuse(leaf, "there are two leaves of this name");
      }
      // Names of members have 16 bits for their length.
      if (!IsValidUtf8(leaf.name) || leaf.name.size() > 60000 ||
          leaf.name.find('\0') != std::string::npos) {
        return Refuse(leaf, "no member can have this name");
      }
      StoredAs stored{DType::kUint8, 0};
      Shape shape = {static_cast<int64_t>(leaf.text.size())};
      if (has_elements) {
        stored = StorableDType("npz", leaf.dtype);
        shape = StorableShape(stored, leaf.shape);
      }
      const uint64_t byte_count =
          has_elements ? leaf.byte_count() : leaf.text.size();
      if (leaf.kind == ValueKind::kScalar && leaf.text.size() != byte_count) {
        return Refuse(
            leaf, "a scalar of " + std::to_string(leaf.text.size()) + " bytes");
      }
      stored_[i] = leaf.name;
      member_of_[i] = members_.size();
      members_.push_back({i, leaf.name + std::string(kNpySuffix),
                          NpyHeaderBytes(stored.dtype, shape), byte_count, 0});
    }
    return Status();
  }

  void AddPiece(size_t leaf, uint64_t offset, NpzPiece piece) {
    std::lock_guard lock(mutex_);
    pieces_[leaf][offset] = piece;
  }

  // The CRC of header and elements, from those of the pieces.
  Result<uint32_t> CrcOf(const NpzMember& member) const {
    const TargetLeaf& leaf = leaves_[member.leaf];
    uint32_t crc = pickle::ZipCrc32(member.header);
    if (!HasPieces(leaf)) return pickle::ZipCrc32(leaf.text, crc);
    uint64_t end = 0;
    for (const auto& [offset, piece] : pieces_[member.leaf]) {
      if (offset != end) break;
      crc = pickle::CombineZipCrc32(crc, piece.crc32, piece.byte_count);
      end += piece.byte_count;
    }
    if (end == member.byte_count) return crc;
    return FailedPreconditionError("leaf " + leaf.name + ": " +
                                   std::to_string(member.byte_count - end) +
                                   " bytes were not written");
  }

  // Goes through the archive: gives members their offsets, and with `file`
  // writes all that is no piece. Returns the size of the whole.
  Result<uint64_t> Lay(PositionedFile* file) {
    pickle::ZipWriter zip;
    uint64_t flushed = 0;
    const auto flush = [&]() -> Status {
      const std::string bytes = zip.TakeBytes();
      if (file != nullptr) {
        HF_RETURN_IF_ERROR(file->WriteAt(flushed, bytes));
      }
      flushed += bytes.size();
      return Status();
    };
    for (NpzMember& member : members_) {
      const TargetLeaf& leaf = leaves_[member.leaf];
      zip.BeginEntry(member.name, member.header.size() + member.byte_count);
      zip.Put(member.header);
      member.offset = zip.offset();
      if (HasPieces(leaf)) {
        HF_RETURN_IF_ERROR(flush());
        zip.Skip(member.byte_count);
        flushed += member.byte_count;
      } else {
        zip.Put(leaf.text);
      }
      uint32_t crc = 0;
      if (file != nullptr) {
        HF_ASSIGN_OR_RETURN(crc, CrcOf(member));
      }
      zip.EndEntry(crc);
      HF_RETURN_IF_ERROR(flush());
    }
    if (!sidecar_.empty()) {
      zip.Add(std::string(kSidecarKey) + ".json", sidecar_);
    }
    zip.FinishPlain();
    HF_RETURN_IF_ERROR(flush());
    return flushed;
  }

  std::vector<TargetLeaf> leaves_;
  std::string directory_;
  bool sync_ = true;
  std::string sidecar_;
  std::vector<std::string> stored_;  // as leaves_; "" without a member
  std::vector<size_t> member_of_;    // as leaves_
  std::vector<NpzMember> members_;
  std::unique_ptr<PositionedFile> file_;
  std::mutex mutex_;
  std::vector<std::map<uint64_t, NpzPiece>> pieces_;  // as leaves_
};

}  // namespace

std::unique_ptr<FormatTarget> MakeNpzTarget() {
  return std::make_unique<NpzTarget>();
}

}  // namespace holdfast
