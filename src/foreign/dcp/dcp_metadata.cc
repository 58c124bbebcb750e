#include "foreign/dcp/dcp_metadata.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "formats/pickle/numpy_dtype.h"
#include "formats/pickle/torch_writer.h"
#include "ground/base/status_macros.h"
#include "holdfast/tools/torch_file.h"
#include "stores/storage/store.h"

namespace holdfast {
namespace {

constexpr std::string_view kModule = "torch.distributed.checkpoint.metadata";

Status BadMetadata(const std::string& what) {
  return DataLossError(".metadata: " + what);
}

Status BadEntry(const std::string& name, const std::string& what) {
  return BadMetadata("\"" + name + "\" " + what);
}

bool IsRecordOf(const PickleValue& value, std::string_view name) {
  return value.is(PickleKind::kRecord) && value.record().name == name;
}

// Returns a member of an object's state, or null.
const PickleValue* Member(const PickleValue& object, std::string_view name) {
  if (!object.is(PickleKind::kRecord)) return nullptr;
  const auto& state = object.record().state;
  if (!state || !state->is(PickleKind::kDict)) return nullptr;
  return state->Find(name);
}

bool IsAbsent(const PickleValue* value) {
  return value == nullptr || value->is(PickleKind::kNone);
}

std::optional<Shape> ShapeOf(const PickleValue* value) {
  if (value == nullptr ||
      (!value->is(PickleKind::kTorchSize) && !value->is(PickleKind::kTuple) &&
       !value->is(PickleKind::kList))) {
    return std::nullopt;
  }
  Shape shape;
  for (const PickleValue& item : value->items()) {
    if (!item.is(PickleKind::kInt) || !item.int_value() ||
        *item.int_value() < 0) {
      return std::nullopt;
    }
    shape.push_back(*item.int_value());
  }
  if (shape.size() > kRankMax) return std::nullopt;
  return shape;
}

std::optional<uint64_t> CountOf(const PickleValue* value) {
  if (value == nullptr || !value->is(PickleKind::kInt) || !value->int_value() ||
      *value->int_value() < 0) {
    return std::nullopt;
  }
  return static_cast<uint64_t>(*value->int_value());
}

// Returns the key of a record: its name and offset ("-" for objects and
// unsharded values).
std::string RecordKey(const std::string& name,
                      const std::optional<Shape>& offset) {
  return name + '\n' + (offset ? ShapeToString(*offset) : "-");
}

class MetadataParser {
 public:
  Result<DcpMetadata> Parse(std::string_view pickle) {
    HF_ASSIGN_OR_RETURN(const PickleValue root, ReadPickle(pickle));
    if (!IsRecordOf(root, "Metadata") && !IsRecordOf(root, "MCoreMetadata")) {
      return BadMetadata("it is a " + std::string(PickleKindName(root.kind())) +
                         ", not torch's Metadata");
    }
    const PickleValue* entries = Member(root, "state_dict_metadata");
    if (entries == nullptr || !entries->is(PickleKind::kDict)) {
      return BadMetadata("it has no state_dict_metadata");
    }
    HF_RETURN_IF_ERROR(ReadRecords(Member(root, "storage_data")));
    DcpMetadata metadata;
    for (const auto& [name, value] : entries->pairs()) {
      if (!name.is(PickleKind::kString)) {
        return BadMetadata("a name is not a str");
      }
      HF_ASSIGN_OR_RETURN(DcpEntry entry, ReadEntry(name.text(), value));
      places_.emplace(entry.name, metadata.entries.size());
      metadata.entries.push_back(std::move(entry));
    }
    HF_RETURN_IF_ERROR(ReadPaths(Member(root, "planner_data"), metadata));
    HF_RETURN_IF_ERROR(ReadFlattened(Member(root, "mcore_data"), metadata));
    return metadata;
  }

