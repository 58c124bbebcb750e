// Calls to a Bucket, for tests: each function makes one call and returns the
// result as a string.
//
// Thread-safety: that of the bucket. Errors: failures of the current test, or
// codes in the text.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "stores/cloud/bucket.h"

namespace holdfast {

namespace conformance {

inline Result<std::string> PutText(Bucket& bucket, std::string_view key,
                                   std::string_view text,
                                   const Condition& condition = {}) {
  return bucket.Put(key, {&text, 1}, condition);
}

// Returns the bytes, or "<CODE>" if the request fails.
inline std::string GetText(Bucket& bucket, std::string_view key,
                           ByteRange range = {}, std::string version = "") {
  const GetRequest request{
      .key = std::string(key), .range = range, .version = std::move(version)};
  const Result<GetResult> result = bucket.Get({&request, 1}).front();
  if (result.ok()) return result->bytes.ToString();
  return "<" + std::string(StatusCodeName(result.status().code())) + ">";
}

struct WholeListing {
  std::vector<std::string> keys;
  std::vector<std::string> prefixes;
  int page_count = 0;
};

inline WholeListing ListAll(Bucket& bucket, ListRequest request) {
  WholeListing whole;
  do {
    const Result<ListPage> page = bucket.List(request);
    EXPECT_TRUE(page.ok()) << page.status().ToString();
    if (!page.ok()) return whole;
    ++whole.page_count;
    for (const ObjectEntry& entry : page->objects) {
      whole.keys.push_back(entry.key);
    }
    whole.prefixes.insert(whole.prefixes.end(), page->prefixes.begin(),
                          page->prefixes.end());
    request.page_token = page->next_page_token;
  } while (!request.page_token.empty() && whole.page_count < 1000);
  return whole;
}

// Returns `byte_count` bytes that depend on their position and on `seed`.
inline std::string Pattern(uint64_t byte_count, uint32_t seed) {
  std::string text(byte_count, '\0');
  uint32_t state = seed * 2654435761u + 1;
  for (char& c : text) {
    state = state * 1664525u + 1013904223u;
    c = static_cast<char>(state >> 24);
  }
  return text;
}

}  // namespace conformance

}  // namespace holdfast
