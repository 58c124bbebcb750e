#include "foreign/npz/npz_target.h"

#include "foreign/extents/piece_sums.h"
#include "foreign/extents/target_pieces.h"
#include "foreign/npz/npz_layout.h"
#include "formats/zip/zip_writer.h"
#include "ground/base/no_throw.h"
#include "ground/base/status_macros.h"
#include "stores/place/directory_ops.h"
#include "stores/storage/positioned_file.h"

namespace holdfast {
namespace {

class NpzTarget final : public FormatTarget {
 public:
  Status Begin(const TargetPlan& plan, const std::string& directory,
               bool resume) override {
    return CatchBadAlloc([&]() -> Status {
      leaves_ = plan.leaves;
      directory_ = directory;
      sync_ = plan.options.sync;
      HF_ASSIGN_OR_RETURN(layout_, LayOutNpz(plan));
      HF_ASSIGN_OR_RETURN(
          file_, PositionedFile::Open(directory + "/" + std::string(kNpzFile),
                                      layout_.byte_count, resume));
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
    const NpzMember& member = layout_.members[layout_.member_of[leaf]];
    HF_RETURN_IF_ERROR(file_->WriteAt(member.offset + offset, elements));
    return sums_.Add(leaf, offset, elements);
  }

  Status Restore(size_t leaf, const Box& box, std::string_view mark) override {
    return sums_.Restore(leaf, leaves_[leaf], box, mark);
  }

  Status SyncData() override {
    if (!sync_) return Status();
    HF_RETURN_IF_ERROR(file_->Sync());
    return SyncDirectory(Place(directory_));
  }

  Status Finish() override {
    return CatchBadAlloc([&]() -> Status {
      HF_ASSIGN_OR_RETURN(
          const std::vector<NpzText> texts,
          NpzTexts(layout_, leaves_,
                   [this](const NpzMember& member) { return CrcOf(member); }));
      for (const NpzText& text : texts) {
        HF_RETURN_IF_ERROR(file_->WriteAt(text.offset, text.bytes));
      }
      return SyncData();
    });
  }

 private:
  // Computes the CRC of header and elements from the CRCs of the pieces.
  Result<uint32_t> CrcOf(const NpzMember& member) const {
    const PieceSums::Sum sum =
        sums_.Of(member.leaf, pickle::ZipCrc32(member.header));
    if (sum.byte_count == member.byte_count) return sum.crc32;
    return FailedPreconditionError(
        "leaf " + leaves_[member.leaf].name + ": " +
        std::to_string(member.byte_count - sum.byte_count) +
        " bytes were not written");
  }

  std::vector<TargetLeaf> leaves_;
  std::string directory_;
  bool sync_ = true;
  NpzLayout layout_;
  std::unique_ptr<PositionedFile> file_;
  PieceSums sums_;  // by leaf
};

}  // namespace

std::unique_ptr<FormatTarget> MakeNpzTarget() {
  return std::make_unique<NpzTarget>();
}

}  // namespace holdfast