 private:
  Status ReadRecords(const PickleValue* records) {
    if (records == nullptr || !records->is(PickleKind::kDict)) {
      return BadMetadata("it has no storage_data");
    }
    for (const auto& [index, info] : records->pairs()) {
      const PickleValue* name = Member(index, "fqn");
      if (name == nullptr || !name->is(PickleKind::kString)) {
        return BadMetadata("a record has no name");
      }
      const PickleValue* offset = Member(index, "offset");
      std::optional<Shape> at;
      if (!IsAbsent(offset)) {
        at = ShapeOf(offset);
        if (!at) return BadEntry(name->text(), "has a record at no offset");
      }
      HF_ASSIGN_OR_RETURN(DcpRecord record, ReadRecord(name->text(), info));
      records_[RecordKey(name->text(), at)] = std::move(record);
    }
    return Status();
  }

  static Result<DcpRecord> ReadRecord(const std::string& name,
                                      const PickleValue& info) {
    const PickleValue* path = Member(info, "relative_path");
    const auto offset = CountOf(Member(info, "offset"));
    const auto byte_count = CountOf(Member(info, "length"));
    if (path == nullptr || !path->is(PickleKind::kString) || !offset ||
        !byte_count) {
      return BadEntry(name, "has a record without path, offset or length");
    }
    if (const Status status = CheckKey(path->text()); !status.ok()) {
      return BadEntry(name, "points outside the checkpoint's directory: \"" +
                                path->text() + "\"");
    }
    const PickleValue* steps = Member(info, "transform_descriptors");
    const bool is_plain =
        IsAbsent(steps) ||
        ((steps->is(PickleKind::kList) || steps->is(PickleKind::kTuple)) &&
         steps->items().empty());
    if (!is_plain) {
      return UnimplementedError(
          ".metadata: \"" + name + "\" went through an extension, " +
          PickleValueToJson(*steps) + ", which is not read");
    }
    return DcpRecord{path->text(), *offset, *byte_count};
  }

  Result<DcpRecord> RecordOf(const std::string& name,
                             const std::optional<Shape>& offset) const {
    const auto found = records_.find(RecordKey(name, offset));
    if (found != records_.end()) return found->second;
    return BadEntry(
        name, "has no record" +
                  (offset ? " at " + ShapeToString(*offset) : std::string()));
  }

  Result<DcpEntry> ReadEntry(const std::string& name,
                             const PickleValue& value) const {
    DcpEntry entry;
    entry.name = name;
    if (IsRecordOf(value, "BytesStorageMetadata")) {
      entry.is_object = true;
      HF_ASSIGN_OR_RETURN(entry.record, RecordOf(name, std::nullopt));
      return entry;
    }
    if (!IsRecordOf(value, "TensorStorageMetadata")) {
      return BadEntry(name, "is neither a tensor nor an object");
    }
    const PickleValue* properties = Member(value, "properties");
    if (properties == nullptr || !properties->is(PickleKind::kRecord) ||
        !properties->record().state) {
      return BadEntry(name, "has no properties");
    }
    const PickleValue& state = *properties->record().state;
    const PickleValue* dtype =
        state.is(PickleKind::kTuple) && !state.items().empty()
            ? &state.items()[0]
            : Member(*properties, "dtype");
    if (dtype == nullptr || !dtype->is(PickleKind::kTorchDType)) {
      return BadEntry(name, "has no dtype");
    }
    entry.torch_dtype = dtype->text();
    entry.dtype = pickle::DTypeOfTorchName(
        std::string_view(dtype->text()).substr(dtype->text().find('.') + 1));
    const auto shape = ShapeOf(Member(value, "size"));
    if (!shape) return BadEntry(name, "has no size");
    entry.shape = *shape;
    const PickleValue* chunks = Member(value, "chunks");
    if (chunks == nullptr || !chunks->is(PickleKind::kList)) {
      return BadEntry(name, "has no chunks");
    }
    for (const PickleValue& chunk : chunks->items()) {
      HF_RETURN_IF_ERROR(ReadChunk(chunk, entry));
    }
    return entry;
  }

