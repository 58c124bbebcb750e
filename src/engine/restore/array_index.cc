#include "engine/restore/array_index.h"

#include <algorithm>

#include "ground/base/executor.h"
#include "ground/base/status_macros.h"
#include "stores/storage/joined_read.h"

namespace holdfast {
namespace {

constexpr std::string_view kMetadataKeys[] = {".zarray", "zarr.json"};

int FormatOfMetadataKey(std::string_view key) {
  return key == ".zarray" ? 2 : 3;
}

}  // namespace

// A database may claim any size for metadata. Memory is allocated for claims up
// to this size.
constexpr uint64_t kMetadataBytesMax = 64 << 20;

Status CheckMetadataBytes(std::string_view key, uint64_t byte_count) {
  if (byte_count <= kMetadataBytesMax) return Status();
  return DataLossError("array metadata " + std::string(key) + " has " +
                       std::to_string(byte_count) + " bytes (want at most " +
                       std::to_string(kMetadataBytesMax) + ")");
}

// Keys arrive in byte order, so an array's metadata may come after some of its
// chunks ("w/c/0" < "w/zarr.json"); bytes are assigned to arrays at the end.
struct ArrayIndex::Builder {
  struct Sized {
    std::string key;
    uint64_t byte_count;
  };
  std::vector<StoredArray> arrays;
  std::vector<Sized> values;

  // Adds a key. Returns true if it is the key of metadata, whose text the
  // caller must then set.
  bool Add(std::string_view key, uint64_t byte_count) {
    const size_t slash = key.rfind('/');
    const std::string_view last =
        slash == std::string_view::npos ? key : key.substr(slash + 1);
    values.push_back({std::string(key), byte_count});
    if (last != kMetadataKeys[0] && last != kMetadataKeys[1]) return false;
    StoredArray array;
    array.name = slash == std::string_view::npos
                     ? ""
                     : std::string(key.substr(0, slash));
    array.zarr_format = FormatOfMetadataKey(last);
    arrays.push_back(std::move(array));
    return true;
  }

  // Metadata that is read after the walk, all in one batch.
  struct Aside {
    size_t array;  // its index in `arrays`
    std::string key;
  };
  Status ReadAside(Store& store, const std::vector<Aside>& aside) {
    const auto read = [&](size_t i, int) -> Status {
      HF_ASSIGN_OR_RETURN(arrays[aside[i].array].metadata,
                          store.Read(aside[i].key));
      return Status();
    };
    const size_t at_once = std::max(store.requests_in_flight(), 1);
    Executor executor(
        static_cast<int>(std::clamp<size_t>(aside.size(), 1, at_once)));
    return executor.ParallelFor(aside.size(), read);
  }

  ArrayIndex Finish() {
    ArrayIndex index;
    std::sort(arrays.begin(), arrays.end(),
              [](const StoredArray& a, const StoredArray& b) {
                return a.name < b.name;
              });
    index.arrays_ = std::move(arrays);
    for (const Sized& value : values) {
      if (StoredArray* owner = OwnerOf(index, value.key)) {
        owner->stored_bytes += value.byte_count;
      }
    }
    return index;
  }

