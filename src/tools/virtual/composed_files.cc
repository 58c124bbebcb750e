#include "tools/virtual/composed_files.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <mutex>
#include <optional>
#include <utility>

#include "foreign/extents/target_pieces.h"
#include "foreign/npz/npz_layout.h"
#include "foreign/safetensors/safetensors.h"
#include "foreign/safetensors/safetensors_layout.h"
#include "formats/zip/zip_writer.h"
#include "ground/base/status_macros.h"
#include "tools/convert/target_plan.h"

namespace holdfast {
namespace {

// A run of a file's bytes: the elements of a leaf, or one of the file's texts.
struct Segment {
  uint64_t offset = 0;  // in the file
  uint64_t byte_count = 0;
  bool is_text = true;
  size_t number = 0;  // index of the text, or of the leaf in the checkpoint
};

// Returns the texts of a file, by index.
using TextsFn = std::function<Result<const std::vector<std::string>*>()>;

struct ComposedFile {
  std::string name;
  std::vector<Segment> segments;  // in order, without gaps
  TextsFn texts;

  uint64_t byte_count() const {
    return segments.empty()
               ? 0
               : segments.back().offset + segments.back().byte_count;
  }
};

TextsFn Given(std::vector<std::string> texts) {
  auto shared =
      std::make_shared<const std::vector<std::string>>(std::move(texts));
  return [shared]() -> Result<const std::vector<std::string>*> {
    return shared.get();
  };
}

class ComposedFiles final : public NamedFiles {
 public:
  static Result<std::unique_ptr<FileTree>> Make(
      std::shared_ptr<const LeafBytes> leaves,
      std::vector<ComposedFile> files) {
    auto tree = std::make_unique<ComposedFiles>();
    tree->leaves_ = std::move(leaves);
    tree->files_ = std::move(files);
    for (size_t i = 0; i < tree->files_.size(); ++i) {
      const ComposedFile& file = tree->files_[i];
      HF_RETURN_IF_ERROR(tree->names_.AddFile(file.name, file.byte_count(), i));
    }
    return std::unique_ptr<FileTree>(std::move(tree));
  }

  Status ReadInto(std::string_view name, uint64_t offset,
                  std::span<char> target) const override {
    HF_ASSIGN_OR_RETURN(const size_t number, names_.NumberOf(name));
    const ComposedFile& file = files_[number];
    auto segment = std::upper_bound(
        file.segments.begin(), file.segments.end(), offset,
        [](uint64_t at, const Segment& one) { return at < one.offset; });
    if (segment != file.segments.begin()) --segment;
    for (; !target.empty(); ++segment) {
      const uint64_t in_segment = offset - segment->offset;
      const size_t count =
          std::min<uint64_t>(target.size(), segment->byte_count - in_segment);
      HF_RETURN_IF_ERROR(
          ReadSegment(file, *segment, in_segment, target.first(count)));
      target = target.subspan(count);
      offset += count;
    }
    return Status();
  }

 private:
  Status ReadSegment(const ComposedFile& file, const Segment& segment,
                     uint64_t offset, std::span<char> target) const {
    if (target.empty()) return Status();
    if (!segment.is_text) {
      return leaves_->ReadInto(segment.number, offset, target);
    }
    HF_ASSIGN_OR_RETURN(const std::vector<std::string>* texts, file.texts());
    std::memcpy(target.data(), (*texts)[segment.number].data() + offset,
                target.size());
    return Status();
  }

  std::shared_ptr<const LeafBytes> leaves_;
  std::vector<ComposedFile> files_;
};

Result<TargetPlan> PlanOf(const Checkpoint& checkpoint, Format format) {
  const LeafMap map;
  const std::vector<std::string> names;
  ConvertReport report;
  // The defaults, as in Convert.
  const ConvertOptions defaults;
  return MakeTargetPlan(
      checkpoint,
      {.format = format,
       .names = names,
       .map = map,
       .keeps_chunks = false,
       .target = {"", defaults.shard_bytes_max, defaults.chunk_bytes}},
      report);
}

// Composes the files of a safetensors layout. Sorts the tensors of each file by
// place.
std::vector<ComposedFile> ComposeSafetensors(const TargetPlan& plan,
                                             SafetensorsLayout layout) {
  std::vector<std::vector<size_t>> leaves_of(layout.files.size());
  for (const size_t leaf : layout.stored) {
    leaves_of[layout.places[leaf].file].push_back(leaf);
  }
  std::vector<ComposedFile> files;
  for (size_t i = 0; i < layout.files.size(); ++i) {
    std::sort(
        leaves_of[i].begin(), leaves_of[i].end(),
        [&](size_t a, size_t b) { return layout.order[a] < layout.order[b]; });
    ComposedFile& file = files.emplace_back();
    file.name = layout.files[i].name;
    std::vector<std::string> texts = {layout.files[i].header};
    file.segments.push_back({0, texts[0].size(), true, 0});
    for (const size_t number : leaves_of[i]) {
      const TargetLeaf& leaf = plan.leaves[number];
      Segment segment{layout.places[number].offset, leaf.byte_count(), false,
                      leaf.source};
      if (!HasPieces(leaf)) {
        segment = {segment.offset, leaf.text.size(), true, texts.size()};
        texts.push_back(leaf.text);
      }
      if (segment.byte_count > 0) file.segments.push_back(segment);
    }
    file.texts = Given(std::move(texts));
  }
  if (!layout.index.empty()) {
    files.push_back({std::string(kSafetensorsIndexFile),
                     {{0, layout.index.size(), true, 0}},
                     Given({layout.index})});
  }
  return files;
}

// Makes an archive's texts on demand.
class NpzTextMaker {
 public:
  NpzTextMaker(std::shared_ptr<const LeafBytes> leaves, TargetPlan plan,
               NpzLayout layout)
      : leaves_(std::move(leaves)),
        plan_(std::move(plan)),
        layout_(std::move(layout)) {}

