#include "engine/format/tree_metadata.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "engine/format/directory_names.h"
#include "engine/format/own_documents.h"
#include "engine/format/shape_json.h"
#include "ground/base/status_macros.h"
#include "ground/json/scanner.h"
#include "ground/json/text.h"
#include "holdfast/tree.h"

namespace holdfast {
namespace {

// The member of a key that gives its type in Python, if that is not str.
constexpr std::string_view kKeyClass = "holdfast_key";
constexpr std::string_view kKeyClassInt = "int";
// The item's own documents in "custom_metadata".
constexpr std::string_view kDocumentsMember = "holdfast_documents";
// The values of "key_type".
constexpr int64_t kKeyTypeSequence = 1;
constexpr int64_t kKeyTypeDict = 2;

std::string_view BoolText(bool value) { return value ? "true" : "false"; }

void AppendKeyMetadata(std::string& out, const KeyPath& path) {
  out += "\"key_metadata\": [";
  for (size_t i = 0; i < path.size(); ++i) {
    out += i > 0 ? ", {\"key\": " : "{\"key\": ";
    AppendPythonJsonString(out, path[i].key);
    const KeyKind kind = path[i].kind;
    out += kind == KeyKind::kIndex ? ", \"key_type\": 1" : ", \"key_type\": 2";
    if (kind == KeyKind::kInteger) out += ", \"holdfast_key\": \"int\"";
    out += '}';
  }
  out += ']';
}

void AppendEntry(std::string& out, const TreeMetadataEntry& entry) {
  AppendPythonJsonString(out, KeyPathRepr(entry.path));
  out += ": {";
  AppendKeyMetadata(out, entry.path);
  out += ", \"value_metadata\": {\"value_type\": ";
  AppendPythonJsonString(out, entry.value_type);
  out += ", \"skip_deserialize\": ";
  out += BoolText(entry.skip_deserialize);
  if (entry.write_shape.has_value()) {
    out += ", \"write_shape\": ";
    AppendJsonShape(out, *entry.write_shape);
  }
  out += "}}";
}

class TreeMetadataParser {
 public:
  explicit TreeMetadataParser(std::string_view text) : in_(text) {}

  Status Parse() {
    HF_RETURN_IF_ERROR(in_.ReadObject(
        [&](std::string_view key) { return ReadTopMember(key); }));
    HF_RETURN_IF_ERROR(in_.ReadEnd());
    SplitDocuments();
    if (seen_ & kSeenTree) return Status();
    return DataLossError("tree_metadata: member is missing");
  }

  TreeMetadata metadata;

 private:
  enum : unsigned {
    kSeenTree = 1,
    kSeenOcdbt = 2,
    kSeenZarr3 = 4,
    kSeenFill = 8,
    kSeenCustom = 16,
    kSeenRich = 32,
    kSeenKeys = 64,
    kSeenValue = 128,
    kSeenType = 256,
    kSeenSkip = 512,
    kSeenShape = 1024,
    kSeenKey = 2048,
    kSeenKeyType = 4096,
    kSeenKeyClass = 8192,
    kSeenDocuments = 16384,
  };

  Status Once(unsigned& seen, unsigned member) const {
    if (seen & member) return in_.Error("member is given twice");
    seen |= member;
    return Status();
  }

  Status Want(unsigned seen, unsigned members, std::string_view names) const {
    if ((seen & members) == members) return Status();
    return in_.Error("a member is missing (want " + std::string(names) + ")");
  }

  Status ReadTopMember(std::string_view key) {
    if (key == "tree_metadata") return ReadEntries();
    if (key == "use_ocdbt") return ReadUseOcdbt();
    if (key == "use_zarr3") {
      HF_RETURN_IF_ERROR(Once(seen_, kSeenZarr3));
      return in_.ReadBool(metadata.use_zarr3);
    }
    if (key == "store_array_data_equal_to_fill_value") {
      HF_RETURN_IF_ERROR(Once(seen_, kSeenFill));
      return in_.ReadBool(metadata.store_array_data_equal_to_fill_value);
    }
    if (key == "custom_metadata") {
      HF_RETURN_IF_ERROR(Once(seen_, kSeenCustom));
      return in_.ReadDocument(metadata.custom_metadata);
    }
    if (key == "value_metadata_tree") return ReadRichTree();
    if (key == kDocumentsMember) return ReadDocumentNames();
    return in_.SkipValue();
  }

  Status ReadUseOcdbt() {
    HF_RETURN_IF_ERROR(Once(seen_, kSeenOcdbt));
    if (in_.NextIsNull()) return in_.ReadNull();
    return in_.ReadBool(metadata.use_ocdbt.emplace());
  }

