#include "foreign/npz/npz_layout.h"

#include "foreign/extents/target_pieces.h"
#include "foreign/extents/target_sidecar.h"
#include "foreign/npz/npy_header.h"
#include "foreign/npz/npz.h"
#include "formats/zip/zip_writer.h"
#include "ground/base/status_macros.h"
#include "ground/base/utf8.h"

namespace holdfast {
namespace {

// Returns whether a program that unpacks the archive could create a file of
// this name outside its target directory. Some programs treat a backslash as a
// slash.
bool LeadsOut(std::string_view name) {
  constexpr std::string_view kSlashes = "/\\";
  if (name.find_first_of(kSlashes) == 0) return true;
  for (size_t slash; (slash = name.find_first_of(kSlashes)) != name.npos;) {
    if (name.substr(0, slash) == "..") return true;
    name.remove_prefix(slash + 1);
  }
  return false;
}

// Returns whether a zip member can have this name. Its length is stored in 16
// bits.
bool CanBeMember(const std::string& name) {
  return IsValidUtf8(name) && name.size() <= 60000 &&
         name.find('\0') == std::string::npos && !LeadsOut(name);
}

// Lays out the archive, and calls `place` with the offset of each member's
// elements.
Result<std::vector<NpzText>> LayTexts(
    const NpzLayout& layout, const std::vector<TargetLeaf>& leaves,
    const NpzCrcFn& crc_of,
    const std::function<void(size_t member, uint64_t offset)>& place) {
  std::vector<NpzText> texts;
  pickle::ZipWriter zip;
  uint64_t first = 0;  // offset of the current text
  for (size_t i = 0; i < layout.members.size(); ++i) {
    const NpzMember& member = layout.members[i];
    const TargetLeaf& leaf = leaves[member.leaf];
    zip.BeginEntry(member.name, member.header.size() + member.byte_count);
    zip.Put(member.header);
    place(i, zip.offset());
    uint32_t crc = 0;
    if (HasPieces(leaf)) {
      texts.push_back({first, zip.TakeBytes()});
      zip.Skip(member.byte_count);
      first = zip.offset();
      HF_ASSIGN_OR_RETURN(crc, crc_of(member));
    } else {
      zip.Put(leaf.text);
      crc = pickle::ZipCrc32(leaf.text, pickle::ZipCrc32(member.header));
    }
    zip.EndEntry(crc);
  }
  if (!layout.sidecar.empty()) {
    zip.Add(std::string(kSidecarKey) + ".json", layout.sidecar);
  }
  zip.FinishPlain();
  texts.push_back({first, zip.TakeBytes()});
  return texts;
}

}  // namespace

Result<NpzLayout> LayOutNpz(const TargetPlan& plan) {
  HF_ASSIGN_OR_RETURN(const std::vector<RawValue> values,
                      RawValuesOf(plan.leaves, "npz", "member", CanBeMember));
  NpzLayout layout;
  std::vector<std::string> stored(plan.leaves.size());
  layout.member_of.resize(plan.leaves.size());
  for (const RawValue& value : values) {
    const std::string& name = plan.leaves[value.leaf].name;
    stored[value.leaf] = name;
    layout.member_of[value.leaf] = layout.members.size();
    layout.members.push_back({value.leaf, name + std::string(kNpySuffix),
                              NpyHeaderBytes(value.dtype, value.shape),
                              value.byte_count, 0});
  }
  if (NeedsSidecar(plan, "npz")) {
    layout.sidecar = SidecarText(SidecarOf(plan, stored));
  }
  HF_ASSIGN_OR_RETURN(
      const std::vector<NpzText> texts,
      LayTexts(
          layout, plan.leaves, [](const NpzMember&) { return uint32_t{0}; },
          [&](size_t member, uint64_t offset) {
            layout.members[member].offset = offset;
          }));
  layout.byte_count = texts.back().offset + texts.back().bytes.size();
  return layout;
}

Result<std::vector<NpzText>> NpzTexts(const NpzLayout& layout,
                                      const std::vector<TargetLeaf>& leaves,
                                      const NpzCrcFn& crc_of) {
  return LayTexts(layout, leaves, crc_of, [](size_t, uint64_t) {});
}

}  // namespace holdfast
