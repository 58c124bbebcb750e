// Repairs zip archives by rebuilding their directory from the members' own
// headers.
#include <algorithm>
#include <optional>
#include <string_view>

#include "formats/zip/byte_source.h"
#include "formats/zip/zip_format.h"
#include "formats/zip/zip_reader.h"
#include "ground/base/coding.h"
#include "ground/base/status_macros.h"
#include "holdfast/checkpoint.h"
#include "tools/rescue/node_scan.h"
#include "tools/rescue/repairs.h"

namespace holdfast {
namespace {

using pickle::kIs64;

constexpr uint64_t kBlockBytes = uint64_t{1} << 20;
constexpr size_t kDescriptorBytes = 16;    // signature, CRC, two sizes
constexpr size_t kDescriptor64Bytes = 24;  // with 8-byte sizes
constexpr std::string_view kLocalMagic = "PK\x03\x04";
constexpr std::string_view kDescriptorMagic = "PK\x07\x08";

// A member, according to its own header.
struct Member {
  std::string name;
  uint16_t version = 0;
  uint16_t flags = 0;
  uint16_t method = 0;
  uint32_t crc32 = 0;
  uint64_t stored_bytes = 0;
  uint64_t byte_count = 0;
  uint64_t offset = 0;       // of the header
  uint64_t data_offset = 0;  // of the content
  uint64_t end = 0;          // after content and descriptor
};

template <typename T>
void Append(T value, std::string& text) {
  char bytes[sizeof(T)];
  StoreLittle(bytes, value);
  text.append(bytes, sizeof(T));
}

// Returns a directory of `members`, to be stored at `offset`. It always has
// 64-bit sizes, which every reader supports.
std::string DirectoryOf(const std::vector<Member>& members, uint64_t offset) {
  std::string text;
  for (const Member& member : members) {
    Append(pickle::kCentralSignature, text);
    Append<uint16_t>(45, text);
    Append<uint16_t>(member.version, text);
    Append<uint16_t>(member.flags, text);
    Append<uint16_t>(member.method, text);
    Append<uint32_t>(0, text);  // time and date
    Append<uint32_t>(member.crc32, text);
    Append<uint32_t>(kIs64, text);
    Append<uint32_t>(kIs64, text);
    Append<uint16_t>(static_cast<uint16_t>(member.name.size()), text);
    Append<uint16_t>(28, text);  // extra
    Append<uint16_t>(0, text);   // comment
    Append<uint16_t>(0, text);   // disk
    Append<uint16_t>(0, text);   // attributes
    Append<uint32_t>(0, text);
    Append<uint32_t>(kIs64, text);
    text += member.name;
    Append<uint16_t>(pickle::kExtra64Id, text);
    Append<uint16_t>(24, text);
    Append<uint64_t>(member.byte_count, text);
    Append<uint64_t>(member.stored_bytes, text);
    Append<uint64_t>(member.offset, text);
  }
  const uint64_t byte_count = text.size();
  Append(pickle::kEnd64Signature, text);
  Append<uint64_t>(pickle::kEnd64Bytes - 12, text);
  Append<uint16_t>(45, text);
  Append<uint16_t>(45, text);
  Append<uint64_t>(0, text);  // disks
  Append<uint64_t>(members.size(), text);
  Append<uint64_t>(members.size(), text);
  Append<uint64_t>(byte_count, text);
  Append<uint64_t>(offset, text);
  Append(pickle::kEnd64LocatorSignature, text);
  Append<uint32_t>(0, text);
  Append<uint64_t>(offset + byte_count, text);
  Append<uint32_t>(1, text);
  Append(pickle::kEndSignature, text);
  Append<uint32_t>(0, text);
  Append<uint16_t>(pickle::kIs64Count, text);
  Append<uint16_t>(pickle::kIs64Count, text);
  Append<uint32_t>(kIs64, text);
  Append<uint32_t>(kIs64, text);
  Append<uint16_t>(0, text);
  return text;
}

// Walks the members of an archive from its start.
class MemberScan {
 public:
  MemberScan(Store& store, const std::string& path, uint64_t file_bytes,
             const CancelToken* cancel)
      : store_(store), path_(path), file_bytes_(file_bytes), cancel_(cancel) {}

  Status Run() {
    for (uint64_t at = 0; at < file_bytes_;) {
      HF_ASSIGN_OR_RETURN(const auto start, Find(kLocalMagic, at));
      if (!start) break;
      HF_ASSIGN_OR_RETURN(std::optional<Member> member, MemberAt(*start));
      if (member && member->end <= file_bytes_) {
        at = member->end;
        members_.push_back(*std::move(member));
        continue;
      }
      if (member) cut_.push_back(*std::move(member));
      at = *start + kLocalMagic.size();
    }
    return Status();
  }