  // Returns the array with the longest name that is a prefix of `key`.
  static StoredArray* OwnerOf(ArrayIndex& index, std::string_view key) {
    size_t slash = key.rfind('/');
    while (true) {
      const std::string_view name =
          slash == std::string_view::npos ? "" : key.substr(0, slash);
      if (const StoredArray* array = index.Find(name)) {
        return const_cast<StoredArray*>(array);
      }
      if (slash == std::string_view::npos || slash == 0) return nullptr;
      slash = key.rfind('/', slash - 1);
    }
  }
};

Result<ArrayIndex> ArrayIndex::FromDatabase(ocdbt::Database& database,
                                            Store& store) {
  Builder builder;
  const bool is_remote = store.requests_in_flight() > 1;
  std::vector<size_t> aside;  // indices of arrays
  std::vector<JoinedRange> ranges;
  HF_RETURN_IF_ERROR(database.ForEach(
      "", "", "",
      [&](std::string_view key, const ocdbt::ValueRef& value) -> Status {
        if (!builder.Add(key, value.byte_count)) return Status();
        StoredArray& array = builder.arrays.back();
        if (value.is_inline) {
          array.metadata = value.InlineBytes();
          return Status();
        }
        if (is_remote) {
          aside.push_back(builder.arrays.size() - 1);
          ranges.push_back(
              {std::string(value.file), value.offset, value.byte_count});
          return CheckMetadataBytes(key, value.byte_count);
        }
        HF_ASSIGN_OR_RETURN(array.metadata, store.Read(key));
        return Status();
      }));
  HF_ASSIGN_OR_RETURN(std::vector<Bytes> texts,
                      ReadJoined(*database.store(), ranges));
  for (size_t i = 0; i < aside.size(); ++i) {
    builder.arrays[aside[i]].metadata = std::move(texts[i]);
  }
  return builder.Finish();
}

Result<ArrayIndex> ArrayIndex::FromDirectory(Store& store) {
  Builder builder;
  std::vector<Builder::Aside> aside;
  HF_RETURN_IF_ERROR(store.List(
      "", [&](std::string_view key, const ObjectInfo& info) -> Status {
        if (!builder.Add(key, info.byte_count)) return Status();
        aside.push_back({builder.arrays.size() - 1, std::string(key)});
        if (store.requests_in_flight() > 1) return Status();
        HF_RETURN_IF_ERROR(builder.ReadAside(store, aside));
        aside.clear();
        return Status();
      }));
  HF_RETURN_IF_ERROR(builder.ReadAside(store, aside));
  return builder.Finish();
}

const StoredArray* ArrayIndex::Find(std::string_view name) const {
  if (name.ends_with('/')) name.remove_suffix(1);  // as in ArrayPrefix
  const auto found =
      std::lower_bound(arrays_.begin(), arrays_.end(), name,
                       [](const StoredArray& array, std::string_view wanted) {
                         return array.name < wanted;
                       });
  return found != arrays_.end() && found->name == name ? &*found : nullptr;
}

namespace {

Result<StoredArray> ReadArrayOfKeys(
    Store& store, const std::string& name,
    std::initializer_list<std::string_view> metadata_keys) {
  for (const std::string_view metadata_key : metadata_keys) {
    const std::string key = ArrayPrefix(name) + std::string(metadata_key);
    Result<Bytes> text = store.Read(key);
    if (text.status().code() == StatusCode::kNotFound) continue;
    if (!text.ok()) return text.status();
    StoredArray array;
    array.name = name;
    array.zarr_format = FormatOfMetadataKey(metadata_key);
    array.stored_bytes = text->size();
    array.metadata = std::move(text).value();
    return array;
  }
  return NotFoundError(
      "File not found: " + store.Describe(ArrayPrefix(name) + ".zarray") +
      " (nor zarr.json). In many cases, this results from copying a checkpoint "
      "without using the `-a` flag.");
}

}  // namespace

Result<StoredArray> ReadStoredArray(Store& store, const std::string& name) {
  return ReadArrayOfKeys(store, name, {kMetadataKeys[0], kMetadataKeys[1]});
}

std::vector<Result<StoredArray>> ReadStoredArrays(
    Store& store, const std::vector<std::string>& names, bool prefers_zarr3) {
  std::vector<Result<StoredArray>> arrays(names.size(),
                                          NotFoundError("not asked for"));
  const auto read = [&](size_t i, int) {
    arrays[i] = prefers_zarr3
                    ? ReadArrayOfKeys(store, names[i],
                                      {kMetadataKeys[1], kMetadataKeys[0]})
                    : ReadStoredArray(store, names[i]);
    return Status();
  };
  const size_t at_once = std::max(store.requests_in_flight(), 1);
  Executor executor(
      static_cast<int>(std::clamp<size_t>(names.size(), 1, at_once)));
  const Status status = executor.ParallelFor(names.size(), read);
  if (!status.ok()) arrays.assign(names.size(), status);
  return arrays;
}

Result<StoredArray> ReadStoredArray(Store& store, const std::string& name,
                                    const std::string& metadata_key) {
  const std::string key = ArrayPrefix(name) + metadata_key;
  Result<Bytes> text = store.Read(key);
  if (text.status().code() == StatusCode::kNotFound) {
    return NotFoundError("File not found: " + store.Describe(key) +
                         ". In many cases, this results from copying a "
                         "checkpoint without using the `-a` flag.");
  }
  if (!text.ok()) return text.status();
  StoredArray array;
  array.name = name;
  array.stored_bytes = text->size();
  array.metadata = std::move(text).value();
  return array;
}

std::string ArrayPrefix(std::string_view name) {
  const bool has_separator = name.empty() || name.ends_with('/');
  return std::string(name) + (has_separator ? "" : "/");
}

}  // namespace holdfast
