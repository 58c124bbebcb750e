// The implementation of CodecContext: what one thread reuses between chunks.
//
// Thread-safety: one thread at a time. Ownership: the context owns all members.
// Errors: ZstdCompressor and ZstdDecompressor return null when memory is short.
#pragma once

#include <zstd.h>

#include <memory>
#include <string>

#include "formats/codec/codec.h"
#include "formats/codec/huffman.h"
#include "ground/base/bytes.h"

namespace holdfast {

struct CodecContext::Impl {
  struct FreeCompressor {
    void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
  };
  struct FreeDecompressor {
    void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
  };

  // Created on first use, since most threads need only one of the two.
  ZSTD_CCtx* ZstdCompressor() {
    if (!compressor) compressor.reset(ZSTD_createCCtx());
    return compressor.get();
  }
  ZSTD_DCtx* ZstdDecompressor() {
    if (!decompressor) decompressor.reset(ZSTD_createDCtx());
    return decompressor.get();
  }

  std::unique_ptr<ZSTD_CCtx, FreeCompressor> compressor;
  std::unique_ptr<ZSTD_DCtx, FreeDecompressor> decompressor;
  HuffmanTables huffman_tables;
  const CancelToken* cancel = nullptr;
  bool bytes_are_known = false;

  Status CheckCancel() const {
    return cancel != nullptr ? cancel->Check() : Status();
  }

  Buffer elements;   // one decoded chunk, elements packed in encoded order
  Buffer stages[2];  // what one bytes codec passes to the next, in turn
  Buffer window;     // encoded bytes of a chunk in pieces
  Buffer filter;     // a block of a blosc container, twice
  Buffer lz4hc;      // LZ4HC's state
  Buffer sample;     // concatenated windows of a chunk, and their compression
};

// Grows `buffer` to `byte_count` bytes and loses its contents. Unlike
// Buffer::Reserve, it returns an error if the system cannot allocate that much.
inline Status ReserveOrFail(size_t byte_count, Buffer& buffer) {
  if (buffer.size() >= byte_count) return Status();
  buffer = Buffer();
  buffer = Buffer::TryAllocate(byte_count);
  if (buffer.size() >= byte_count) return Status();
  return ResourceExhaustedError("codec: no memory for " +
                                std::to_string(byte_count) + " bytes");
}

}  // namespace holdfast
