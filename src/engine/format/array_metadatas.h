// `array_metadatas/process_N`: how one process wrote its jax.Arrays.
//
// Source: orbax-checkpoint 0.12.8, _src/metadata/array_metadata_store.py.
// Thread-safety: pure functions. Units: shapes in elements.
// Errors: DataLoss with the byte offset.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/status.h"
#include "holdfast/tensor.h"

namespace holdfast {

struct ArrayMetadataRecord {
  std::string param_name;
  Shape write_shape;  // the part that one shard writes
  Shape chunk_shape;
  // Null, or {"random_key_impl": "threefry2x32"} for a typed PRNG key.
  nlohmann::ordered_json ext_metadata;
};

// Convert the implementation of a typed PRNG key to ext_metadata and back; ""
// for all other arrays, and for metadata that name no implementation.
nlohmann::ordered_json ExtMetadataOf(const std::string& prng_impl);
std::string PrngImplOf(const nlohmann::ordered_json& ext_metadata);

// Returns the text byte for byte as Orbax 0.12.8 writes it.
std::string SerializeArrayMetadatas(
    const std::vector<ArrayMetadataRecord>& records);
Result<std::vector<ArrayMetadataRecord>> ParseArrayMetadatas(
    std::string_view text);

}  // namespace holdfast
