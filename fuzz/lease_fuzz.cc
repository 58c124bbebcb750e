// ParseLease: a parsed lease is still equal after writing and parsing.
#include "engine/commit/lease.h"
#include "fuzz_util.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto lease = holdfast::ParseLease(holdfast::FuzzText(data, size));
  if (!lease.ok()) return 0;
  const auto again = holdfast::ParseLease(holdfast::SerializeLease(*lease));
  FUZZ_CHECK_OK(again);
  FUZZ_CHECK(*again == *lease);
  return 0;
}
