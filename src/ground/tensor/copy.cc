#include "ground/tensor/copy.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "ground/tensor/strided.h"

namespace holdfast {
namespace {

// An element of N bytes; a view may refer to unaligned memory.
template <int64_t N>
struct Element {
  char bytes[N];
};

// Assigns source[i] to target[i] for one strided run. REQUIRES: N bytes per
// element.
template <int64_t N>
void CopyRun(const char* source, char* target, const LoopDim& dim) {
  for (int64_t i = 0; i < dim.extent; ++i) {
    std::memcpy(target, source, N);
    source += dim.source_stride;
    target += dim.target_stride;
  }
}

// Like CopyRun for a contiguous target, which the compiler can exploit.
template <int64_t N>
void GatherRun(const char* source, char* target, const LoopDim& dim) {
  for (int64_t i = 0; i < dim.extent; ++i) {
    std::memcpy(target + i * N, source + i * dim.source_stride, N);
  }
}

template <int64_t N>
void SwapRun(const char* source, char* target, const LoopDim& dim) {
  for (int64_t i = 0; i < dim.extent; ++i) {
    Element<N> element;
    std::memcpy(&element, source, N);
    std::reverse(element.bytes, element.bytes + N);
    std::memcpy(target, &element, N);
    source += dim.source_stride;
    target += dim.target_stride;
  }
}

// Elements along each side of a tile: one cache line, or a little more for
// wide elements.
template <int64_t N>
constexpr int64_t kTile = std::max<int64_t>(8, 64 / N);

// Copies columns of the source to rows of the target, `dim.extent` elements
// each.
template <int64_t N>
inline void GatherRows(const char* source, char* target, int64_t rows,
                       int64_t target_stride, const LoopDim& dim) {
  for (int64_t row = 0; row < rows; ++row) {
    GatherRun<N>(source + row * N, target + row * target_stride, dim);
  }
}

// Transposes one tile of `rows` x `columns` elements, at most kTile each. Tiles
// of small elements touch so many lines of the source that these evict each
// other when strides are powers of two; such tiles are first read line by line
// into a small buffer (measured twice as fast at 2048 x 2048; wider elements
// get slower).
template <int64_t N>
inline void TransposeTile(const char* source, int64_t source_stride,
                          char* target, int64_t target_stride, int64_t rows,
                          int64_t columns) {
  if constexpr (N <= 2) {
    constexpr int64_t kRowBytes = kTile<N> * N;
    char tile[kTile<N> * kRowBytes];
    for (int64_t column = 0; column < columns; ++column) {
      std::memcpy(tile + column * kRowBytes, source + column * source_stride,
                  rows * N);
    }
    GatherRows<N>(tile, target, rows, target_stride, {columns, kRowBytes, N});
  } else {
    GatherRows<N>(source, target, rows, target_stride,
                  {columns, source_stride, N});
  }
}

// Copies two dimensions, for a source that is contiguous along `outer` and a
// target that is contiguous along `inner`.
template <int64_t N>
void CopyTiled(const char* source, char* target, const LoopDim& outer,
               const LoopDim& inner) {
  constexpr int64_t kSide = kTile<N>;
  for (int64_t i = 0; i < outer.extent; i += kSide) {
    const int64_t rows = std::min(kSide, outer.extent - i);
    for (int64_t j = 0; j < inner.extent; j += kSide) {
      const int64_t columns = std::min(kSide, inner.extent - j);
      const char* from = source + i * N + j * inner.source_stride;
      char* to = target + i * outer.target_stride + j * N;
      if (rows == kSide && columns == kSide) {
        // The extents are constants, so the compiler unrolls the loops.
        TransposeTile<N>(from, inner.source_stride, to, outer.target_stride,
                         kSide, kSide);
      } else {
        TransposeTile<N>(from, inner.source_stride, to, outer.target_stride,
                         rows, columns);
      }
    }
  }
}

// Moves the dimension along which the source is contiguous next to the
// innermost one; returns false if no dimension makes tiles worthwhile.
template <int64_t N>
bool PrepareTiles(StridedLoops& loops) {
  constexpr int64_t kWorthExtent = 4;
  const LoopDim& inner = loops.inner();
  if (loops.rank < 2 || inner.target_stride != N) return false;
  if (inner.extent < kWorthExtent) return false;
  for (int i = 0; i + 1 < loops.rank; ++i) {
    const LoopDim dim = loops.dims[i];
    if (dim.source_stride != N || dim.extent < kWorthExtent) continue;
    // Every other dimension keeps its place, so that the target is still
    // written in order.
    for (int j = i; j + 2 < loops.rank; ++j) loops.dims[j] = loops.dims[j + 1];
    loops.dims[loops.rank - 2] = dim;
    return true;
  }
  return false;
}

template <int64_t N>
void CopyElements(StridedLoops loops) {
  const LoopDim inner = loops.inner();
  if (inner.source_stride == N && inner.target_stride == N) {
    const size_t run_bytes = static_cast<size_t>(inner.extent) * N;
    ForEachRun(loops, 1, [&](const char* source, char* target) {
      std::memcpy(target, source, run_bytes);
      return true;
    });
  } else if (PrepareTiles<N>(loops)) {
    const LoopDim& outer = loops.dims[loops.rank - 2];
    ForEachRun(loops, 2, [&](const char* source, char* target) {
      CopyTiled<N>(source, target, outer, inner);
      return true;
    });
  } else if (inner.target_stride == N) {
    ForEachRun(loops, 1, [&](const char* source, char* target) {
      GatherRun<N>(source, target, inner);
      return true;
    });
  } else {
    ForEachRun(loops, 1, [&](const char* source, char* target) {
      CopyRun<N>(source, target, inner);
      return true;
    });
  }
}

template <int64_t N>
void SwapElements(const StridedLoops& loops) {
  const LoopDim inner = loops.inner();
  ForEachRun(loops, 1, [&](const char* source, char* target) {
    SwapRun<N>(source, target, inner);
    return true;
  });
}

// Returns a complex view as a view of halves, with an innermost dimension of 2.
template <typename View>
View SplitComplex(View view) {
  const bool wide = view.dtype == DType::kComplex128;
  view.dtype = wide ? DType::kFloat64 : DType::kFloat32;
  view.shape.push_back(2);
  view.strides.push_back(static_cast<int64_t>(DTypeBytes(view.dtype)));
  return view;
}

// Returns the loops over a single view (which is also its own target).
StridedLoops PlanLoopsOf(const ConstArrayView& view) {
  // The callers use only the source pointer.
  return PlanLoops(view, {view.dtype, const_cast<char*>(view.data), view.shape,
                          view.strides});
}

// Doubles the filled part until the run is full.
void FillRun(char* target, size_t run_bytes, const char* element,
             size_t element_bytes) {
  std::memcpy(target, element, element_bytes);
  // Copies in blocks that stay in the first-level cache.
  constexpr size_t kBlockBytesMax = 8192;
  size_t filled = element_bytes;
  while (filled < run_bytes) {
    const size_t block = std::min({filled, run_bytes - filled, kBlockBytesMax});
    std::memcpy(target + filled, target, block);
    filled += block;
  }
}

bool RunEquals(const char* data, size_t run_bytes, const char* element,
               size_t element_bytes) {
  // All elements are equal if the run starts with the element and equals itself
  // shifted by one element. memcmp compares entire vector registers.
  return std::memcmp(data, element, element_bytes) == 0 &&
         std::memcmp(data, data + element_bytes, run_bytes - element_bytes) ==
             0;
}

// Returns the largest bit pattern of a byte that holds one element, or 0xff if
// an element fills one or more bytes.
unsigned char LargestPattern(DType dtype) {
  if (dtype == DType::kBool) return 1;
  const int bits = DTypeBits(dtype);
  return static_cast<unsigned char>(bits < 8 ? (1 << bits) - 1 : 0xff);
}

}  // namespace

void CopyStrided(const ConstArrayView& source, const ArrayView& target) {
  assert(source.dtype == target.dtype);
  const StridedLoops loops = PlanLoops(source, target);
  if (loops.empty) return;
  switch (DTypeBytes(source.dtype)) {
    case 1:
      return CopyElements<1>(loops);
    case 2:
      return CopyElements<2>(loops);
    case 4:
      return CopyElements<4>(loops);
    case 8:
      return CopyElements<8>(loops);
    case 16:
      return CopyElements<16>(loops);
    default:
      assert(false);
  }
}

void CopyByteSwapped(const ConstArrayView& source, const ArrayView& target) {
  assert(source.dtype == target.dtype);
  if (DTypeKindOf(source.dtype) == DTypeKind::kComplex) {
    return CopyByteSwapped(SplitComplex(source), SplitComplex(target));
  }
  const StridedLoops loops = PlanLoops(source, target);
  if (loops.empty) return;
  switch (DTypeBytes(source.dtype)) {
    case 1:
      return CopyElements<1>(loops);
    case 2:
      return SwapElements<2>(loops);
    case 4:
      return SwapElements<4>(loops);
    case 8:
      return SwapElements<8>(loops);
    default:
      assert(false);
  }
}

void FillStrided(const ArrayView& target, const char* element) {
  const StridedLoops loops = PlanLoopsOf(target);
  if (loops.empty) return;
  const size_t element_bytes = DTypeBytes(target.dtype);
  const LoopDim& inner = loops.inner();
  const bool dense = inner.target_stride == static_cast<int64_t>(element_bytes);
  const size_t run_bytes = static_cast<size_t>(inner.extent) * element_bytes;
  ForEachRun(loops, 1, [&](const char*, char* run) {
    if (dense) {
      FillRun(run, run_bytes, element, element_bytes);
      return true;
    }
    for (int64_t i = 0; i < inner.extent; ++i) {
      std::memcpy(run + i * inner.target_stride, element, element_bytes);
    }
    return true;
  });
}

bool AllEqual(const ConstArrayView& view, const char* element) {
  const StridedLoops loops = PlanLoopsOf(view);
  if (loops.empty) return true;
  const size_t element_bytes = DTypeBytes(view.dtype);
  const LoopDim& inner = loops.inner();
  const bool dense = inner.source_stride == static_cast<int64_t>(element_bytes);
  const size_t run_bytes = static_cast<size_t>(inner.extent) * element_bytes;
  return ForEachRun(loops, 1, [&](const char* run, char*) {
    if (dense) return RunEquals(run, run_bytes, element, element_bytes);
    for (int64_t i = 0; i < inner.extent; ++i) {
      if (std::memcmp(run + i * inner.source_stride, element, element_bytes) !=
          0) {
        return false;
      }
    }
    return true;
  });
}

void ClearUnusedBits(DType dtype, char* data, size_t element_count) {
  if (!HasUnusedBits(dtype, {data, element_count})) return;
  if (dtype == DType::kBool) {
    for (size_t i = 0; i < element_count; ++i) data[i] = data[i] != 0;
    return;
  }
  const unsigned char mask = LargestPattern(dtype);
  const bool is_float = dtype == DType::kFloat4E2m1fn;
  for (size_t i = 0; i < element_count; ++i) {
    const auto byte = static_cast<unsigned char>(data[i]);
    // ml_dtypes reads any bit above a float4 as its sign.
    const unsigned sign = is_float && byte > mask ? (mask + 1u) / 2 : 0u;
    data[i] = static_cast<char>((byte & mask) | sign);
  }
}

bool HasUnusedBits(DType dtype, std::string_view data) {
  const unsigned char largest = LargestPattern(dtype);
  if (largest == 0xff) return false;
  // A single pass that the compiler vectorizes.
  unsigned char any = 0;
  for (const char element : data) any |= static_cast<unsigned char>(element);
  return any > largest;
}

}  // namespace holdfast