  Status ReadRichTree() {
    HF_RETURN_IF_ERROR(Once(seen_, kSeenRich));
    if (in_.NextIsNull()) return in_.ReadNull();
    return in_.ReadString(metadata.value_metadata_tree.emplace());
  }

  Status ReadDocumentNames() {
    HF_RETURN_IF_ERROR(Once(seen_, kSeenDocuments));
    metadata.names_documents = true;
    return in_.ReadDocument(document_names_);
  }

  // Documents that the file does not list belong to another item.
  void SplitDocuments() {
    nlohmann::ordered_json found = TakeOwnDocuments(metadata.custom_metadata);
    if (found.is_null()) return;
    if (metadata.custom_metadata.empty()) metadata.custom_metadata = nullptr;
    for (const auto& [key, document] : found.items()) {
      const bool is_named =
          std::find(document_names_.begin(), document_names_.end(), key) !=
          document_names_.end();
      if (metadata.names_documents && !is_named) continue;
      metadata.documents[key] = document;
    }
  }

  Status ReadEntries() {
    HF_RETURN_IF_ERROR(Once(seen_, kSeenTree));
    return in_.ReadObject([&](std::string_view) {
      return ReadEntry(metadata.entries.emplace_back());
    });
  }

  Status ReadEntry(TreeMetadataEntry& entry) {
    unsigned seen = 0;
    HF_RETURN_IF_ERROR(in_.ReadObject([&](std::string_view key) {
      if (key == "key_metadata") {
        HF_RETURN_IF_ERROR(Once(seen, kSeenKeys));
        return ReadPath(entry.path);
      }
      if (key == "value_metadata") {
        HF_RETURN_IF_ERROR(Once(seen, kSeenValue));
        return ReadValue(entry);
      }
      return in_.SkipValue();
    }));
    return Want(seen, kSeenKeys | kSeenValue, "key_metadata, value_metadata");
  }

  Status ReadPath(KeyPath& path) {
    return in_.ReadArray([&] {
      if (path.size() >= kTreeDepthMax) {
        return in_.Error("path is too deep (want " +
                         std::to_string(kTreeDepthMax) + " keys at most)");
      }
      return ReadElement(path.emplace_back());
    });
  }

  Status ReadElement(KeyElement& element) {
    unsigned seen = 0;
    bool is_sequence = false;
    std::string key_class;
    HF_RETURN_IF_ERROR(in_.ReadObject([&](std::string_view key) {
      if (key == "key") {
        HF_RETURN_IF_ERROR(Once(seen, kSeenKey));
        return in_.ReadString(element.key);
      }
      if (key == "key_type") {
        HF_RETURN_IF_ERROR(Once(seen, kSeenKeyType));
        return ReadKeyType(is_sequence);
      }
      if (key == kKeyClass) {
        HF_RETURN_IF_ERROR(Once(seen, kSeenKeyClass));
        return in_.ReadString(key_class);
      }
      return in_.SkipValue();
    }));
    HF_RETURN_IF_ERROR(Want(seen, kSeenKey | kSeenKeyType, "key, key_type"));
    if (is_sequence) {
      element.kind = KeyKind::kIndex;
    } else if (key_class == kKeyClassInt) {
      element.kind = KeyKind::kInteger;
    }
    return CheckNumber(element);
  }

  Status ReadKeyType(bool& is_sequence) {
    int64_t key_type = 0;
    HF_RETURN_IF_ERROR(in_.ReadInt64(key_type));
    is_sequence = key_type == kKeyTypeSequence;
    if (is_sequence || key_type == kKeyTypeDict) return Status();
    return in_.Error("unknown key type (got " + std::to_string(key_type) +
                     ", want 1 or 2)");
  }

  // Checks that the key of an index, or of an integer, is a number. Eighteen
  // digits fit in an int64_t, and Unflatten compares indexes as texts of equal
  // length.
  Status CheckNumber(const KeyElement& element) const {
    if (element.kind == KeyKind::kName) return Status();
    if (element.kind == KeyKind::kInteger) {
      if (IsIntegerText(element.key)) return Status();
      return in_.Error("key is not an integer (got '" + element.key + "')");
    }
    const bool digits_only =
        !element.key.empty() &&
        element.key.find_first_not_of("0123456789") == std::string::npos;
    if (digits_only && element.key.size() <= 18) return Status();
    return in_.Error("sequence index is not a number (got '" + element.key +
                     "')");
  }

