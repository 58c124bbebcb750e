// Describes a LeafInfo in words and in JSON, for ls, tree and info.
//
// Thread-safety: pure functions.
// Units: bytes.
#pragma once

#include <cstdint>
#include <string>

#include "cli/json_out.h"
#include "holdfast/checkpoint.h"

namespace holdfast::cli {

// Returns the type: "bfloat16[2,3]", "int64" for scalars, "-" for leaves
// without elements.
std::string TypeText(const LeafInfo& leaf);
// Returns type and size: "bfloat16[2,3] 12 B", "string", "int64", "empty_dict".
std::string SummaryText(const LeafInfo& leaf);

// Returns true if the leaf has a shape.
bool HasShape(const LeafInfo& leaf);

// Writes "kind", "dtype" and "shape", which is null for a leaf without a shape.
void WriteTypeFields(const LeafInfo& leaf, JsonWriter* json);
void WriteShapeField(const LeafInfo& leaf, JsonWriter* json);
// Writes the members of a leaf's object, without its braces.
void WriteLeafFields(const LeafInfo& leaf, JsonWriter* json);

// Returns the number of elements of an array; 0 for other leaves.
uint64_t ParameterCount(const LeafInfo& leaf);

struct LeafTotals {
  uint64_t leaf_count = 0;
  uint64_t parameter_count = 0;  // elements of arrays
  uint64_t chunk_count = 0;
  uint64_t stored_bytes = 0;
  uint64_t decoded_bytes = 0;

  void Add(const LeafInfo& leaf);
};
// Returns "12.3M parameters", for example.
std::string ParametersText(const LeafTotals& totals);
// Returns all totals: "3 leaves, 12.3M parameters, 12 chunks, stored 1.0 KiB,
// decoded 2.0 KiB".
std::string TotalsText(const LeafTotals& totals);
void WriteTotals(const LeafTotals& totals, JsonWriter* json);

}  // namespace holdfast::cli
