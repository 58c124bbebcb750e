#include "stores/storage/joined_read.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include "ground/base/status_macros.h"

namespace holdfast {
namespace {

// The ranges [first, last) of the sorted order, which one request reads.
struct JoinedRead {
  size_t first = 0;
  size_t last = 0;
  uint64_t offset = 0;
  uint64_t end = 0;
};

std::vector<size_t> SortedOrder(const std::vector<JoinedRange>& ranges) {
  std::vector<size_t> order(ranges.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::tie(ranges[a].key, ranges[a].offset) <
           std::tie(ranges[b].key, ranges[b].offset);
  });
  return order;
}

std::vector<JoinedRead> JoinRanges(const std::vector<JoinedRange>& ranges,
                                   const std::vector<size_t>& order,
                                   const JoinOptions& options) {
  std::vector<JoinedRead> reads;
  for (size_t i = 0; i < order.size(); ++i) {
    const JoinedRange& range = ranges[order[i]];
    const uint64_t end = range.offset + range.byte_count;
    if (!reads.empty()) {
      JoinedRead& last = reads.back();
      const bool is_near =
          ranges[order[last.first]].key == range.key &&
          range.offset <= last.end + options.gap_bytes_max &&
          std::max(end, last.end) - last.offset <= options.joined_bytes_max;
      if (is_near) {
        last.last = i + 1;
        last.end = std::max(end, last.end);
        continue;
      }
    }
    reads.push_back({i, i + 1, range.offset, end});
  }
  return reads;
}

Status CheckRanges(const Store& store, const std::vector<JoinedRange>& ranges) {
  for (const JoinedRange& range : ranges) {
    // offset + byte_count is computed later and must not overflow. byte_count
    // must not be kToEnd, which means "to the end".
    if (range.byte_count <= kToEnd - range.offset) continue;
    return OutOfRangeError("read " + store.Describe(range.key) +
                           ": the range ends past the largest offset");
  }
  return {};
}

}  // namespace

Result<std::vector<Bytes>> ReadJoined(Store& store,
                                      const std::vector<JoinedRange>& ranges,
                                      const JoinOptions& options) {
  HF_RETURN_IF_ERROR(CheckRanges(store, ranges));
  const std::vector<size_t> order = SortedOrder(ranges);
  const std::vector<JoinedRead> reads = JoinRanges(ranges, order, options);
  std::vector<Bytes> results(ranges.size());
  for (size_t next = 0; next < reads.size();) {
    const size_t begin = next;
    uint64_t batch_bytes = 0;
    std::vector<Buffer> buffers;
    std::vector<RangeRead> requests;
    for (; next < reads.size(); ++next) {
      const JoinedRead& read = reads[next];
      const uint64_t byte_count = read.end - read.offset;
      // The batch bounds memory, not the number of requests. A single range
      // always fits.
      if (next > begin && batch_bytes + byte_count > options.batch_bytes_max) {
        break;
      }
      batch_bytes += byte_count;
      buffers.push_back(Buffer::TryAllocate(byte_count));
      if (buffers.back().data() == nullptr && byte_count > 0) {
        return ResourceExhaustedError("no memory for " +
                                      std::to_string(byte_count) + " bytes");
      }
      requests.push_back({ranges[order[read.first]].key,
                          read.offset,
                          {buffers.back().data(), byte_count}});
    }
    HF_RETURN_IF_ERROR(store.ReadBatch(requests));
    for (size_t i = begin; i < next; ++i) {
      const JoinedRead& read = reads[i];
      const Bytes whole(std::move(buffers[i - begin]), read.end - read.offset);
      for (size_t k = read.first; k < read.last; ++k) {
        const JoinedRange& range = ranges[order[k]];
        results[order[k]] =
            whole.Slice(range.offset - read.offset, range.byte_count);
      }
    }
  }
  return results;
}

}  // namespace holdfast
