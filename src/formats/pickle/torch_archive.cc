#include "formats/pickle/torch_archive.h"

#include "ground/base/status_macros.h"

namespace holdfast::pickle {
namespace {

constexpr std::string_view kPickleName = "data.pkl";

// Returns "root/" for the entry root/data.pkl.
Result<std::string> FindRoot(const ZipReader& zip) {
  std::string root;
  for (const ZipEntry& entry : zip.entries()) {
    const size_t slash = entry.name.find('/');
    if (slash == std::string::npos ||
        std::string_view(entry.name).substr(slash + 1) != kPickleName) {
      continue;
    }
    if (!root.empty()) {
      return DataLossError("torch file: it has two pickles, in \"" + root +
                           "\" and in \"" + entry.name + "\"");
    }
    root = entry.name.substr(0, slash + 1);
  }
  if (root.empty()) {
    return DataLossError("torch file: it has no data.pkl");
  }
  return root;
}

Status CheckByteOrder(const ZipReader& zip, const std::string& root) {
  const ZipEntry* entry = zip.Find(root + "byteorder");
  if (entry == nullptr) return {};
  if (entry->byte_count > 16) {
    return DataLossError("torch file: its byteorder is longer than a word");
  }
  HF_ASSIGN_OR_RETURN(const std::string order, zip.Read(*entry));
  if (order == "little") return {};
  if (order == "big") {
    return UnimplementedError(
        "torch file: it was written on a big-endian machine, which is not "
        "read");
  }
  return DataLossError("torch file: its byteorder is neither little nor big");
}

}  // namespace

Result<TorchArchive> TorchArchive::Open(const ByteSource& source) {
  HF_ASSIGN_OR_RETURN(ZipReader zip, ZipReader::Open(source));
  TorchArchive archive(std::move(zip));
  HF_ASSIGN_OR_RETURN(archive.root_, FindRoot(archive.zip_));
  if (archive.zip_.Find(archive.root_ + "constants.pkl") != nullptr) {
    return UnimplementedError(
        "torch file: it is a TorchScript program, not a torch.save file");
  }
  HF_RETURN_IF_ERROR(CheckByteOrder(archive.zip_, archive.root_));
  for (const ZipEntry& entry : archive.zip_.entries()) {
    archive.by_name_.emplace(entry.name, &entry);
  }
  return archive;
}

Result<std::string> TorchArchive::ReadPickleText() const {
  return zip_.Read(*zip_.Find(root_ + std::string(kPickleName)));
}

Result<const ZipEntry*> TorchArchive::FindStorage(const StorageId& id) const {
  const auto found = by_name_.find(root_ + "data/" + std::string(id.key));
  if (found == by_name_.end()) {
    return DataLossError("torch file: storage \"" + std::string(id.key) +
                         "\" is not in it");
  }
  const ZipEntry* entry = found->second;
  if (entry->byte_count != static_cast<uint64_t>(id.byte_count) ||
      !id.view_of.empty()) {
    return DataLossError("torch file: storage \"" + std::string(id.key) +
                         "\" has " + std::to_string(entry->byte_count) +
                         " bytes, and its pickle says " +
                         std::to_string(id.byte_count));
  }
  return entry;
}

Result<TensorPlace> LocateTensor(const ByteSource& source) {
  HF_ASSIGN_OR_RETURN(const TorchArchive archive, TorchArchive::Open(source));
  HF_ASSIGN_OR_RETURN(const std::string text, archive.ReadPickleText());
  HF_ASSIGN_OR_RETURN(const Program program,
                      RunPickle(text, {.persistent_ids = true}));
  const auto tensor = TensorCallOf(program, program.node(program.root));
  if (!tensor) {
    return DataLossError(
        "torch file: it holds " +
        std::string(NodeKindName(program.node(program.root).kind)) +
        ", not a tensor");
  }
  HF_ASSIGN_OR_RETURN(TensorParts parts, ParseTensor(program, *tensor));
  HF_ASSIGN_OR_RETURN(const ZipEntry* entry,
                      archive.FindStorage(parts.storage));
  HF_ASSIGN_OR_RETURN(const uint64_t offset, archive.zip().DataOffset(*entry));
  return TensorPlace{parts.dtype, std::move(parts.shape),
                     std::move(parts.strides),
                     offset + static_cast<uint64_t>(parts.offset_bytes)};
}

}  // namespace holdfast::pickle