  // Returns texts with CRCs of zero, but with the final sizes and positions.
  Result<std::vector<NpzText>> Blank() const {
    return NpzTexts(layout_, plan_.leaves,
                    [](const NpzMember&) { return uint32_t{0}; });
  }

  // Returns the texts with their CRCs. The first call computes them, and
  // concurrent callers wait for it. A failure is not kept, so the next call
  // tries again.
  Result<const std::vector<std::string>*> Texts() {
    const std::lock_guard lock(mutex_);
    if (!texts_.has_value()) {
      HF_ASSIGN_OR_RETURN(
          std::vector<NpzText> made,
          NpzTexts(layout_, plan_.leaves,
                   [this](const NpzMember& member) { return CrcOf(member); }));
      texts_.emplace();
      for (NpzText& text : made) texts_->push_back(std::move(text.bytes));
    }
    return &*texts_;
  }

  const NpzLayout& layout() const { return layout_; }
  const TargetLeaf& LeafOf(const NpzMember& member) const {
    return plan_.leaves[member.leaf];
  }

 private:
  Result<uint32_t> CrcOf(const NpzMember& member) const {
    constexpr uint64_t kPieceBytes = 1 << 20;
    uint32_t crc = pickle::ZipCrc32(member.header);
    std::string piece;
    for (uint64_t done = 0; done < member.byte_count; done += piece.size()) {
      piece.resize(std::min(kPieceBytes, member.byte_count - done));
      HF_RETURN_IF_ERROR(leaves_->ReadInto(LeafOf(member).source, done, piece));
      crc = pickle::ZipCrc32(piece, crc);
    }
    return crc;
  }

  const std::shared_ptr<const LeafBytes> leaves_;
  const TargetPlan plan_;
  const NpzLayout layout_;
  std::mutex mutex_;
  std::optional<std::vector<std::string>> texts_;
};

}  // namespace

Result<std::unique_ptr<FileTree>> MakeSafetensorsFiles(
    std::shared_ptr<const LeafBytes> leaves) {
  HF_ASSIGN_OR_RETURN(const TargetPlan plan,
                      PlanOf(leaves->checkpoint(), Format::kSafetensors));
  HF_ASSIGN_OR_RETURN(SafetensorsLayout layout, LayOutSafetensors(plan));
  return ComposedFiles::Make(std::move(leaves),
                             ComposeSafetensors(plan, std::move(layout)));
}

Result<std::unique_ptr<FileTree>> MakeNpzFiles(
    std::shared_ptr<const LeafBytes> leaves) {
  HF_ASSIGN_OR_RETURN(TargetPlan plan,
                      PlanOf(leaves->checkpoint(), Format::kNpz));
  HF_ASSIGN_OR_RETURN(NpzLayout layout, LayOutNpz(plan));
  const auto maker = std::make_shared<NpzTextMaker>(leaves, std::move(plan),
                                                    std::move(layout));
  ComposedFile file{
      std::string(kNpzFile), {}, [maker] { return maker->Texts(); }};
  for (const NpzMember& member : maker->layout().members) {
    const TargetLeaf& leaf = maker->LeafOf(member);
    if (!HasPieces(leaf) || member.byte_count == 0) continue;
    file.segments.push_back(
        {member.offset, member.byte_count, false, leaf.source});
  }
  HF_ASSIGN_OR_RETURN(const std::vector<NpzText> texts, maker->Blank());
  for (size_t i = 0; i < texts.size(); ++i) {
    if (texts[i].bytes.empty()) continue;
    file.segments.push_back({texts[i].offset, texts[i].bytes.size(), true, i});
  }
  std::sort(
      file.segments.begin(), file.segments.end(),
      [](const Segment& a, const Segment& b) { return a.offset < b.offset; });
  std::vector<ComposedFile> files;
  files.push_back(std::move(file));
  return ComposedFiles::Make(std::move(leaves), std::move(files));
}

}  // namespace holdfast