  const std::vector<Member>& members() const { return members_; }
  // Returns the members that end after the end of the file, or whose end is
  // unknown.
  const std::vector<Member>& cut() const { return cut_; }

 private:
  Result<Bytes> Read(uint64_t offset, uint64_t count) {
    if (cancel_ != nullptr) HF_RETURN_IF_ERROR(cancel_->Check());
    count = std::min(count, file_bytes_ - std::min(offset, file_bytes_));
    return store_.Read(path_, {offset, count});
  }

  // Finds the next `magic` at or after `at`.
  Result<std::optional<uint64_t>> Find(std::string_view magic, uint64_t at) {
    while (at + magic.size() <= file_bytes_) {
      HF_ASSIGN_OR_RETURN(const std::string_view block, BlockAt(at));
      const size_t found = block.find(magic);
      if (found != block.npos) return std::optional(at + found);
      if (at + block.size() >= file_bytes_) break;
      at += block.size() - (magic.size() - 1);
    }
    return std::optional<uint64_t>();
  }

  // Returns the buffered bytes of the file from `at` on: at least a few, unless
  // the file ends there. Limits the total of these reads, because a file may be
  // full of false headers.
  Result<std::string_view> BlockAt(uint64_t at) {
    constexpr uint64_t kLeastBytes = 64;
    const uint64_t held_end = block_offset_ + block_.size();
    const bool is_held =
        at >= block_offset_ && at < held_end &&
        (held_end == file_bytes_ || held_end - at >= kLeastBytes);
    if (!is_held) {
      if (read_bytes_ > kRereadsMax * (file_bytes_ + kBlockBytes)) {
        return DataLossError("zip: " + path_ + " is made of false headers");
      }
      HF_ASSIGN_OR_RETURN(block_, Read(at, kBlockBytes));
      block_offset_ = at;
      read_bytes_ += block_.size();
    }
    return block_.view().substr(at - block_offset_);
  }

  // Returns nullopt for a malformed header.
  Result<std::optional<Member>> MemberAt(uint64_t offset) {
    HF_ASSIGN_OR_RETURN(const Bytes head, Read(offset, pickle::kLocalBytes));
    if (head.size() < pickle::kLocalBytes) return std::optional<Member>();
    const char* record = head.data();
    const uint64_t name_bytes = LoadLittle<uint16_t>(record + 26);
    const uint64_t extra_bytes = LoadLittle<uint16_t>(record + 28);
    HF_ASSIGN_OR_RETURN(const Bytes names, Read(offset + pickle::kLocalBytes,
                                                name_bytes + extra_bytes));
    if (names.size() < name_bytes + extra_bytes || name_bytes == 0) {
      return std::optional<Member>();
    }
    Member member;
    member.offset = offset;
    member.version = LoadLittle<uint16_t>(record + 4);
    member.flags = LoadLittle<uint16_t>(record + 6);
    member.method = LoadLittle<uint16_t>(record + 8);
    member.crc32 = LoadLittle<uint32_t>(record + 14);
    member.stored_bytes = LoadLittle<uint32_t>(record + 18);
    member.byte_count = LoadLittle<uint32_t>(record + 22);
    member.name = names.view().substr(0, name_bytes);
    member.data_offset =
        offset + pickle::kLocalBytes + name_bytes + extra_bytes;
    ReadExtra(names.view().substr(name_bytes), member);
    const bool is_plain =
        (member.method == 0 || member.method == pickle::kMethodDeflate) &&
        (member.flags & pickle::kFlagEncrypted) == 0;
    if (!is_plain) return std::optional<Member>();
    if ((member.flags & pickle::kFlagDescriptor) != 0) {
      HF_RETURN_IF_ERROR(FindEnd(member));
    } else {
      member.end = End(member.data_offset, member.stored_bytes);
    }
    return std::optional(std::move(member));
  }

  static uint64_t End(uint64_t offset, uint64_t count) {
    return count > pickle::kIs64 << 24 ? UINT64_MAX : offset + count;
  }

  static void ReadExtra(std::string_view extra, Member& member) {
    while (extra.size() >= 4) {
      const auto id = LoadLittle<uint16_t>(extra.data());
      const size_t size = LoadLittle<uint16_t>(extra.data() + 2);
      extra.remove_prefix(4);
      if (size > extra.size()) return;
      std::string_view field = extra.substr(0, size);
      extra.remove_prefix(size);
      if (id != pickle::kExtra64Id) continue;
      for (uint64_t* value : {&member.byte_count, &member.stored_bytes}) {
        if (*value != kIs64 || field.size() < 8) continue;
        *value = LoadLittle<uint64_t>(field.data());
        field.remove_prefix(8);
      }
    }
  }

