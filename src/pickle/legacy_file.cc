#include "pickle/legacy_file.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <string>

#include "base/coding.h"
#include "base/status_macros.h"
#include "pickle/program.h"
#include "pickle/values.h"

namespace holdfast::pickle {
namespace {

// The pickle of the number 0x1950a86a20f9469cfc6c, as torch writes it.
constexpr std::string_view kMagic(
    "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19\x2e", 15);
constexpr int64_t kProtocol = 1001;

Status BadLegacy(const std::string& what) {
  return DataLossError("torch file of before 1.6: " + what);
}

// Reads the next pickle, and removes it from `bytes`.
Result<Program> NextPickle(std::string_view& bytes, bool persistent_ids) {
  HF_ASSIGN_OR_RETURN(Program program,
                      RunPickle(bytes, {.persistent_ids = persistent_ids}));
  bytes.remove_prefix(program.byte_count);
  return program;
}

Status CheckHead(std::string_view& bytes) {
  HF_ASSIGN_OR_RETURN(const Program protocol, NextPickle(bytes, false));
  const Node& version = protocol.node(protocol.root);
  if (version.kind != NodeKind::kInt || version.number != kProtocol) {
    return BadLegacy("its protocol is not 1001");
  }
  HF_ASSIGN_OR_RETURN(const Program info, NextPickle(bytes, false));
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
          "torch file of before 1.6: it was written on a big-endian machine, "
          "which is not read");
    }
  }
  return {};
}

// Element sizes of the storages that the pickle names. Only whole storages
// count: a view has the key of the storage that it lies in.
Result<std::map<std::string_view, size_t>> ElementSizes(
    const Program& program) {
  std::map<std::string_view, size_t> sizes;
  for (const Node& node : program.nodes) {
    if (node.kind != NodeKind::kPersistent) continue;
    HF_ASSIGN_OR_RETURN(
        const StorageId id,
        ParseStorageId(program, program.node(node.children[0])));
    sizes[id.key] = DTypeBytes(id.dtype);
  }
  return sizes;
}

using Storages = std::map<std::string, std::string_view, std::less<>>;

// Reads what follows the pickle: the list of keys, then each storage's count
// and elements.
Result<Storages> ReadStorages(
    std::string_view bytes,
    const std::map<std::string_view, size_t>& element_sizes) {
  HF_ASSIGN_OR_RETURN(const Program keys, NextPickle(bytes, false));
  const Node& list = keys.node(keys.root);
  if (list.kind != NodeKind::kList) {
    return BadLegacy("it has no list of storages");
  }
  Storages storages;
  for (const NodeIndex index : list.children) {
    const Node& key = keys.node(index);
    const auto size = key.kind == NodeKind::kString
                          ? element_sizes.find(key.text)
                          : element_sizes.end();
    if (size == element_sizes.end()) {
      return BadLegacy("it has a storage that its pickle does not name");
    }
    if (bytes.size() < 8) return BadLegacy("it is cut before a storage");
    const auto count = LoadLittle<int64_t>(bytes.data());
    bytes.remove_prefix(8);
    // Divided, not multiplied: a huge count must not overflow.
    if (count < 0 ||
        static_cast<uint64_t>(count) > bytes.size() / size->second) {
      return BadLegacy("storage \"" + std::string(key.text) + "\" of " +
                       std::to_string(count) + " elements is cut");
    }
    const size_t byte_count = static_cast<size_t>(count) * size->second;
    storages[std::string(key.text)] = bytes.substr(0, byte_count);
    bytes.remove_prefix(byte_count);
  }
  return storages;
}

}  // namespace

bool IsLegacyFile(std::string_view bytes) { return bytes.starts_with(kMagic); }

Result<PickleValue> ReadLegacyFile(std::string_view bytes) {
  const uint64_t source_bytes = bytes.size();
  bytes.remove_prefix(kMagic.size());
  HF_RETURN_IF_ERROR(CheckHead(bytes));
  HF_ASSIGN_OR_RETURN(const Program program, NextPickle(bytes, true));
  HF_ASSIGN_OR_RETURN(const auto sizes, ElementSizes(program));
  HF_ASSIGN_OR_RETURN(const Storages storages, ReadStorages(bytes, sizes));
  std::map<std::string_view, std::shared_ptr<const std::string>> copies;
  ValueOptions options;
  options.source_bytes = source_bytes;
  options.storage = [&](const StorageId& id) -> Result<StorageBytes> {
    const auto found = storages.find(id.key);
    const auto offset = static_cast<uint64_t>(id.view_offset_bytes);
    const auto wanted = static_cast<uint64_t>(id.byte_count);
    if (found == storages.end() || offset > found->second.size() ||
        wanted > found->second.size() - offset) {
      return BadLegacy("storage \"" + std::string(id.key) +
                       "\" is not in it, or shorter");
    }
    auto& copy = copies[id.key];
    if (!copy) copy = std::make_shared<const std::string>(found->second);
    return StorageBytes{copy->data() + offset, copy};
  };
  return ValueOf(program, program.root, options);
}

}  // namespace holdfast::pickle