  Status ReadChunk(const PickleValue& chunk, DcpEntry& entry) const {
    const auto origin = ShapeOf(Member(chunk, "offsets"));
    const auto shape = ShapeOf(Member(chunk, "sizes"));
    if (!origin || !shape || origin->size() != entry.shape.size() ||
        shape->size() != entry.shape.size()) {
      return BadEntry(entry.name, "has a chunk without place or size");
    }
    for (size_t i = 0; i < shape->size(); ++i) {
      if ((*origin)[i] <= entry.shape[i] &&
          (*shape)[i] <= entry.shape[i] - (*origin)[i]) {
        continue;
      }
      return BadEntry(entry.name, "of shape " + ShapeToString(entry.shape) +
                                      " has a chunk outside of it, " +
                                      BoxToString({*origin, *shape}));
    }
    HF_ASSIGN_OR_RETURN(DcpRecord record, RecordOf(entry.name, origin));
    entry.chunks.push_back({{*origin, *shape}, std::move(record)});
    return Status();
  }

  // Reads the key paths from a dict such as {name: ("model", "layers", 0,
  // "w")}.
  Status ReadPaths(const PickleValue* paths, DcpMetadata& metadata) const {
    if (IsAbsent(paths) || !paths->is(PickleKind::kDict)) return Status();
    for (const auto& [name, path] : paths->pairs()) {
      if (!name.is(PickleKind::kString) || !path.is(PickleKind::kTuple)) {
        continue;
      }
      const auto place = places_.find(name.text());
      if (place == places_.end()) continue;
      DcpEntry& entry = metadata.entries[place->second];
      for (const PickleValue& part : path.items()) {
        const bool is_index = part.is(PickleKind::kInt);
        if (!is_index && !part.is(PickleKind::kString)) {
          return BadEntry(entry.name,
                          "has a path part that is neither int nor str");
        }
        entry.key.push_back(is_index ? PickleValueToJson(part) : part.text());
        entry.key_kinds.push_back(is_index ? KeyKind::kIndex : KeyKind::kName);
      }
    }
    return Status();
  }

  Status ReadFlattened(const PickleValue* data, DcpMetadata& metadata) const {
    if (IsAbsent(data) || !data->is(PickleKind::kDict)) return Status();
    for (const auto& [name, value] : data->pairs()) {
      if (!name.is(PickleKind::kString) || !value.is(PickleKind::kDict)) {
        continue;
      }
      const PickleValue* shape =
          value.Find("nd_reformulated_orig_global_shape");
      const auto place = places_.find(name.text());
      if (IsAbsent(shape) || place == places_.end()) continue;
      DcpEntry& entry = metadata.entries[place->second];
      entry.flattened_shape = ShapeOf(shape);
      if (!entry.flattened_shape) {
        return BadEntry(entry.name, "is flattened and has no true shape");
      }
    }
    return Status();
  }

