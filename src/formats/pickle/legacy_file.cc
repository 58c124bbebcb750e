#include "formats/pickle/legacy_file.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "ground/base/coding.h"
#include "ground/base/status_macros.h"

namespace holdfast::pickle {
namespace {

constexpr int64_t kProtocol = 1001;
// Pickles are short: in most files, the first read covers them.
constexpr uint64_t kHeadBytes = uint64_t{1} << 20;

Status BadLegacy(const std::string& what) {
  return DataLossError("torch file from before 1.6: " + what);
}

// Reads consecutive pickles. `is_cut` is true if the bytes end before a pickle
// does.
class Pickles {
 public:
  explicit Pickles(std::string_view bytes) : bytes_(bytes) {}

  Result<Program> Next(bool persistent_ids) {
    HF_ASSIGN_OR_RETURN(Program program,
                        RunPickle(bytes_, {.persistent_ids = persistent_ids,
                                           .keeps_refused = persistent_ids,
                                           .is_cut = &is_cut_}));
    bytes_.remove_prefix(program.byte_count);
    return program;
  }
  size_t left_bytes() const { return bytes_.size(); }
  bool is_cut() const { return is_cut_; }

 private:
  std::string_view bytes_;
  bool is_cut_ = false;
};

Status CheckHead(Pickles& pickles) {
  HF_ASSIGN_OR_RETURN(const Program protocol,
                      pickles.Next(/*persistent_ids=*/false));
  const Node& version = protocol.node(protocol.root);
  if (version.kind != NodeKind::kInt || version.number != kProtocol) {
    return BadLegacy("its protocol is not 1001");
  }
  HF_ASSIGN_OR_RETURN(const Program info,
                      pickles.Next(/*persistent_ids=*/false));
  const Node& system = info.node(info.root);
  if (system.kind != NodeKind::kDict) {
    return BadLegacy("it does not say which kind of machine wrote it");
  }
  for (size_t i = 0; i + 1 < system.children.size(); i += 2) {
    const Node& key = info.node(system.children[i]);
    const Node& value = info.node(system.children[i + 1]);
    if (key.kind == NodeKind::kString && key.text == "little_endian" &&
        (value.kind != NodeKind::kBool || value.number == 0)) {
      return UnimplementedError(
          "torch file from before 1.6: it was written on a big-endian machine, "
          "which is not read");
    }
  }
  return {};
}

// Returns the element sizes of the storages that the pickle names. Only
// complete storages count: a view has the key of the storage that contains it.
Result<std::map<std::string_view, size_t>> ElementSizes(
    const Program& program) {
  std::map<std::string_view, size_t> sizes;
  for (const Node& node : program.nodes) {
    if (node.kind != NodeKind::kPersistent) continue;
    HF_ASSIGN_OR_RETURN(
        const StorageId id,
        ParseStorageId(program, program.node(node.children[0])));
    sizes[id.key] = static_cast<size_t>(id.element_bytes);
  }
  return sizes;
}

// Finds the places of the storages. Each storage follows its element count.
Status FindStorages(const ByteSource& source, uint64_t offset,
                    const Program& keys,
                    const std::map<std::string_view, size_t>& element_sizes,
                    LegacyFile& file) {
  const Node& list = keys.node(keys.root);
  if (list.kind != NodeKind::kList) {
    return BadLegacy("it has no list of storages");
  }
  for (const NodeIndex index : list.children) {
    const Node& key = keys.node(index);
    const auto size = key.kind == NodeKind::kString
                          ? element_sizes.find(key.text)
                          : element_sizes.end();
    if (size == element_sizes.end()) {
      return BadLegacy("it has a storage that its pickle does not name");
    }
    if (source.size() - offset < 8) {
      return BadLegacy("it is cut before a storage");
    }
    char bytes[8];
    HF_RETURN_IF_ERROR(source.Read(offset, bytes));
    offset += 8;
    const auto count = LoadLittle<int64_t>(bytes);
    // Divides instead of multiplying, so that a huge count cannot overflow.
    if (count < 0 || static_cast<uint64_t>(count) >
                         (source.size() - offset) / size->second) {
      return BadLegacy("storage \"" + std::string(key.text) + "\" of " +
                       std::to_string(count) + " elements is cut");
    }
    const uint64_t byte_count = static_cast<uint64_t>(count) * size->second;
    file.storages[std::string(key.text)] = {offset, byte_count};
    offset += byte_count;
  }
  return {};
}

// Reads the pickles of a file that begins with `file.head`.
Status ReadHead(const ByteSource& source, Pickles& pickles, LegacyFile& file) {
  HF_RETURN_IF_ERROR(CheckHead(pickles));
  HF_ASSIGN_OR_RETURN(file.program, pickles.Next(/*persistent_ids=*/true));
  HF_ASSIGN_OR_RETURN(const auto sizes, ElementSizes(file.program));
  HF_ASSIGN_OR_RETURN(const Program keys,
                      pickles.Next(/*persistent_ids=*/false));
  return FindStorages(source, file.head->size() - pickles.left_bytes(), keys,
                      sizes, file);
}

}  // namespace

// The pickle of the number 0x1950a86a20f9469cfc6c, as torch writes it.
constexpr std::string_view kLegacyMagic(
    "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19\x2e", 15);

Result<bool> IsLegacyFile(const ByteSource& source) {
  if (source.size() < kLegacyMagic.size()) return false;
  HF_ASSIGN_OR_RETURN(const std::string start,
                      source.ReadString(0, kLegacyMagic.size()));
  return start == kLegacyMagic;
}

Result<LegacyFile> OpenLegacyFile(const ByteSource& source) {
  for (uint64_t head_bytes = kHeadBytes;; head_bytes *= 4) {
    head_bytes = std::min(head_bytes, source.size());
    LegacyFile file;
    HF_ASSIGN_OR_RETURN(std::string head, source.ReadString(0, head_bytes));
    file.head = std::make_unique<const std::string>(std::move(head));
    Pickles pickles(std::string_view(*file.head).substr(kLegacyMagic.size()));
    const Status status = ReadHead(source, pickles, file);
    if (status.ok()) return file;
    // A pickle that is cut off here may continue in the file.
    if (!pickles.is_cut() || head_bytes == source.size()) return status;
  }
}

Result<ByteRange> FindLegacyStorage(const LegacyFile& file,
                                    const StorageId& id) {
  const auto found = file.storages.find(id.key);
  const auto offset = static_cast<uint64_t>(id.view_offset_bytes);
  const auto wanted = static_cast<uint64_t>(id.byte_count);
  if (found == file.storages.end() || offset > found->second.byte_count ||
      wanted > found->second.byte_count - offset) {
    return BadLegacy("storage \"" + std::string(id.key) +
                     "\" is not in it, or shorter");
  }
  return ByteRange{found->second.offset + offset, wanted};
}

}  // namespace holdfast::pickle
