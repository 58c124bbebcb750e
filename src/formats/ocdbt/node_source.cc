#include "formats/ocdbt/node_source.h"

#include <utility>
#include <vector>

#include "ground/base/status_macros.h"

namespace holdfast::ocdbt {
namespace {

// A longer read is first checked against the file's size, so that no buffer is
// allocated for a length that a damaged reference claims.
constexpr uint64_t kUncheckedReadBytesMax = uint64_t{1} << 20;

// The limit of one batch of nodes; larger nodes are read when they are needed.
constexpr uint64_t kAheadBytesMax = uint64_t{32} << 20;
constexpr uint64_t kAheadNodeBytesMax = uint64_t{8} << 20;

// Returns the node's key in the cache. It includes the base path, because the
// meaning of references in a node depends on that path.
std::string CacheKey(const DataFile& file, const Reference& range) {
  return file.path + '\0' + std::to_string(file.base_byte_count) + ' ' +
         std::to_string(range.offset) + ' ' + std::to_string(range.byte_count);
}

}  // namespace

Status RangeError(uint64_t offset, uint64_t byte_count,
                  uint64_t file_byte_count) {
  return OutOfRangeError("Requested byte range [" + std::to_string(offset) +
                         ", " + std::to_string(offset + byte_count) +
                         ") is not valid for value of size " +
                         std::to_string(file_byte_count));
}

std::string RangeText(const Store& store, std::string_view path,
                      uint64_t offset, uint64_t byte_count) {
  return "Byte range [" + std::to_string(offset) + ", " +
         std::to_string(offset + byte_count) + ") of " + store.Describe(path);
}

Result<Bytes> ReadFileRange(Store& store, std::string_view path,
                            uint64_t offset, uint64_t byte_count) {
  HF_RETURN_IF_ERROR(CheckDataFilePath(path));
  // A damaged file may claim any size, so a large size is compared with the
  // file's size before memory is allocated.
  if (byte_count > kUncheckedReadBytesMax) {
    HF_ASSIGN_OR_RETURN(const ObjectInfo info, store.Stat(path));
    if (offset > info.byte_count || byte_count > info.byte_count - offset) {
      return RangeError(offset, byte_count, info.byte_count);
    }
  }
  Result<Bytes> bytes = store.Read(path, {offset, byte_count});
  if (bytes.ok() || bytes.status().code() != StatusCode::kOutOfRange) {
    return bytes;
  }
  const Result<ObjectInfo> info = store.Stat(path);
  if (!info.ok()) return bytes;
  return RangeError(offset, byte_count, info->byte_count);
}

Result<Bytes> NodeSource::ReadObject(const DataFile& file,
                                     const Reference& range) {
  return ReadFileRange(*store_, file.path, range.offset, range.byte_count);
}

Result<VersionTreeNode> NodeSource::ReadVersionTreeNode(
    const DataFile& file, const Reference& range) {
  const auto load = [&]() -> Result<VersionTreeNode> {
    HF_ASSIGN_OR_RETURN(const Bytes object, ReadObject(file, range));
    return DecodeVersionTreeNode(object, file.base(), limits_);
  };
  Result<VersionTreeNode> node = load();
  if (node.ok()) return node;
  return node.status().WithContext(
      "Error reading " +
      RangeText(*store_, file.path, range.offset, range.byte_count));
}

Result<std::shared_ptr<const BtreeNode>> NodeSource::LoadBtreeNode(
    const DataFile& file, const Reference& range) {
  const auto load = [&]() -> Result<BtreeNode> {
    HF_ASSIGN_OR_RETURN(const Bytes object, ReadObject(file, range));
    return DecodeBtreeNode(object, file.base(), limits_);
  };
  Result<BtreeNode> node = load();
  if (node.ok()) {
    return std::make_shared<const BtreeNode>(std::move(node).value());
  }
  return node.status().WithContext(
      "Error reading " +
      RangeText(*store_, file.path, range.offset, range.byte_count));
}

Result<std::shared_ptr<const BtreeNode>> NodeSource::ReadBtreeNode(
    const DataFile& file, const Reference& range) {
  const std::string cache_key = CacheKey(file, range);
  std::shared_ptr<const BtreeNode> cached = BeginRead(cache_key);
  if (cached != nullptr) return cached;
  Result<std::shared_ptr<const BtreeNode>> node = LoadBtreeNode(file, range);
  EndRead(cache_key, node.ok() ? *node : nullptr);
  return node;
}

bool NodeSource::TryBeginRead(const std::string& cache_key) {
  const std::lock_guard lock(mutex_);
  return cache_.try_emplace(cache_key).second;
}

void NodeSource::FetchAhead(const std::vector<NodePlace>& places) {
  std::vector<const NodePlace*> asked;
  std::vector<Buffer> buffers;
  std::vector<RangeRead> requests;
  uint64_t byte_count = 0;
  for (const NodePlace& place : places) {
    // A node that is already being read (TryBeginRead) is left to its reader.
    const uint64_t node_bytes = place.range.byte_count;
    if (node_bytes == 0 || node_bytes > kAheadNodeBytesMax ||
        byte_count + node_bytes > kAheadBytesMax ||
        !CheckDataFilePath(place.file.path).ok() ||
        !TryBeginRead(CacheKey(place.file, place.range))) {
      continue;
    }
    byte_count += node_bytes;
    asked.push_back(&place);
    buffers.emplace_back(node_bytes);
    requests.push_back({place.file.path,
                        place.range.offset,
                        {buffers.back().data(), node_bytes}});
  }
  // A failure is not reported here. The reader that needs the node reads it
  // again and gets the error.
  const bool is_read = !requests.empty() && store_->ReadBatch(requests).ok();
  for (size_t i = 0; i < asked.size(); ++i) {
    std::shared_ptr<const BtreeNode> node;
    if (is_read) {
      const size_t node_bytes = asked[i]->range.byte_count;
      Result<BtreeNode> decoded =
          DecodeBtreeNode(Bytes(std::move(buffers[i]), node_bytes),
                          asked[i]->file.base(), limits_);
      if (decoded.ok()) {
        node = std::make_shared<const BtreeNode>(std::move(decoded).value());
      }
    }
    EndRead(CacheKey(asked[i]->file, asked[i]->range), std::move(node));
  }
}

std::shared_ptr<const BtreeNode> NodeSource::BeginRead(
    const std::string& cache_key) {
  std::unique_lock lock(mutex_);
  while (true) {
    const auto [found, inserted] = cache_.try_emplace(cache_key);
    if (inserted) return nullptr;
    if (found->second.node != nullptr) {
      cache_order_.splice(cache_order_.begin(), cache_order_,
                          found->second.place);
      return found->second.node;
    }
    // The entry is empty: another thread is reading this node, and wakes this
    // thread when it has finished.
    read_ended_.wait(lock);
  }
}

void NodeSource::EndRead(const std::string& cache_key,
                         std::shared_ptr<const BtreeNode> node) {
  {
    std::lock_guard lock(mutex_);
    const bool keep =
        node != nullptr && node->memory_byte_count() <= cache_bytes_max_;
    if (!keep) {
      // The entry must be removed even on failure, or waiters would wait
      // forever.
      cache_.erase(cache_key);
    } else {
      cache_byte_count_ += node->memory_byte_count();
      cache_order_.push_front(cache_key);
      cache_[cache_key] = {std::move(node), cache_order_.begin()};
      // This loop ends before it drops the new node, the youngest, because that
      // node fits by itself.
      while (cache_byte_count_ > cache_bytes_max_) DropOldest();
    }
  }
  read_ended_.notify_all();
}

void NodeSource::DropOldest() {
  const auto oldest = cache_.find(cache_order_.back());
  cache_byte_count_ -= oldest->second.node->memory_byte_count();
  cache_.erase(oldest);
  cache_order_.pop_back();
}

}  // namespace holdfast::ocdbt
