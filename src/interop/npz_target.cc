#include "interop/npz_target.h"

#include "base/no_throw.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "interop/npy_header.h"
#include "interop/npz.h"
#include "interop/piece_sums.h"
#include "interop/target_pieces.h"
#include "interop/target_sidecar.h"
#include "pickle/zip_writer.h"
#include "place/directory_ops.h"
#include "storage/positioned_file.h"

namespace holdfast {
namespace {

constexpr std::string_view kNpzFile = "arrays.npz";

// A member of the archive: a header of npy, then the elements of a leaf.
struct NpzMember {
  size_t leaf = 0;
  std::string name;
  std::string header;
  uint64_t byte_count = 0;  // of the elements
  uint64_t offset = 0;      // of the first one, in the archive
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
    HF_RETURN_IF_ERROR(
        file_->WriteAt(members_[member_of_[leaf]].offset + offset, elements));
    return sums_.Add(leaf, offset, elements);
  }

  Status Restore(size_t leaf, const Box& box, std::string_view mark) override {
    return sums_.Restore(leaf, leaves_[leaf], box, mark);
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
  Status PlanMembers() {
    // Names of members have 16 bits for their length.
    constexpr auto kCanBeName = [](const std::string& name) {
      return IsValidUtf8(name) && name.size() <= 60000 &&
             name.find('\0') == std::string::npos;
    };
    HF_ASSIGN_OR_RETURN(const std::vector<RawValue> values,
                        RawValuesOf(leaves_, "npz", "member", kCanBeName));
    stored_.resize(leaves_.size());
    member_of_.resize(leaves_.size());
    for (const RawValue& value : values) {
      const std::string& name = leaves_[value.leaf].name;
      stored_[value.leaf] = name;
      member_of_[value.leaf] = members_.size();
      members_.push_back({value.leaf, name + std::string(kNpySuffix),
                          NpyHeaderBytes(value.dtype, value.shape),
                          value.byte_count, 0});
    }
    return Status();
  }

  // The CRC of header and elements, from those of the pieces.
  Result<uint32_t> CrcOf(const NpzMember& member) const {
    const TargetLeaf& leaf = leaves_[member.leaf];
    const uint32_t crc = pickle::ZipCrc32(member.header);
    if (!HasPieces(leaf)) return pickle::ZipCrc32(leaf.text, crc);
    const PieceSums::Sum sum = sums_.Of(member.leaf, crc);
    if (sum.byte_count == member.byte_count) return sum.crc32;
    return FailedPreconditionError(
        "leaf " + leaf.name + ": " +
        std::to_string(member.byte_count - sum.byte_count) +
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
  PieceSums sums_;  // by leaf
};

}  // namespace

std::unique_ptr<FormatTarget> MakeNpzTarget() {
  return std::make_unique<NpzTarget>();
}

}  // namespace holdfast
