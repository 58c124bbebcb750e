// The layout of an npz archive: its members, where their elements begin, and
// all of it that is not an element of an array.
//
// Thread-safety: pure functions. Ownership: values; texts are made of the
// leaves they were laid out for. Units: bytes.
// Errors: InvalidArgument for a leaf that no member can hold, naming it; those
// of `crc_of`.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "foreign/extents/target.h"

namespace holdfast {

inline constexpr std::string_view kNpzFile = "arrays.npz";

// A member of the archive: a header of npy, then the elements of a leaf.
struct NpzMember {
  size_t leaf = 0;
  std::string name;
  std::string header;
  uint64_t byte_count = 0;  // of the elements
  uint64_t offset = 0;      // of the first one, in the archive
};

struct NpzLayout {
  std::vector<NpzMember> members;
  std::vector<size_t> member_of;  // as the plan's leaves; of those with one
  std::string sidecar;            // text of its member; empty: it has none
  uint64_t byte_count = 0;        // of the archive
};
Result<NpzLayout> LayOutNpz(const TargetPlan& plan);

// A run of the archive's bytes between elements of arrays.
struct NpzText {
  uint64_t offset = 0;
  std::string bytes;
};
// The CRC-32 of a member's header and elements; asked for only for arrays.
using NpzCrcFn = std::function<Result<uint32_t>(const NpzMember& member)>;
// All of them, in order. Their places do not depend on the CRCs.
Result<std::vector<NpzText>> NpzTexts(const NpzLayout& layout,
                                      const std::vector<TargetLeaf>& leaves,
                                      const NpzCrcFn& crc_of);

}  // namespace holdfast
