// The layout of an npz archive: its members, the offsets of their elements, and
// everything in it that is not an element of an array.
//
// Thread-safety: pure functions. Units: bytes.
// Ownership: values. NpzTexts needs the leaves of the plan that was laid out.
// Errors: InvalidArgument, with the leaf, for a leaf that no member can hold;
// those of `crc_of`.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "foreign/extents/target.h"

namespace holdfast {

inline constexpr std::string_view kNpzFile = "arrays.npz";

// A member of the archive: an npy header, then the elements of a leaf.
struct NpzMember {
  size_t leaf = 0;
  std::string name;
  std::string header;
  uint64_t byte_count = 0;  // of the elements
  uint64_t offset = 0;      // of the first element, in the archive
};

struct NpzLayout {
  std::vector<NpzMember> members;
  std::vector<size_t> member_of;  // by leaf; valid if it has a member
  std::string sidecar;            // text of its member; empty if absent
  uint64_t byte_count = 0;        // of the archive
};
Result<NpzLayout> LayOutNpz(const TargetPlan& plan);

// A run of the archive's bytes between the arrays' elements.
struct NpzText {
  uint64_t offset = 0;
  std::string bytes;
};
// The CRC-32 of a member's header and elements; called only for arrays.
using NpzCrcFn = std::function<Result<uint32_t>(const NpzMember& member)>;
// Returns all texts, in order. Their offsets do not depend on the CRCs.
Result<std::vector<NpzText>> NpzTexts(const NpzLayout& layout,
                                      const std::vector<TargetLeaf>& leaves,
                                      const NpzCrcFn& crc_of);

}  // namespace holdfast
