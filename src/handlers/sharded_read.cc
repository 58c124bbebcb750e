#include "handlers/sharded_read.h"

#include <utility>

#include "base/status_macros.h"

namespace holdfast {
namespace {

// TensorStore's spelling of a domain; `mark` follows bounds that may grow.
std::string DomainText(const Box& box, const char* mark) {
  if (box.shape.empty()) return "{ }";
  std::string text = "{ ";
  for (size_t d = 0; d < box.shape.size(); ++d) {
    if (d > 0) text += ", ";
    text += "[" + std::to_string(box.origin[d]) + ", " +
            std::to_string(box.origin[d] + box.shape[d]) + mark + ")";
  }
  return text + " }";
}

// The distinct boxes of one parameter, one read each.
Result<std::vector<BoxRead>> ReadsOf(const ParamArrays& params, size_t param,
                                     const ShardedWish& wish) {
  const Shape& stored = params.shape(param);
  const Shape shape = wish.shape.value_or(stored);
  HF_ASSIGN_OR_RETURN(const std::vector<DeviceShard> shards,
                      ShardBoxes(wish.sharding, shape));
  HF_RETURN_IF_ERROR(
      CheckRestoreShape(shape, stored, wish.strict,
                        {shards.front().origin, shards.front().shape}));
  std::vector<BoxRead> reads;
  for (const DeviceShard& shard : shards) {
    if (shard.replica_id != 0) continue;
    reads.push_back({param, {shard.origin, shard.shape}, wish.dtype});
  }
  return reads;
}

// Runs of reads that fit below the bound together.
class LimitedReader {
 public:
  LimitedReader(const ParamArrays& params,
                const std::shared_ptr<LimitInFlightBytes>& limiter)
      : params_(params), limiter_(limiter) {}

  Result<std::vector<Array>> Read(std::span<const BoxRead> reads) {
    if (limiter_ == nullptr) return ReadBoxes(params_, reads);
    std::vector<Array> arrays;
    size_t first = 0;
    while (first < reads.size()) {
      int64_t byte_count = ReadFootprintBytes(params_, reads[first]);
      size_t last = first + 1;
      for (; last < reads.size(); ++last) {
        const int64_t more_bytes = ReadFootprintBytes(params_, reads[last]);
        if (more_bytes >= limiter_->bytes_max() - byte_count) break;
        byte_count += more_bytes;
      }
      HF_RETURN_IF_ERROR(limiter_->WaitForBytes(byte_count));
      Result<std::vector<Array>> run =
          ReadBoxes(params_, reads.subspan(first, last - first));
      limiter_->ReleaseBytes(byte_count);
      if (!run.ok()) return run.status();
      for (Array& array : *run) arrays.push_back(std::move(array));
      first = last;
    }
    return arrays;
  }

 private:
  const ParamArrays& params_;
  const std::shared_ptr<LimitInFlightBytes>& limiter_;
};

Tree LeafOf(const ShardedWish& wish, const Shape& shape,
            std::vector<ArrayShard> shards) {
  ArrayTraits traits;
  traits.sharding_json = ShardingToJson(wish.sharding);
  traits.prng_impl = wish.prng_impl;
  const bool is_whole = shards.size() == 1;
  if (!is_whole) traits.write_shape = shards.front().array.shape();
  auto shared = std::make_shared<const ArrayTraits>(std::move(traits));
  if (is_whole) {
    return Tree::JaxArray(std::move(shards.front().array), std::move(shared));
  }
  return Tree::ShardedArray(shape, std::move(shards), std::move(shared));
}

}  // namespace

Status CheckRestoreShape(const Shape& wanted, const Shape& stored, bool strict,
                         const Box& box) {
  if (strict && wanted != stored) {
    return InvalidArgumentError(
        "Requested shape: " + ShapeToString(wanted) +
        " is not compatible with the stored shape: " + ShapeToString(stored) +
        ". Truncating/padding is disabled. To enable it, set `strict=False` in "
        "`ArrayRestoreArgs` for any array in v0 API or "
        "`enable_padding_and_truncation=True` in `ArrayOptions.Loading` in v1 "
        "API.");
  }
  if (wanted.size() == stored.size()) return Status();
  return InvalidArgumentError(
      "Cannot intersect index domain " + DomainText(BoxOf(stored), "*") +
      " with index domain " + DomainText(box, "") + ": Ranks do not match");
}

Result<std::vector<Tree>> ReadSharded(
    const ParamArrays& params, std::span<const ShardedWish> wishes,
    const std::shared_ptr<LimitInFlightBytes>& limiter) {
  std::vector<BoxRead> reads;
  for (size_t i = 0; i < wishes.size(); ++i) {
    HF_ASSIGN_OR_RETURN(const std::vector<BoxRead> own,
                        ReadsOf(params, i, wishes[i]));
    reads.insert(reads.end(), own.begin(), own.end());
  }
  LimitedReader reader(params, limiter);
  HF_ASSIGN_OR_RETURN(std::vector<Array> arrays, reader.Read(reads));
  std::vector<Tree> values;
  size_t next = 0;
  for (size_t i = 0; i < wishes.size(); ++i) {
    std::vector<ArrayShard> shards;
    for (; next < reads.size() && reads[next].param == i; ++next) {
      shards.push_back({reads[next].box.origin, std::move(arrays[next])});
    }
    values.push_back(LeafOf(wishes[i],
                            wishes[i].shape.value_or(params.shape(i)),
                            std::move(shards)));
  }
  return values;
}

}  // namespace holdfast
