#include "formats/codec/codec.h"

#include <utility>

#include "formats/codec/blosc_codec.h"
#include "formats/codec/blosc_filters.h"
#include "formats/codec/codec_context.h"
#include "formats/codec/crc32c_codec.h"
#include "formats/codec/gzip_codec.h"
#include "formats/codec/zstd_codec.h"
#include "ground/base/status_macros.h"

namespace holdfast {
namespace {

// zarr.md sections 2.4 and 3.5.
constexpr int kZstdLevelMin = -131072;
constexpr int kZstdLevelMax = 22;
constexpr int kGzipLevelMax = 9;
constexpr int kBloscLevelMax = 9;
constexpr int kBloscShuffleMin = -1;
constexpr int kBloscShuffleMax = 2;
constexpr int kBloscItemBytesMax = 255;
constexpr size_t kBloscBlocksizeMax = INT32_MAX;

Status CheckRange(std::string_view what, int64_t value, int64_t min,
                  int64_t max) {
  if (value >= min && value <= max) return Status();
  return InvalidArgumentError(
      std::string(what) + ": out of range (got " + std::to_string(value) +
      ", want " + std::to_string(min) + " to " + std::to_string(max) + ")");
}

Status Check(const ZstdParams& params, size_t) {
  return CheckRange("zstd level", params.level, kZstdLevelMin, kZstdLevelMax);
}

Status Check(const GzipParams& params, size_t) {
  return CheckRange(params.zlib_header ? "zlib level" : "gzip level",
                    params.level, 0, kGzipLevelMax);
}

Status Check(const Crc32cParams&, size_t) { return Status(); }

Status Check(const BloscParams& params, size_t item_bytes) {
  HF_RETURN_IF_ERROR(
      CheckRange("blosc clevel", params.clevel, 0, kBloscLevelMax));
  HF_RETURN_IF_ERROR(CheckRange("blosc shuffle", params.shuffle,
                                kBloscShuffleMin, kBloscShuffleMax));
  const size_t typesize = params.typesize ? params.typesize : item_bytes;
  if (typesize < 1 || typesize > kBloscItemBytesMax) {
    return InvalidArgumentError("blosc typesize: out of range (got " +
                                std::to_string(typesize) + ", want 1 to 255)");
  }
  if (params.blocksize > kBloscBlocksizeMax) {
    return InvalidArgumentError("blosc blocksize: out of range (got " +
                                std::to_string(params.blocksize) +
                                ", want at most " +
                                std::to_string(kBloscBlocksizeMax) + ")");
  }
  if (params.planes && (params.cname != "zstd" || params.shuffle != 1)) {
    return InvalidArgumentError(
        "blosc planes: want zstd and byte shuffle (got " + params.cname +
        " and shuffle " + std::to_string(params.shuffle) + ")");
  }
  if (IsBloscCompressorName(params.cname)) return Status();
  return InvalidArgumentError("blosc cname: unknown compressor \"" +
                              params.cname + "\"");
}

std::shared_ptr<const BytesCodec> Make(const ZstdParams& params, size_t) {
  return std::make_shared<ZstdCodec>(params);
}
std::shared_ptr<const BytesCodec> Make(const BloscParams& params,
                                       size_t item_bytes) {
  return std::make_shared<BloscCodec>(params, item_bytes);
}
std::shared_ptr<const BytesCodec> Make(const GzipParams& params, size_t) {
  return std::make_shared<GzipCodec>(params);
}
std::shared_ptr<const BytesCodec> Make(const Crc32cParams&, size_t) {
  return std::make_shared<Crc32cCodec>();
}

}  // namespace

CodecContext::CodecContext() : impl_(std::make_unique<Impl>()) {}
CodecContext::~CodecContext() = default;

CodecContext& WorkerContexts::Of(int worker) {
  std::unique_ptr<CodecContext>& context = contexts_[worker];
  if (context == nullptr) {
    context = std::make_unique<CodecContext>();
    context->set_cancel(cancel_);
  }
  return *context;
}

void CodecContext::set_cancel(const CancelToken* cancel) {
  impl_->cancel = cancel;
}

void CodecContext::set_bytes_are_known(bool are_known) {
  impl_->bytes_are_known = are_known;
}

void CodecContext::TrimScratch(size_t kept_bytes_max) {
  // A worker keeps its scratch between chunks, but one huge chunk must not
  // occupy memory for the rest of the run.
  for (Buffer* buffer : {&impl_->elements, &impl_->stages[0], &impl_->stages[1],
                         &impl_->window, &impl_->filter}) {
    if (buffer->size() > kept_bytes_max) *buffer = Buffer();
  }
}

Result<std::shared_ptr<const BytesCodec>> MakeBytesCodec(
    const BytesCodecParams& params, size_t item_bytes) {
  using Made = Result<std::shared_ptr<const BytesCodec>>;
  return std::visit(
      [&](const auto& chosen) -> Made {
        HF_RETURN_IF_ERROR(Check(chosen, item_bytes));
        return Make(chosen, item_bytes);
      },
      params);
}

}  // namespace holdfast