  Status ReadValue(TreeMetadataEntry& entry) {
    unsigned seen = 0;
    HF_RETURN_IF_ERROR(in_.ReadObject([&](std::string_view key) {
      if (key == "value_type") {
        HF_RETURN_IF_ERROR(Once(seen, kSeenType));
        return in_.ReadString(entry.value_type);
      }
      if (key == "skip_deserialize") {
        HF_RETURN_IF_ERROR(Once(seen, kSeenSkip));
        return in_.ReadBool(entry.skip_deserialize);
      }
      if (key == "write_shape") {
        HF_RETURN_IF_ERROR(Once(seen, kSeenShape));
        return ReadShape(entry.write_shape);
      }
      return in_.SkipValue();
    }));
    return Want(seen, kSeenType | kSeenSkip, "value_type, skip_deserialize");
  }

  Status ReadShape(std::optional<Shape>& write_shape) {
    if (in_.NextIsNull()) return in_.ReadNull();
    return ReadJsonShape(in_, write_shape.emplace());
  }

  JsonScanner in_;
  unsigned seen_ = 0;
  nlohmann::ordered_json document_names_;
};

uint64_t HashKeys(const KeyPath& path) {
  uint64_t hash = path.size();
  for (const KeyElement& element : path) {
    // The odd multiplier of FNV-1a makes the order of the elements matter.
    hash = hash * 0x100000001b3 ^ std::hash<std::string>()(element.key);
  }
  return hash;
}

// Checks that no two entries have the same path. Sorted hashes take 16 bytes
// per leaf; a set of paths would take hundreds. Ties are broken by the keys, so
// that deliberate collisions cost no more.
Status CheckUniquePaths(const std::vector<TreeMetadataEntry>& entries) {
  using HashedEntry = std::pair<uint64_t, size_t>;
  std::vector<HashedEntry> hashes(entries.size());
  for (size_t i = 0; i < entries.size(); ++i) {
    hashes[i] = {HashKeys(entries[i].path), i};
  }
  const auto compare = [&](const HashedEntry& a, const HashedEntry& b) {
    if (a.first != b.first) return a.first < b.first ? -1 : 1;
    return CompareKeys(entries[a.second].path, entries[b.second].path);
  };
  std::sort(hashes.begin(), hashes.end(),
            [&](const HashedEntry& a, const HashedEntry& b) {
              return compare(a, b) < 0;
            });
  for (size_t i = 1; i < hashes.size(); ++i) {
    if (compare(hashes[i - 1], hashes[i]) != 0) continue;
    return DataLossError("tree_metadata: two entries for the path " +
                         KeyPathRepr(entries[hashes[i].second].path));
  }
  return Status();
}

// Returns the user's metadata and the documents as one object.
nlohmann::ordered_json AllMetadata(const TreeMetadata& metadata) {
  nlohmann::ordered_json all = metadata.custom_metadata;
  if (metadata.documents.is_null()) return all;
  for (const auto& [key, document] : metadata.documents.items()) {
    all[key] = document;
  }
  return all;
}

void AppendDocumentNames(std::string& out, const TreeMetadata& metadata) {
  nlohmann::ordered_json names = nlohmann::ordered_json::array();
  for (const auto& [key, document] : metadata.documents.items()) {
    names.push_back(key);
  }
  out += ", \"" + std::string(kDocumentsMember) + "\": ";
  AppendPythonJson(out, names);
}

}  // namespace

std::string SerializeTreeMetadata(const TreeMetadata& metadata) {
  std::string out = "{\"tree_metadata\": {";
  for (size_t i = 0; i < metadata.entries.size(); ++i) {
    if (i > 0) out += ", ";
    AppendEntry(out, metadata.entries[i]);
  }
  out += "}, \"use_ocdbt\": ";
  out +=
      metadata.use_ocdbt.has_value() ? BoolText(*metadata.use_ocdbt) : "null";
  out += ", \"use_zarr3\": ";
  out += BoolText(metadata.use_zarr3);
  out += ", \"store_array_data_equal_to_fill_value\": ";
  out += BoolText(metadata.store_array_data_equal_to_fill_value);
  out += ", \"custom_metadata\": ";
  AppendPythonJson(out, AllMetadata(metadata));
  if (metadata.value_metadata_tree.has_value()) {
    out += ", \"value_metadata_tree\": ";
    AppendPythonJsonString(out, *metadata.value_metadata_tree);
  }
  if (!metadata.documents.is_null()) AppendDocumentNames(out, metadata);
  out += '}';
  return out;
}

Result<TreeMetadata> ParseTreeMetadata(std::string_view text) {
  TreeMetadataParser parser(text);
  Status status = parser.Parse();
  if (status.ok()) status = CheckUniquePaths(parser.metadata.entries);
  if (!status.ok()) return status.WithContext(kTreeMetadataFile);
  return std::move(parser.metadata);
}

}  // namespace holdfast