  // Finds the end of a member whose sizes follow its content, in a descriptor:
  // the end is where a descriptor's size matches its position.
  Status FindEnd(Member& member) {
    member.end = UINT64_MAX;
    for (uint64_t at = member.data_offset;;) {
      HF_ASSIGN_OR_RETURN(const auto found, Find(kDescriptorMagic, at));
      if (!found) return Status();
      HF_ASSIGN_OR_RETURN(const Bytes bytes, Read(*found, kDescriptor64Bytes));
      const uint64_t distance = *found - member.data_offset;
      const auto size = ReadDescriptor(bytes.view(), distance, member);
      if (size) {
        member.end = *found + *size;
        return Status();
      }
      at = *found + 1;
    }
  }

  // Fills in `member` from its descriptor, and returns the descriptor's size.
  // Returns nullopt if the bytes are not this member's descriptor.
  static std::optional<size_t> ReadDescriptor(std::string_view bytes,
                                              uint64_t distance,
                                              Member& member) {
    if (bytes.size() < kDescriptorBytes) return std::nullopt;
    const bool is_64 = bytes.size() >= kDescriptor64Bytes &&
                       LoadLittle<uint64_t>(bytes.data() + 8) == distance;
    const bool is_32 = LoadLittle<uint32_t>(bytes.data() + 8) == distance;
    if (!is_64 && !is_32) return std::nullopt;
    const uint64_t size_64 =
        is_64 ? LoadLittle<uint64_t>(bytes.data() + 16) : 0;
    const bool uses_64 = is_64 && (member.method != 0 || size_64 == distance);
    member.crc32 = LoadLittle<uint32_t>(bytes.data() + 4);
    member.stored_bytes = distance;
    member.byte_count =
        uses_64 ? size_64 : LoadLittle<uint32_t>(bytes.data() + 12);
    if (member.method == 0 && member.byte_count != distance) {
      return std::nullopt;
    }
    return uses_64 ? kDescriptor64Bytes : kDescriptorBytes;
  }

  Store& store_;
  const std::string& path_;
  const uint64_t file_bytes_;
  const CancelToken* const cancel_;
  uint64_t block_offset_ = 0;
  Bytes block_;
  uint64_t read_bytes_ = 0;
  std::vector<Member> members_;
  std::vector<Member> cut_;
};

bool ReadsAsItIs(Store& store, const std::string& path, uint64_t file_bytes) {
  const pickle::StoreSource source(store, path, ByteRange{0, file_bytes});
  return pickle::ZipReader::Open(source, /*allow_deflated=*/true).ok();
}

std::string LeafOfMember(const std::string& member) {
  constexpr std::string_view kNpy = ".npy";
  return member.ends_with(kNpy) ? member.substr(0, member.size() - kNpy.size())
                                : "";
}

}  // namespace

Status RepairZips(const FilesPtr& files, const CancelToken* cancel,
                  Repairs& repairs) {
  const auto store = RepairedFiles::StoreOf(files);
  for (const std::string& path : files->Below("")) {
    const uint64_t file_bytes = files->files().find(path)->second.byte_count;
    // DCP files contain several archives, one after the other.
    if (path.find('/') != path.npos || path.ends_with(".distcp") ||
        file_bytes < pickle::kLocalBytes) {
      continue;
    }
    const Result<Bytes> magic = store->Read(path, {0, kLocalMagic.size()});
    if (!magic.ok() || magic->view() != kLocalMagic ||
        ReadsAsItIs(*store, path, file_bytes)) {
      continue;
    }
    MemberScan scan(*store, path, file_bytes, cancel);
    const Status scanned = scan.Run();
    if (!scanned.ok() && !IsDamage(scanned)) return scanned;
    repairs.notes.push_back(store->Describe(path) +
                            ": the archive has lost its directory; " +
                            std::to_string(scan.members().size()) +
                            " members were found by their own headers");
    // The pickle of a torch.save archive names all tensors. An npz archive has
    // no such list, so members may be missing without a trace.
    repairs.names_are_known &=
        std::ranges::none_of(scan.members(), [](const Member& member) {
          return !LeafOfMember(member.name).empty();
        });
    for (const Member& member : scan.cut()) {
      const std::string leaf = LeafOfMember(member.name);
      if (leaf.empty()) {
        repairs.notes.push_back(store->Describe(path) + ": member \"" +
                                member.name + "\" is cut");
        continue;
      }
      repairs.lost.push_back({leaf, path, member.offset,
                              "member \"" + member.name +
                                  "\" ends behind the end of the file (got " +
                                  std::to_string(file_bytes) + " bytes)",
                              false});
    }
    if (scan.members().empty()) continue;
    const uint64_t kept = scan.members().back().end;
    Bytes directory(DirectoryOf(scan.members(), kept));
    const uint64_t byte_count = kept + directory.size();
    files->Patch(path, kept, std::move(directory), byte_count);
  }
  return Status();
}

}  // namespace holdfast
