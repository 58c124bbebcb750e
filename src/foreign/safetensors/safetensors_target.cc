#include "foreign/safetensors/safetensors_target.h"

#include "foreign/extents/target_pieces.h"
#include "foreign/safetensors/safetensors.h"
#include "foreign/safetensors/safetensors_layout.h"
#include "ground/base/no_throw.h"
#include "ground/base/status_macros.h"
#include "stores/place/directory_ops.h"
#include "stores/storage/positioned_file.h"

namespace holdfast {
namespace {

class SafetensorsTarget final : public FormatTarget {
 public:
  Status Begin(const TargetPlan& plan, const std::string& directory,
               bool resume) override {
    return CatchBadAlloc([&]() -> Status {
      leaves_ = plan.leaves;
      directory_ = directory;
      sync_ = plan.options.sync;
      HF_ASSIGN_OR_RETURN(layout_, LayOutSafetensors(plan));
      for (const SafetensorsLayout::File& file : layout_.files) {
        HF_ASSIGN_OR_RETURN(opened_.emplace_back(),
                            PositionedFile::Open(directory + "/" + file.name,
                                                 file.byte_count, resume));
      }
      return Status();
    });
  }

  std::string OneFile() const override {
    return layout_.files.size() == 1 ? layout_.files.front().name : "";
  }

  std::vector<Box> PiecesOf(size_t leaf, uint64_t bytes_max) const override {
    return CPiecesOf(leaves_[leaf], bytes_max);
  }

  uint64_t FilePosition(size_t leaf) const override {
    return layout_.order[leaf];
  }

  Result<std::string> Write(size_t leaf, const Box& box,
                            std::string_view elements) override {
    HF_ASSIGN_OR_RETURN(const uint64_t offset,
                        CPieceOffset(leaves_[leaf], box, elements));
    HF_RETURN_IF_ERROR(WriteAt(leaf, offset, elements));
    return std::string();
  }

  Status Restore(size_t, const Box&, std::string_view) override {
    return Status();
  }

  Status SyncData() override {
    if (!sync_) return Status();
    for (const auto& file : opened_) HF_RETURN_IF_ERROR(file->Sync());
    return SyncDirectory(Place(directory_));
  }

  // Headers are written last: a file without a header is not a safetensors
  // file.
  Status Finish() override {
    return CatchBadAlloc([&]() -> Status {
      for (const size_t leaf : layout_.stored) {
        if (HasPieces(leaves_[leaf])) continue;
        HF_RETURN_IF_ERROR(WriteAt(leaf, 0, leaves_[leaf].text));
      }
      for (size_t i = 0; i < opened_.size(); ++i) {
        HF_RETURN_IF_ERROR(opened_[i]->WriteAt(0, layout_.files[i].header));
      }
      if (!layout_.index.empty()) {
        HF_RETURN_IF_ERROR(WriteTargetFile(directory_, kSafetensorsIndexFile,
                                           layout_.index, sync_));
      }
      return SyncData();
    });
  }

 private:
  Status WriteAt(size_t leaf, uint64_t offset, std::string_view bytes) {
    const SafetensorsLayout::Place& place = layout_.places[leaf];
    return opened_[place.file]->WriteAt(place.offset + offset, bytes);
  }

  std::vector<TargetLeaf> leaves_;
  std::string directory_;
  bool sync_ = true;
  SafetensorsLayout layout_;
  std::vector<std::unique_ptr<PositionedFile>> opened_;  // as its files
};

}  // namespace

std::unique_ptr<FormatTarget> MakeSafetensorsTarget() {
  return std::make_unique<SafetensorsTarget>();
}

}  // namespace holdfast