  std::unordered_map<std::string, DcpRecord> records_;
  std::unordered_map<std::string, size_t> places_;
};

// ---- writing

PickleValue Text(std::string_view text) {
  return PickleValue::String(std::string(text));
}

PickleValue SizeOf(const Shape& shape) {
  std::vector<PickleValue> items;
  for (const int64_t extent : shape) items.push_back(PickleValue::Int(extent));
  return PickleValue::Items(PickleKind::kTorchSize, std::move(items));
}

using Pairs = std::vector<PickleValue::Pair>;

PickleValue ObjectOf(std::string_view module, std::string_view name,
                     PickleValue state) {
  PickleRecord record{.module = std::string(module), .name = std::string(name)};
  record.state = std::move(state);
  return PickleValue::Record(PickleKind::kRecord, std::move(record));
}

PickleValue ObjectOf(std::string_view name, Pairs members) {
  return ObjectOf(kModule, name, PickleValue::Dict(std::move(members)));
}

PickleValue CallOf(std::string_view module, std::string_view name,
                   PickleValue argument) {
  PickleRecord record{.module = std::string(module), .name = std::string(name)};
  record.is_called = true;
  record.args = {std::move(argument)};
  return PickleValue::Record(PickleKind::kRecord, std::move(record));
}

PickleValue PropertiesOf(DType dtype) {
  std::vector<PickleValue> state = {
      PickleValue::Text(PickleKind::kTorchDType,
                        "torch." + std::string(DTypeName(dtype))),
      CallOf("torch.serialization", "_get_layout", Text("torch.strided")),
      PickleValue::Bool(false),
      CallOf(kModule, "_MEM_FORMAT_ENCODING", PickleValue::Int(0)),
      PickleValue::Bool(false)};
  return ObjectOf(kModule, "TensorProperties",
                  PickleValue::Tuple(std::move(state)));
}

PickleValue EntryValue(const DcpEntry& entry) {
  if (entry.is_object) {
    PickleRecord record{.module = std::string(kModule),
                        .name = "BytesStorageMetadata"};
    return PickleValue::Record(PickleKind::kRecord, std::move(record));
  }
  std::vector<PickleValue> chunks;
  for (const DcpChunk& chunk : entry.chunks) {
    chunks.push_back(ObjectOf("ChunkStorageMetadata",
                              {{Text("offsets"), SizeOf(chunk.box.origin)},
                               {Text("sizes"), SizeOf(chunk.box.shape)}}));
  }
  return ObjectOf("TensorStorageMetadata",
                  {{Text("properties"), PropertiesOf(*entry.dtype)},
                   {Text("size"), SizeOf(entry.shape)},
                   {Text("chunks"), PickleValue::List(std::move(chunks))}});
}

void AddRecord(const DcpEntry& entry, const Box* box, const DcpRecord& record,
               Pairs& records) {
  Pairs index = {{Text("fqn"), Text(entry.name)}};
  if (box != nullptr) index.emplace_back(Text("offset"), SizeOf(box->origin));
  index.emplace_back(Text("index"), PickleValue::None());
  const auto count = [](uint64_t value) {
    return PickleValue::Int(static_cast<int64_t>(value));
  };
  records.emplace_back(
      ObjectOf("MetadataIndex", std::move(index)),
      ObjectOf(
          "torch.distributed.checkpoint.filesystem", "_StorageInfo",
          PickleValue::Dict({{Text("relative_path"), Text(record.file)},
                             {Text("offset"), count(record.offset)},
                             {Text("length"), count(record.byte_count)}})));
}

PickleValue PathOf(const DcpEntry& entry) {
  std::vector<PickleValue> parts;
  for (size_t i = 0; i < entry.key.size(); ++i) {
    const std::string& part = entry.key[i];
    const bool is_index =
        i < entry.key_kinds.size() && entry.key_kinds[i] == KeyKind::kIndex &&
        part.size() < 18 &&
        std::ranges::all_of(part, [](char c) { return c >= '0' && c <= '9'; });
    parts.push_back(is_index ? PickleValue::Int(std::stoll("0" + part))
                             : Text(part));
  }
  return PickleValue::Tuple(std::move(parts));
}

}  // namespace

Result<DcpMetadata> ParseDcpMetadata(std::string_view pickle) {
  return MetadataParser().Parse(pickle);
}

Result<std::string> DcpMetadataBytes(const DcpMetadata& metadata,
                                     bool with_mcore) {
  Pairs entries;
  Pairs records;
  Pairs paths;
  Pairs mcore;
  for (const DcpEntry& entry : metadata.entries) {
    entries.emplace_back(Text(entry.name), EntryValue(entry));
    if (entry.is_object) AddRecord(entry, nullptr, entry.record, records);
    for (const DcpChunk& chunk : entry.chunks) {
      AddRecord(entry, &chunk.box, chunk.record, records);
    }
    paths.emplace_back(Text(entry.name), PathOf(entry));
    if (!entry.is_object) {
      mcore.emplace_back(Text(entry.name), PickleValue::Dict({}));
    }
  }
  PickleValue meta = ObjectOf(
      "StorageMeta", {{Text("checkpoint_id"), Text(metadata.checkpoint_id)},
                      {Text("save_id"), Text("0")},
                      {Text("load_id"), PickleValue::None()},
                      {Text("modules"), PickleValue::List({})}});
  Pairs members = {
      {Text("state_dict_metadata"), PickleValue::Dict(std::move(entries))},
      {Text("planner_data"),
       with_mcore ? PickleValue::None() : PickleValue::Dict(std::move(paths))},
      {Text("storage_data"), PickleValue::Dict(std::move(records))},
      {Text("storage_meta"), std::move(meta)},
      {Text("version"), Text("1.0.0")}};
  if (with_mcore) {
    members.emplace_back(Text("mcore_data"),
                         PickleValue::Dict(std::move(mcore)));
  }
  return pickle::PickleOf(ObjectOf("Metadata", std::move(members)));
}

}  // namespace holdfast
