// ChunkDelta: no matter which bytes are applied, only the words are written. A
// delta between two contents turns the first into the second.
//
// Input: a byte for the kind of words, a byte for a sixteenth of their count,
// then the delta. The rest is also split into two contents for the second
// check.
#include <string>

#include "formats/delta/chunk_delta.h"
#include "fuzz_util.h"

namespace holdfast {
namespace {

constexpr WordKind kKinds[] = {{1, -1}, {1, 2},  {1, 3},  {1, 4},  {2, -1},
                               {2, 7},  {2, 10}, {4, -1}, {4, 23}, {8, -1}};

void CheckApply(const WordKind& kind, size_t word_count,
                std::string_view coded) {
  constexpr size_t kGuardBytes = 64;
  const size_t byte_count = word_count * kind.word_bytes;
  std::string words(byte_count + kGuardBytes, '\x3c');
  ChunkDelta delta;
  const Status applied =
      delta.Apply(kind, coded, std::span(words.data(), byte_count));
  FUZZ_CHECK(applied.ok() || applied.code() == StatusCode::kDataLoss);
  FUZZ_CHECK(words.substr(byte_count) == std::string(kGuardBytes, '\x3c'));
}

void CheckRoundTrip(const WordKind& kind, std::string_view both) {
  const size_t half = both.size() / 2 / kind.word_bytes * kind.word_bytes;
  // The strings are aligned, as the engine's memory is.
  const std::string base(both.substr(0, half));
  const std::string next(both.substr(half, half));
  ChunkDelta delta;
  const auto coded = delta.Encode(kind, base, next);
  FUZZ_CHECK_OK(coded);
  std::string words = base;
  FUZZ_CHECK_OK(delta.Apply(kind, *coded, words));
  FUZZ_CHECK(words == next);
}

}  // namespace
}  // namespace holdfast

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input = holdfast::FuzzText(data, size);
  if (input.size() < 2) return 0;
  const auto& kind = holdfast::kKinds[data[0] % std::size(holdfast::kKinds)];
  holdfast::CheckApply(kind, size_t{data[1]} * 16, input.substr(2));
  holdfast::CheckRoundTrip(kind, input.substr(2));
  return 0;
}
