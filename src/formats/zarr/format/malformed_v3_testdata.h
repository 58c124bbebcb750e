// Borderline and malformed arrays of zarr v3 (malformed_testdata.h).
#pragma once

#include "formats/zarr/format/malformed_testdata.h"

namespace holdfast::zarr {

inline constexpr std::string_view kMalformedBaseV3 =
    R"({"chunk_grid":{"configuration":{"chunk_shape":[2]},"name":"regular)"
    R"("},"chunk_key_encoding":{"name":"default"},"codecs":[{"configurati)"
    R"(on":{"endian":"little"},"name":"bytes"}],"data_type":"int32","fill)"
    R"(_value":7,"node_type":"array","shape":[3],"zarr_format":3})";

inline constexpr MalformedCase kMalformedV3[] = {
    {"v3_ok", true, "{}", "", "", true, "0100000002000000",
     "010000000200000007000000"},
    {"v3_missing_chunk_ok", true, "{}", "", "", false, "",
     "070000000700000007000000"},
    {"v3_chunk_short", false, "{}", "", "", true, "01000000020000", ""},
    {"v3_chunk_long", false, "{}", "", "", true, "010000000200000000", ""},
    {"v3_drop_chunk_grid", false, "{}", "chunk_grid", "", true,
     "0100000002000000",
     R"(Error parsing object member "chunk_grid": Expected object, but mem)"
     R"(ber is missing)"},
    {"v3_drop_chunk_key_encoding", false, "{}", "chunk_key_encoding", "", true,
     "0100000002000000",
     R"(Error parsing object member "chunk_key_encoding": Expected object,)"
     R"( but member is missing)"},
    {"v3_drop_codecs", false, "{}", "codecs", "", true, "0100000002000000",
     R"(Error parsing object member "codecs": Expected array, but member i)"
     R"(s missing)"},
    {"v3_drop_data_type", false, "{}", "data_type", "", true,
     "0100000002000000", ""},
    {"v3_drop_fill_value", false, "{}", "fill_value", "", true,
     "0100000002000000",
     R"(Error parsing object member "fill_value": Expected integer in the )"
     R"(range [-2147483648, 2147483647], but received: <discarded>)"},
    {"v3_drop_node_type", false, "{}", "node_type", "", true,
     "0100000002000000",
     R"(Error parsing object member "node_type": Expected "array", but mem)"
     R"(ber is missing)"},
    {"v3_drop_shape", false, "{}", "shape", "", true, "0100000002000000",
     R"(Error parsing object member "shape": Expected array, but member is)"
     R"( missing)"},
    {"v3_drop_zarr_format", false, "{}", "zarr_format", "", true,
     "0100000002000000", ""},
    {"v3_unknown_member", false, R"({"hello":1})", "", "", true,
     "0100000002000000",
     R"(Unsupported metadata field "hello" is not marked {"must_understand)"
     R"(": false})"},
    {"v3_unknown_optional_ok", true, R"({"hello":{"must_understand":false}})",
     "", "", true, "0100000002000000", "010000000200000007000000"},
    {"v3_attributes_null", false, R"({"attributes":null})", "", "", true,
     "0100000002000000",
     R"(Error parsing object member "attributes": Expected object, but rec)"
     R"(eived: null)"},
    {"v3_attributes_ok", true, R"({"attributes":{"a":1}})", "", "", true,
     "0100000002000000", "010000000200000007000000"},
    {"v3_storage_transformers_empty_ok", true, R"({"storage_transformers":[]})",
     "", "", true, "0100000002000000", "010000000200000007000000"},
    {"v3_storage_transformers", false,
     R"({"storage_transformers":[{"name":"x"}]})", "", "", true,
     "0100000002000000",
     R"(Error parsing object member "storage_transformers": No storage tra)"
     R"(nsformers supported)"},
    {"v3_fill_null", false, R"({"fill_value":null})", "", "", true,
     "0100000002000000",
     R"(Error parsing object member "fill_value": Expected integer in the )"
     R"(range [-2147483648, 2147483647], but received: null)"},
    {"v3_fill_out_of_range", false, R"({"fill_value":2147483648})", "", "",
     true, "0100000002000000",
     R"(Error parsing object member "fill_value": Expected integer in the )"
     R"(range [-2147483648, 2147483647], but received: 2147483648)"},
    {"v3_fill_float", false, R"({"fill_value":1.5})", "", "", true,
     "0100000002000000",
     R"(Error parsing object member "fill_value": Expected integer in the )"
     R"(range [-2147483648, 2147483647], but received: 1.5)"},
    {"v3_node_group", false, R"({"node_type":"group"})", "", "", true,
     "0100000002000000",
     R"(Error parsing object member "node_type": Expected "array", but rec)"
     R"(eived: "group")"},
    {"v3_zarr_format_2", false, R"({"zarr_format":2})", "", "", true,
     "0100000002000000", ""},
    {"v3_grid_rank", false,
     R"({"chunk_grid":{"configuration":{"chunk_shape":[2,2]},"name":"regul)"
     R"(ar"}})",
     "", "", true, "0100000002000000",
     R"(Error parsing object member "chunk_grid": Error parsing object mem)"
     R"(ber "configuration": Error parsing object member "chunk_shape": Ar)"
     R"(ray has length 2 b)"},
    {"v3_grid_zero", false,
     R"({"chunk_grid":{"configuration":{"chunk_shape":[0]},"name":"regular)"
     R"("}})",
     "", "", true, "0100000002000000",
     R"(Error parsing object member "chunk_grid": Error parsing object mem)"
     R"(ber "configuration": Error parsing object member "chunk_shape": Er)"
     R"(ror parsing value )"},
    {"v3_grid_other", false, R"({"chunk_grid":{"name":"rectangular"}})", "", "",
     true, "0100000002000000",
     R"(Error parsing object member "chunk_grid": Error parsing object mem)"
     R"(ber "name": Expected "regular", but received: "rectangular")"},
    {"v3_keyenc_other", false, R"({"chunk_key_encoding":{"name":"x"}})", "", "",
     true, "0100000002000000",
     R"(Error parsing object member "chunk_key_encoding": Error parsing ob)"
     R"(ject member "name": Expected one of "default", "v2", but received:)"
     R"( "x")"},
    {"v3_keyenc_string", false, R"({"chunk_key_encoding":"default"})", "", "",
     true, "0100000002000000",
     R"(Error parsing object member "chunk_key_encoding": Expected object,)"
     R"( but received: "default")"},
    {"v3_dimnames_ok", true, R"({"dimension_names":[null]})", "", "", true,
     "0100000002000000", "010000000200000007000000"},
    {"v3_dimnames_rank", false, R"({"dimension_names":["a","b"]})", "", "",
     true, "0100000002000000",
     R"(Error parsing object member "dimension_names": Array has length 2 )"
     R"(but should have length 1)"},
    {"v3_codecs_empty", false, R"({"codecs":[]})", "", "", true,
     "0100000002000000",
     R"(Error parsing object member "codecs": array -> bytes codec must be)"
     R"( specified)"},
    {"v3_codec_string", false, R"({"codecs":["bytes"]})", "", "", true,
     "0100000002000000",
     R"(Error parsing object member "codecs": Error parsing value at posit)"
     R"(ion 0: Expected object, but received: "bytes")"},
    {"v3_bytes_no_endian", false, R"({"codecs":[{"name":"bytes"}]})", "", "",
     true, "0100000002000000", ""},
    {"v3_bytes_big_ok", true,
     R"({"codecs":[{"configuration":{"endian":"big"},"name":"bytes"}]})", "",
     "", true, "0000000100000002", "010000000200000007000000"},
    {"v3_codec_unknown", false,
     R"({"codecs":[{"configuration":{"endian":"little"},"name":"bytes"},{")"
     R"(name":"lz9"}]})",
     "", "", true, "0100000002000000",
     R"(Error parsing object member "codecs": Error parsing value at posit)"
     R"(ion 1: Error parsing object member "name": "lz9" is not registered)"},
    {"v3_codec_no_bytes", false,
     R"({"codecs":[{"configuration":{"checksum":false,"level":3},"name":"z)"
     R"(std"}]})",
     "", "", true, "0100000002000000",
     R"(Error parsing object member "codecs": array -> bytes codec must be)"
     R"( specified)"},
    {"v3_codec_unknown_must_understand_false", false,
     R"({"codecs":[{"configuration":{"endian":"little"},"name":"bytes"},{")"
     R"(must_understand":false,"name":"lz9"}]})",
     "", "", true, "0100000002000000",
     R"(Error parsing object member "codecs": Error parsing value at posit)"
     R"(ion 1: Error parsing object member "name": "lz9" is not registered)"},
    {"v3_crc_ok", true,
     R"({"codecs":[{"configuration":{"endian":"little"},"name":"bytes"},{")"
     R"(name":"crc32c"}]})",
     "", "", true, "01000000020000002cec737a", "010000000200000007000000"},
    {"v3_crc_bad", false,
     R"({"codecs":[{"configuration":{"endian":"little"},"name":"bytes"},{")"
     R"(name":"crc32c"}]})",
     "", "", true, "01000000020000002dec737a", ""},
    {"v3_crc_short", false,
     R"({"codecs":[{"configuration":{"endian":"little"},"name":"bytes"},{")"
     R"(name":"crc32c"}]})",
     "", "", true, "616263", ""},
    {"v3_zstd_ok", true,
     R"({"codecs":[{"configuration":{"endian":"little"},"name":"bytes"},{")"
     R"(configuration":{"checksum":false,"level":3},"name":"zstd"}]})",
     "", "", true, "28b52ffd20084100000100000002000000",
     "010000000200000007000000"},
    {"v3_zstd_checksum_frame_ok", true,
     R"({"codecs":[{"configuration":{"endian":"little"},"name":"bytes"},{")"
     R"(configuration":{"checksum":false,"level":3},"name":"zstd"}]})",
     "", "", true, "28b52ffd240841000001000000020000003a18e41e",
     "010000000200000007000000"},
    {"v3_zstd_trailing", false,
     R"({"codecs":[{"configuration":{"endian":"little"},"name":"bytes"},{")"
     R"(configuration":{"checksum":false,"level":3},"name":"zstd"}]})",
     "", "", true, "28b52ffd2008410000010000000200000078", ""},
    {"v3_zstd_two_frames", false,
     R"({"codecs":[{"configuration":{"endian":"little"},"name":"bytes"},{")"
     R"(configuration":{"checksum":false,"level":3},"name":"zstd"}]})",
     "", "", true, "28b52ffd20042100000100000028b52ffd200421000002000000", ""},
    {"v3_zstd_no_level", false,
     R"({"codecs":[{"configuration":{"endian":"little"},"name":"bytes"},{")"
     R"(name":"zstd"}]})",
     "", "", true, "28b52ffd20084100000100000002000000",
     R"(Error parsing object member "codecs": Error parsing value at posit)"
     R"(ion 1: Error parsing object member "configuration": Error parsing )"
     R"(object member "lev)"},
    {"v3_zstd_no_checksum_member_ok", true,
     R"({"codecs":[{"configuration":{"endian":"little"},"name":"bytes"},{")"
     R"(configuration":{"level":3},"name":"zstd"}]})",
     "", "", true, "28b52ffd20084100000100000002000000",
     "010000000200000007000000"},
    {"v3_gzip_ok", true,
     R"({"codecs":[{"configuration":{"endian":"little"},"name":"bytes"},{")"
     R"(configuration":{"level":6},"name":"gzip"}]})",
     "", "", true, "1f8b080072bc006b02ff63646060600262007c17810308000000",
     "010000000200000007000000"},
    {"v3_gzip_two_members", false,
     R"({"codecs":[{"configuration":{"endian":"little"},"name":"bytes"},{")"
     R"(configuration":{"level":6},"name":"gzip"}]})",
     "", "", true,
     "1f8b080072bc006b02ff63646060000079b8f899040000001f8b080072bc"
     "006b02ff63626060000097174d8b04000000",
     ""},
    {"v3_gzip_zlib_header", false,
     R"({"codecs":[{"configuration":{"endian":"little"},"name":"bytes"},{")"
     R"(configuration":{"level":6},"name":"gzip"}]})",
     "", "", true, "789c636460606002620000180004", ""},
    {"v3_shard_ok", true,
     R"({"codecs":[{"configuration":{"chunk_shape":[1],"codecs":[{"configu)"
     R"(ration":{"endian":"little"},"name":"bytes"}],"index_codecs":[{"con)"
     R"(figuration":{"endian":"little"},"name":"bytes"},{"name":"crc32c"}])"
     R"(},"name":"sharding_indexed"}]})",
     "", "", true,
     "010000000200000000000000000000000400000000000000040000000000"
     "00000400000000000000f6ff6f8f",
     "010000000200000007000000"},
    {"v3_shard_start_ok", true,
     R"({"codecs":[{"configuration":{"chunk_shape":[1],"codecs":[{"configu)"
     R"(ration":{"endian":"little"},"name":"bytes"}],"index_codecs":[{"con)"
     R"(figuration":{"endian":"little"},"name":"bytes"},{"name":"crc32c"}])"
     R"(,"index_location":"start"},"name":"sharding_indexed"}]})",
     "", "", true,
     "240000000000000004000000000000002800000000000000040000000000"
     "0000df3706b70100000002000000",
     "010000000200000007000000"},
    {"v3_shard_missing_ok", true,
     R"({"codecs":[{"configuration":{"chunk_shape":[1],"codecs":[{"configu)"
     R"(ration":{"endian":"little"},"name":"bytes"}],"index_codecs":[{"con)"
     R"(figuration":{"endian":"little"},"name":"bytes"},{"name":"crc32c"}])"
     R"(},"name":"sharding_indexed"}]})",
     "", "", true,
     "0100000000000000000000000400000000000000ffffffffffffffffffff"
     "ffffffffffff8a0729c5",
     "010000000700000007000000"},
    {"v3_shard_swapped_ok", true,
     R"({"codecs":[{"configuration":{"chunk_shape":[1],"codecs":[{"configu)"
     R"(ration":{"endian":"little"},"name":"bytes"}],"index_codecs":[{"con)"
     R"(figuration":{"endian":"little"},"name":"bytes"},{"name":"crc32c"}])"
     R"(},"name":"sharding_indexed"}]})",
     "", "", true,
     "010000000200000004000000000000000400000000000000000000000000"
     "000004000000000000003110f0bf",
     "020000000100000007000000"},
    {"v3_shard_shared_ok", true,
     R"({"codecs":[{"configuration":{"chunk_shape":[1],"codecs":[{"configu)"
     R"(ration":{"endian":"little"},"name":"bytes"}],"index_codecs":[{"con)"
     R"(figuration":{"endian":"little"},"name":"bytes"},{"name":"crc32c"}])"
     R"(},"name":"sharding_indexed"}]})",
     "", "", true,
     "010000000000000000000000040000000000000000000000000000000400"
     "0000000000001d536b49",
     "010000000100000007000000"},
    {"v3_shard_junk_ok", true,
     R"({"codecs":[{"configuration":{"chunk_shape":[1],"codecs":[{"configu)"
     R"(ration":{"endian":"little"},"name":"bytes"}],"index_codecs":[{"con)"
     R"(figuration":{"endian":"little"},"name":"bytes"},{"name":"crc32c"}])"
     R"(},"name":"sharding_indexed"}]})",
     "", "", true,
     "4a554e4b01000000020000003f3f04000000000000000400000000000000"
     "08000000000000000400000000000000163f1536",
     "010000000200000007000000"},
    {"v3_shard_all_missing_ok", true,
     R"({"codecs":[{"configuration":{"chunk_shape":[1],"codecs":[{"configu)"
     R"(ration":{"endian":"little"},"name":"bytes"}],"index_codecs":[{"con)"
     R"(figuration":{"endian":"little"},"name":"bytes"},{"name":"crc32c"}])"
     R"(},"name":"sharding_indexed"}]})",
     "", "", true,
     "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"
     "ffff43aba862",
     "070000000700000007000000"},
    {"v3_shard_half_missing", false,
     R"({"codecs":[{"configuration":{"chunk_shape":[1],"codecs":[{"configu)"
     R"(ration":{"endian":"little"},"name":"bytes"}],"index_codecs":[{"con)"
     R"(figuration":{"endian":"little"},"name":"bytes"},{"name":"crc32c"}])"
     R"(},"name":"sharding_indexed"}]})",
     "", "", true,
     "010000000200000000000000000000000400000000000000ffffffffffff"
     "ffff0400000000000000aa7c7b20",
     ""},
    {"v3_shard_range", false,
     R"({"codecs":[{"configuration":{"chunk_shape":[1],"codecs":[{"configu)"
     R"(ration":{"endian":"little"},"name":"bytes"}],"index_codecs":[{"con)"
     R"(figuration":{"endian":"little"},"name":"bytes"},{"name":"crc32c"}])"
     R"(},"name":"sharding_indexed"}]})",
     "", "", true,
     "010000000200000000000000000000000400000000000000c80000000000"
     "000004000000000000003e9b2729",
     ""},
    {"v3_shard_wrap", false,
     R"({"codecs":[{"configuration":{"chunk_shape":[1],"codecs":[{"configu)"
     R"(ration":{"endian":"little"},"name":"bytes"}],"index_codecs":[{"con)"
     R"(figuration":{"endian":"little"},"name":"bytes"},{"name":"crc32c"}])"
     R"(},"name":"sharding_indexed"}]})",
     "", "", true,
     "010000000200000000000000000000000400000000000000fcffffffffff"
     "ffff0800000000000000ee9aa550",
     ""},
    {"v3_shard_into_index", true,
     R"({"codecs":[{"configuration":{"chunk_shape":[1],"codecs":[{"configu)"
     R"(ration":{"endian":"little"},"name":"bytes"}],"index_codecs":[{"con)"
     R"(figuration":{"endian":"little"},"name":"bytes"},{"name":"crc32c"}])"
     R"(},"name":"sharding_indexed"}]})",
     "", "", true,
     "010000000200000000000000000000000400000000000000080000000000"
     "000004000000000000003a7c8ec0",
     "010000000000000007000000"},
    {"v3_shard_crc_bad", false,
     R"({"codecs":[{"configuration":{"chunk_shape":[1],"codecs":[{"configu)"
     R"(ration":{"endian":"little"},"name":"bytes"}],"index_codecs":[{"con)"
     R"(figuration":{"endian":"little"},"name":"bytes"},{"name":"crc32c"}])"
     R"(},"name":"sharding_indexed"}]})",
     "", "", true,
     "010000000200000000000000000000000400000000000000040000000000"
     "00000400000000000000f6ff6f3f",
     ""},
    {"v3_shard_too_short", false,
     R"({"codecs":[{"configuration":{"chunk_shape":[1],"codecs":[{"configu)"
     R"(ration":{"endian":"little"},"name":"bytes"}],"index_codecs":[{"con)"
     R"(figuration":{"endian":"little"},"name":"bytes"},{"name":"crc32c"}])"
     R"(},"name":"sharding_indexed"}]})",
     "", "", true,
     "787878787878787878787878787878787878787878787878787878787878"
     "7878787878",
     ""},
    {"v3_shard_empty", false,
     R"({"codecs":[{"configuration":{"chunk_shape":[1],"codecs":[{"configu)"
     R"(ration":{"endian":"little"},"name":"bytes"}],"index_codecs":[{"con)"
     R"(figuration":{"endian":"little"},"name":"bytes"},{"name":"crc32c"}])"
     R"(},"name":"sharding_indexed"}]})",
     "", "", true, "", ""},
    {"v3_shard_inner_short", false,
     R"({"codecs":[{"configuration":{"chunk_shape":[1],"codecs":[{"configu)"
     R"(ration":{"endian":"little"},"name":"bytes"}],"index_codecs":[{"con)"
     R"(figuration":{"endian":"little"},"name":"bytes"},{"name":"crc32c"}])"
     R"(},"name":"sharding_indexed"}]})",
     "", "", true,
     "010000000200000000000000000000000400000000000000040000000000"
     "00000300000000000000f2fa3675",
     ""},
    {"v3_shard_zero_len", false,
     R"({"codecs":[{"configuration":{"chunk_shape":[1],"codecs":[{"configu)"
     R"(ration":{"endian":"little"},"name":"bytes"}],"index_codecs":[{"con)"
     R"(figuration":{"endian":"little"},"name":"bytes"},{"name":"crc32c"}])"
     R"(},"name":"sharding_indexed"}]})",
     "", "", true,
     "010000000200000000000000000000000400000000000000040000000000"
     "000000000000000000009b7d72ae",
     ""},
    {"v3_shard_inner_not_dividing", false,
     R"({"codecs":[{"configuration":{"chunk_shape":[3],"codecs":[{"configu)"
     R"(ration":{"endian":"little"},"name":"bytes"}],"index_codecs":[{"con)"
     R"(figuration":{"endian":"little"},"name":"bytes"},{"name":"crc32c"}])"
     R"(},"name":"sharding_indexed"}]})",
     "", "", true, "0100000002000000",
     "sharding_indexed sub-chunk shape of {3} does not evenly divi"
     "de chunk shape of {2}"},
    {"v3_shard_inner_rank", false,
     R"({"codecs":[{"configuration":{"chunk_shape":[1,1],"codecs":[{"confi)"
     R"(guration":{"endian":"little"},"name":"bytes"}],"index_codecs":[{"c)"
     R"(onfiguration":{"endian":"little"},"name":"bytes"},{"name":"crc32c")"
     R"(}]},"name":"sharding_indexed"}]})",
     "", "", true, "0100000002000000", ""},
    {"v3_shard_index_zstd", false,
     R"({"codecs":[{"configuration":{"chunk_shape":[1],"codecs":[{"configu)"
     R"(ration":{"endian":"little"},"name":"bytes"}],"index_codecs":[{"con)"
     R"(figuration":{"endian":"little"},"name":"bytes"},{"configuration":{)"
     R"("checksum":false,"level":3},"name":"zstd"}]},"name":"sharding_inde)"
     R"(xed"}]})",
     "", "", true, "0100000002000000",
     "Invalid index_codecs specified: only fixed-size encodings ar"
     "e supported"},
    {"v3_shard_then_gzip", false,
     R"({"codecs":[{"configuration":{"chunk_shape":[1],"codecs":[{"configu)"
     R"(ration":{"endian":"little"},"name":"bytes"}],"index_codecs":[{"con)"
     R"(figuration":{"endian":"little"},"name":"bytes"},{"name":"crc32c"}])"
     R"(},"name":"sharding_indexed"},{"configuration":{"level":6},"name":")"
     R"(gzip"}]})",
     "", "", true, "0100000002000000", ""},
    {"v3_shard_index_location_bad", false,
     R"({"codecs":[{"configuration":{"chunk_shape":[1],"codecs":[{"configu)"
     R"(ration":{"endian":"little"},"name":"bytes"}],"index_codecs":[{"con)"
     R"(figuration":{"endian":"little"},"name":"bytes"},{"name":"crc32c"}])"
     R"(,"index_location":"middle"},"name":"sharding_indexed"}]})",
     "", "", true, "0100000002000000",
     R"(Error parsing object member "codecs": Error parsing value at posit)"
     R"(ion 0: Error parsing object member "configuration": Error parsing )"
     R"(object member "ind)"},
    {"v3_shard_index_big_ok", true,
     R"({"codecs":[{"configuration":{"chunk_shape":[1],"codecs":[{"configu)"
     R"(ration":{"endian":"little"},"name":"bytes"}],"index_codecs":[{"con)"
     R"(figuration":{"endian":"big"},"name":"bytes"},{"name":"crc32c"}]},")"
     R"(name":"sharding_indexed"}]})",
     "", "", true,
     "010000000200000000000000000000000000000000000004000000000000"
     "000400000000000000040b64bbe9",
     "010000000200000007000000"},
    {"v3_shard_index_no_crc_ok", true,
     R"({"codecs":[{"configuration":{"chunk_shape":[1],"codecs":[{"configu)"
     R"(ration":{"endian":"little"},"name":"bytes"}],"index_codecs":[{"con)"
     R"(figuration":{"endian":"little"},"name":"bytes"}]},"name":"sharding)"
     R"(_indexed"}]})",
     "", "", true,
     "010000000200000000000000000000000400000000000000040000000000"
     "00000400000000000000",
     "010000000200000007000000"},
    {"v3_transpose_dup", false,
     R"({"codecs":[{"configuration":{"order":[0,0]},"name":"transpose"},{")"
     R"(configuration":{"endian":"little"},"name":"bytes"}]})",
     "", "", true, "0100000002000000", ""},
    {"v3_transpose_rank", false,
     R"({"codecs":[{"configuration":{"order":[0,1]},"name":"transpose"},{")"
     R"(configuration":{"endian":"little"},"name":"bytes"}]})",
     "", "", true, "0100000002000000", ""},
    {"v3_transpose_C_ok", true,
     R"({"codecs":[{"configuration":{"order":"C"},"name":"transpose"},{"co)"
     R"(nfiguration":{"endian":"little"},"name":"bytes"}]})",
     "", "", true, "0100000002000000", "010000000200000007000000"},
    {"v3_zstd_wrong_size", false,
     R"({"codecs":[{"configuration":{"endian":"little"},"name":"bytes"},{")"
     R"(configuration":{"checksum":false,"level":3},"name":"zstd"}]})",
     "", "", true, "28b52ffd201081000001000000020000000100000002000000", ""},
    {"v3_zstd_truncated", false,
     R"({"codecs":[{"configuration":{"endian":"little"},"name":"bytes"},{")"
     R"(configuration":{"checksum":false,"level":3},"name":"zstd"}]})",
     "", "", true, "28b52ffd2008410000010000000200", ""},
    {"v3_zstd_long_trailing", false,
     R"({"codecs":[{"configuration":{"endian":"little"},"name":"bytes"},{")"
     R"(configuration":{"checksum":false,"level":3},"name":"zstd"}]})",
     "", "", true,
     "28b52ffd2008410000010000000200000078787878787878787878787878"
     "78787878787878787878",
     ""},
    {"v3_gzip_trailing", false,
     R"({"codecs":[{"configuration":{"endian":"little"},"name":"bytes"},{")"
     R"(configuration":{"level":6},"name":"gzip"}]})",
     "", "", true, "1f8b080072bc006b02ff63646060600262007c1781030800000078",
     ""},
    {"v3_gzip_truncated", false,
     R"({"codecs":[{"configuration":{"endian":"little"},"name":"bytes"},{")"
     R"(configuration":{"level":6},"name":"gzip"}]})",
     "", "", true, "1f8b080072bc006b02ff63646060600262007c178103", ""},
    {"v3_gzip_wrong_size", false,
     R"({"codecs":[{"configuration":{"endian":"little"},"name":"bytes"},{")"
     R"(configuration":{"level":6},"name":"gzip"}]})",
     "", "", true, "1f8b080072bc006b02ff6364606060026246280d004e8c4bc810000000",
     ""},
    {"v3_zstd_then_crc_trailing", false,
     R"({"codecs":[{"configuration":{"endian":"little"},"name":"bytes"},{")"
     R"(configuration":{"checksum":false,"level":3},"name":"zstd"},{"name")"
     R"(:"crc32c"}]})",
     "", "", true, "28b52ffd2008410000010000000200000078dddb7794", ""},
    {"v3_shard_zstd_trailing", false,
     R"({"codecs":[{"configuration":{"chunk_shape":[1],"codecs":[{"configu)"
     R"(ration":{"endian":"little"},"name":"bytes"},{"configuration":{"che)"
     R"(cksum":false,"level":3},"name":"zstd"}],"index_codecs":[{"configur)"
     R"(ation":{"endian":"little"},"name":"bytes"},{"name":"crc32c"}]},"na)"
     R"(me":"sharding_indexed"}]})",
     "", "", true,
     "28b52ffd2004210000010000007800000000000000000e00000000000000"
     "ffffffffffffffffffffffffffffffff224d7974",
     ""},
    {"v3_zstd_zero_byte_chunk", false,
     R"({"codecs":[{"configuration":{"endian":"little"},"name":"bytes"},{")"
     R"(configuration":{"checksum":false,"level":3},"name":"zstd"}]})",
     "", "", true, "", ""},
    // TensorStore refuses this byte; numpy, which writes such bytes, reads it
    // as true.
    {"v3_bool_2", true,
     R"({"codecs":[{"name":"bytes"}],"data_type":"bool","fill_value":false)"
     R"(})",
     "", "", true, "0102", "010100"},
    {"v3_bool_fill_int", false,
     R"({"codecs":[{"name":"bytes"}],"data_type":"bool","fill_value":0})", "",
     "", true, "0101",
     R"(Error parsing object member "fill_value": Expected boolean, but re)"
     R"(ceived: 0)"},
    {"v3_gzip_level_10", false,
     R"({"codecs":[{"configuration":{"endian":"little"},"name":"bytes"},{")"
     R"(configuration":{"level":10},"name":"gzip"}]})",
     "", "", true, "1f8b080072bc006b02ff63646060600262007c17810308000000",
     R"(Error parsing object member "codecs": Error parsing value at posit)"
     R"(ion 1: Error parsing object member "configuration": Error parsing )"
     R"(object member "lev)"},
    {"v3_gzip_no_level", false,
     R"({"codecs":[{"configuration":{"endian":"little"},"name":"bytes"},{")"
     R"(name":"gzip"}]})",
     "", "", true, "1f8b080072bc006b02ff63646060600262007c17810308000000",
     R"(Error parsing object member "codecs": Error parsing value at posit)"
     R"(ion 1: Error parsing object member "configuration": Error parsing )"
     R"(object member "lev)"},
    {"v3_codec_extra_member", false,
     R"({"codecs":[{"configuration":{"endian":"little"},"name":"bytes","x")"
     R"(:1}]})",
     "", "", true, "0100000002000000",
     R"(Error parsing object member "codecs": Error parsing value at posit)"
     R"(ion 0: Object includes extra members: "x")"},
    {"v3_codec_extra_config", false,
     R"({"codecs":[{"configuration":{"endian":"little","x":1},"name":"byte)"
     R"(s"}]})",
     "", "", true, "0100000002000000",
     R"(Error parsing object member "codecs": Error parsing value at posit)"
     R"(ion 0: Error parsing object member "configuration": Object include)"
     R"(s extra members: ")"},
    {"v3_bytes_config_1byte_ok", true, R"({"data_type":"int8"})", "", "", true,
     "0102", "010207"},
    {"v3_crc32c_config", true,
     R"({"codecs":[{"configuration":{"endian":"little"},"name":"bytes"},{")"
     R"(configuration":{},"name":"crc32c"}]})",
     "", "", true, "01000000020000002cec737a", "010000000200000007000000"},
    {"v3_two_bytes_codecs", false,
     R"({"codecs":[{"configuration":{"endian":"little"},"name":"bytes"},{")"
     R"(configuration":{"endian":"little"},"name":"bytes"}]})",
     "", "", true, "0100000002000000",
     R"(Error parsing object member "codecs": Expected bytes -> bytes code)"
     R"(c, but received: {"configuration":{"endian":"little"},"name":"byte)"
     R"(s"})"},
    {"v3_zstd_before_bytes", false,
     R"({"codecs":[{"configuration":{"checksum":false,"level":3},"name":"z)"
     R"(std"},{"configuration":{"endian":"little"},"name":"bytes"}]})",
     "", "", true, "28b52ffd20084100000100000002000000",
     R"(Error parsing object member "codecs": array -> bytes codec must be)"
     R"( specified)"},
    {"v3_shape_missing_rank0_grid", true,
     R"({"chunk_grid":{"configuration":{"chunk_shape":[]},"name":"regular")"
     R"(},"shape":[]})",
     "", "", true, "0100000002000000", "07000000"},
    {"v3_f4_fill_null", false, R"({"data_type":"float32","fill_value":null})",
     "", "", true, "0000803f00000040",
     R"(Error parsing object member "fill_value": Expected floating-point )"
     R"(number, but received: null)"},
    {"v3_f4_fill_int", true, R"({"data_type":"float32","fill_value":3})", "",
     "", true, "0000803f00000040", "0000803f0000004000004040"},
    {"v3_f4_fill_numstr", false,
     R"({"data_type":"float32","fill_value":"1.5"})", "", "", true,
     "0000803f00000040",
     R"(Error parsing object member "fill_value": Expected "Infinity", "-I)"
     R"(nfinity", "NaN", or hex string, but received: "1.5")"},
    {"v3_f4_fill_nan", true, R"({"data_type":"float32","fill_value":"NaN"})",
     "", "", true, "0000803f00000040", "0000803f000000400000c07f"},
    {"v3_f4_fill_nan_lower", false,
     R"({"data_type":"float32","fill_value":"nan"})", "", "", true,
     "0000803f00000040",
     R"(Error parsing object member "fill_value": Expected "Infinity", "-I)"
     R"(nfinity", "NaN", or hex string, but received: "nan")"},
    {"v3_f4_fill_inf", true,
     R"({"data_type":"float32","fill_value":"Infinity"})", "", "", true,
     "0000803f00000040", "0000803f000000400000807f"},
    {"v3_f4_fill_pinf", false,
     R"({"data_type":"float32","fill_value":"+Infinity"})", "", "", true,
     "0000803f00000040",
     R"(Error parsing object member "fill_value": Expected "Infinity", "-I)"
     R"(nfinity", "NaN", or hex string, but received: "+Infinity")"},
    {"v3_f4_fill_hex", true,
     R"({"data_type":"float32","fill_value":"0x7fc00000"})", "", "", true,
     "0000803f00000040", "0000803f000000400000c07f"},
    {"v3_f4_fill_hex_short", true,
     R"({"data_type":"float32","fill_value":"0x1"})", "", "", true,
     "0000803f00000040", "0000803f0000004001000000"},
    {"v3_f4_fill_hex_upper", false,
     R"({"data_type":"float32","fill_value":"0X7FC00000"})", "", "", true,
     "0000803f00000040",
     R"(Error parsing object member "fill_value": Expected "Infinity", "-I)"
     R"(nfinity", "NaN", or hex string, but received: "0X7FC00000")"},
    {"v3_f4_fill_hex_upper2", true,
     R"({"data_type":"float32","fill_value":"0x7FC00000"})", "", "", true,
     "0000803f00000040", "0000803f000000400000c07f"},
    {"v3_f4_fill_hex_long", false,
     R"({"data_type":"float32","fill_value":"0x07fc000000"})", "", "", true,
     "0000803f00000040",
     R"(Error parsing object member "fill_value": Expected "Infinity", "-I)"
     R"(nfinity", "NaN", or hex string, but received: "0x07fc000000")"},
    {"v3_f4_fill_bool", false, R"({"data_type":"float32","fill_value":true})",
     "", "", true, "0000803f00000040",
     R"(Error parsing object member "fill_value": Expected floating-point )"
     R"(number, but received: true)"},
    {"v3_f4_fill_huge", true, R"({"data_type":"float32","fill_value":1e+300})",
     "", "", true, "0000803f00000040", "0000803f000000400000807f"},
    {"v3_f4_fill_overflow", true,
     R"({"data_type":"float32","fill_value":1e+39})", "", "", true,
     "0000803f00000040", "0000803f000000400000807f"},
    {"v3_i4_fill_bool", false, R"({"fill_value":true})", "", "", true,
     "0100000002000000",
     R"(Error parsing object member "fill_value": Expected integer in the )"
     R"(range [-2147483648, 2147483647], but received: true)"},
    {"v3_i4_fill_float_int", true, R"({"fill_value":7.0})", "", "", true,
     "0100000002000000", "010000000200000007000000"},
    {"v3_i4_fill_numstr", false, R"({"fill_value":"7"})", "", "", true,
     "0100000002000000",
     R"(Error parsing object member "fill_value": Expected integer in the )"
     R"(range [-2147483648, 2147483647], but received: "7")"},
    {"v3_i4_fill_b64", false, R"({"fill_value":"BwAAAA=="})", "", "", true,
     "0100000002000000",
     R"(Error parsing object member "fill_value": Expected integer in the )"
     R"(range [-2147483648, 2147483647], but received: "BwAAAA==")"},
    {"v3_c8_fill_pair_ok", true,
     R"({"data_type":"complex64","fill_value":[1,"NaN"]})", "", "", true,
     "0000803f000000400000803f00000040",
     "0000803f000000400000803f000000400000803f0000c07f"},
    {"v3_c8_fill_scalar", false,
     R"({"data_type":"complex64","fill_value":1.0})", "", "", true,
     "0000803f000000400000803f00000040",
     R"(Error parsing object member "fill_value": Expected array, but rece)"
     R"(ived: 1.0)"},
    {"v3_u8_fill_big_ok", true,
     R"({"data_type":"uint64","fill_value":18446744073709551615})", "", "",
     true, "01000000000000000200000000000000",
     "01000000000000000200000000000000ffffffffffffffff"},
    {"v3_shape_rank33", false,
     R"({"chunk_grid":{"configuration":{"chunk_shape":[1,1,1,1,1,1,1,1,1,1)"
     R"(,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]},"name":"regular"})"
     R"(,"shape":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,)"
     R"(1,1,1,1,1]})",
     "", "", true, "0100000002000000",
     R"(Error parsing object member "shape": Rank 33 is outside valid rang)"
     R"(e [0, 32])"},
    {"v3_shard_drop_chunk_shape", false,
     R"({"codecs":[{"configuration":{"codecs":[{"configuration":{"endian":)"
     R"("little"},"name":"bytes"}],"index_codecs":[{"configuration":{"endi)"
     R"(an":"little"},"name":"bytes"},{"name":"crc32c"}]},"name":"sharding)"
     R"(_indexed"}]})",
     "", "", true,
     "010000000200000000000000000000000400000000000000040000000000"
     "00000400000000000000f6ff6f8f",
     R"(Error parsing object member "codecs": Error parsing value at posit)"
     R"(ion 0: Error parsing object member "configuration": Error parsing )"
     R"(object member "chu)"},
    {"v3_shard_drop_codecs", false,
     R"({"codecs":[{"configuration":{"chunk_shape":[1],"index_codecs":[{"c)"
     R"(onfiguration":{"endian":"little"},"name":"bytes"},{"name":"crc32c")"
     R"(}]},"name":"sharding_indexed"}]})",
     "", "", true,
     "010000000200000000000000000000000400000000000000040000000000"
     "00000400000000000000f6ff6f8f",
     R"(Error parsing object member "codecs": Error parsing value at posit)"
     R"(ion 0: Error parsing object member "configuration": Error parsing )"
     R"(object member "cod)"},
    {"v3_shard_drop_index_codecs", false,
     R"({"codecs":[{"configuration":{"chunk_shape":[1],"codecs":[{"configu)"
     R"(ration":{"endian":"little"},"name":"bytes"}]},"name":"sharding_ind)"
     R"(exed"}]})",
     "", "", true,
     "010000000200000000000000000000000400000000000000040000000000"
     "00000400000000000000f6ff6f8f",
     R"(Error parsing object member "codecs": Error parsing value at posit)"
     R"(ion 0: Error parsing object member "configuration": Error parsing )"
     R"(object member "ind)"},
    {"v3_shard_extra", false,
     R"({"codecs":[{"configuration":{"chunk_shape":[1],"codecs":[{"configu)"
     R"(ration":{"endian":"little"},"name":"bytes"}],"index_codecs":[{"con)"
     R"(figuration":{"endian":"little"},"name":"bytes"},{"name":"crc32c"}])"
     R"(,"x":1},"name":"sharding_indexed"}]})",
     "", "", true,
     "010000000200000000000000000000000400000000000000040000000000"
     "00000400000000000000f6ff6f8f",
     R"(Error parsing object member "codecs": Error parsing value at posit)"
     R"(ion 0: Error parsing object member "configuration": Object include)"
     R"(s extra members: ")"},
    {"v3_shard_no_config", false, R"({"codecs":[{"name":"sharding_indexed"}]})",
     "", "", true,
     "010000000200000000000000000000000400000000000000040000000000"
     "00000400000000000000f6ff6f8f",
     R"(Error parsing object member "codecs": Error parsing value at posit)"
     R"(ion 0: Error parsing object member "configuration": Error parsing )"
     R"(object member "chu)"},
    {"v3_shard_inner_zero", false,
     R"({"codecs":[{"configuration":{"chunk_shape":[0],"codecs":[{"configu)"
     R"(ration":{"endian":"little"},"name":"bytes"}],"index_codecs":[{"con)"
     R"(figuration":{"endian":"little"},"name":"bytes"},{"name":"crc32c"}])"
     R"(},"name":"sharding_indexed"}]})",
     "", "", true,
     "010000000200000000000000000000000400000000000000040000000000"
     "00000400000000000000f6ff6f8f",
     ""},
    {"v3_shard_inner_larger", false,
     R"({"codecs":[{"configuration":{"chunk_shape":[4],"codecs":[{"configu)"
     R"(ration":{"endian":"little"},"name":"bytes"}],"index_codecs":[{"con)"
     R"(figuration":{"endian":"little"},"name":"bytes"},{"name":"crc32c"}])"
     R"(},"name":"sharding_indexed"}]})",
     "", "", true,
     "010000000200000000000000000000000400000000000000040000000000"
     "00000400000000000000f6ff6f8f",
     "sharding_indexed sub-chunk shape of {4} does not evenly divi"
     "de chunk shape of {2}"},
    {"v3_shard_index_transpose", false,
     R"({"codecs":[{"configuration":{"chunk_shape":[1],"codecs":[{"configu)"
     R"(ration":{"endian":"little"},"name":"bytes"}],"index_codecs":[{"con)"
     R"(figuration":{"order":[0,1]},"name":"transpose"},{"configuration":{)"
     R"("endian":"little"},"name":"bytes"}]},"name":"sharding_indexed"}]})",
     "", "", true,
     "010000000200000000000000000000000400000000000000040000000000"
     "00000400000000000000f6ff6f8f",
     ""},
    {"v3_shard_index_no_endian", false,
     R"({"codecs":[{"configuration":{"chunk_shape":[1],"codecs":[{"configu)"
     R"(ration":{"endian":"little"},"name":"bytes"}],"index_codecs":[{"nam)"
     R"(e":"bytes"}]},"name":"sharding_indexed"}]})",
     "", "", true,
     "010000000200000000000000000000000400000000000000040000000000"
     "00000400000000000000f6ff6f8f",
     ""},
    {"v3_shard_then_crc", false,
     R"({"codecs":[{"configuration":{"chunk_shape":[1],"codecs":[{"configu)"
     R"(ration":{"endian":"little"},"name":"bytes"}],"index_codecs":[{"con)"
     R"(figuration":{"endian":"little"},"name":"bytes"},{"name":"crc32c"}])"
     R"(},"name":"sharding_indexed"},{"name":"crc32c"}]})",
     "", "", true,
     "010000000200000000000000000000000400000000000000040000000000"
     "00000400000000000000f6ff6f8fd1285704",
     ""},
    {"v3_shard_two", false,
     R"({"codecs":[{"configuration":{"chunk_shape":[1],"codecs":[{"configu)"
     R"(ration":{"endian":"little"},"name":"bytes"}],"index_codecs":[{"con)"
     R"(figuration":{"endian":"little"},"name":"bytes"},{"name":"crc32c"}])"
     R"(},"name":"sharding_indexed"},{"configuration":{"chunk_shape":[1],")"
     R"(codecs":[{"configuration":{"endian":"little"},"name":"bytes"}],"in)"
     R"(dex_codecs":[{"configuration":{"endian":"little"},"name":"bytes"},)"
     R"({"name":"crc32c"}]},"name":"sharding_indexed"}]})",
     "", "", true,
     "010000000200000000000000000000000400000000000000040000000000"
     "00000400000000000000f6ff6f8f",
     R"(Error parsing object member "codecs": Expected bytes -> bytes code)"
     R"(c, but received: {"configuration":{"chunk_shape":[1],"codecs":[{"c)"
     R"(onfiguration":{"en)"},
    {"v3_shard_index_two_crc_ok", true,
     R"({"codecs":[{"configuration":{"chunk_shape":[1],"codecs":[{"configu)"
     R"(ration":{"endian":"little"},"name":"bytes"}],"index_codecs":[{"con)"
     R"(figuration":{"endian":"little"},"name":"bytes"},{"name":"crc32c"},)"
     R"({"name":"crc32c"}]},"name":"sharding_indexed"}]})",
     "", "", true,
     "010000000200000000000000000000000400000000000000040000000000"
     "00000400000000000000f6ff6f8fc74b6748",
     "010000000200000007000000"},
    {"v3_blosc_ok", true,
     R"({"codecs":[{"configuration":{"endian":"little"},"name":"bytes"},{")"
     R"(configuration":{"blocksize":0,"clevel":5,"cname":"lz4","shuffle":")"
     R"(noshuffle"},"name":"blosc"}]})",
     "", "", true, "020132010800000008000000180000000100000002000000",
     "010000000200000007000000"},
    {"v3_blosc_drop_blocksize", false,
     R"({"codecs":[{"configuration":{"endian":"little"},"name":"bytes"},{")"
     R"(configuration":{"clevel":5,"cname":"lz4","shuffle":"noshuffle"},"n)"
     R"(ame":"blosc"}]})",
     "", "", true, "020132010800000008000000180000000100000002000000",
     R"(Error parsing object member "codecs": Error parsing value at posit)"
     R"(ion 1: Error parsing object member "configuration": Error parsing )"
     R"(object member "blo)"},
    {"v3_blosc_drop_clevel", false,
     R"({"codecs":[{"configuration":{"endian":"little"},"name":"bytes"},{")"
     R"(configuration":{"blocksize":0,"cname":"lz4","shuffle":"noshuffle"})"
     R"(,"name":"blosc"}]})",
     "", "", true, "020132010800000008000000180000000100000002000000",
     R"(Error parsing object member "codecs": Error parsing value at posit)"
     R"(ion 1: Error parsing object member "configuration": Error parsing )"
     R"(object member "cle)"},
    {"v3_blosc_drop_cname", false,
     R"({"codecs":[{"configuration":{"endian":"little"},"name":"bytes"},{")"
     R"(configuration":{"blocksize":0,"clevel":5,"shuffle":"noshuffle"},"n)"
     R"(ame":"blosc"}]})",
     "", "", true, "020132010800000008000000180000000100000002000000",
     R"(Error parsing object member "codecs": Error parsing value at posit)"
     R"(ion 1: Error parsing object member "configuration": Error parsing )"
     R"(object member "cna)"},
    {"v3_blosc_drop_shuffle", false,
     R"({"codecs":[{"configuration":{"endian":"little"},"name":"bytes"},{")"
     R"(configuration":{"blocksize":0,"clevel":5,"cname":"lz4"},"name":"bl)"
     R"(osc"}]})",
     "", "", true, "020132010800000008000000180000000100000002000000",
     R"(Error parsing object member "codecs": Error parsing value at posit)"
     R"(ion 1: Error parsing object member "configuration": Error parsing )"
     R"(object member "shu)"},
    {"v3_blosc_noshuffle_typesize_ok", true,
     R"({"codecs":[{"configuration":{"endian":"little"},"name":"bytes"},{")"
     R"(configuration":{"blocksize":0,"clevel":5,"cname":"lz4","shuffle":")"
     R"(noshuffle","typesize":4},"name":"blosc"}]})",
     "", "", true, "020132010800000008000000180000000100000002000000",
     "010000000200000007000000"},
    {"v3_blosc_shuffle_no_typesize", false,
     R"({"codecs":[{"configuration":{"endian":"little"},"name":"bytes"},{")"
     R"(configuration":{"blocksize":0,"clevel":5,"cname":"lz4","shuffle":")"
     R"(shuffle"},"name":"blosc"}]})",
     "", "", true, "020132010800000008000000180000000100000002000000",
     R"(Error parsing object member "codecs": Error parsing value at posit)"
     R"(ion 1: Error parsing object member "configuration": Error parsing )"
     R"(object member "typ)"},
    {"v3_blosc_shuffle_ok", true,
     R"({"codecs":[{"configuration":{"endian":"little"},"name":"bytes"},{")"
     R"(configuration":{"blocksize":0,"clevel":5,"cname":"lz4","shuffle":")"
     R"(shuffle","typesize":4},"name":"blosc"}]})",
     "", "", true, "020132010800000008000000180000000100000002000000",
     "010000000200000007000000"},
    {"v3_blosc_cname_bad", false,
     R"({"codecs":[{"configuration":{"endian":"little"},"name":"bytes"},{")"
     R"(configuration":{"blocksize":0,"clevel":5,"cname":"x","shuffle":"no)"
     R"(shuffle"},"name":"blosc"}]})",
     "", "", true, "020132010800000008000000180000000100000002000000", ""},
    {"v3_blosc_clevel_10", false,
     R"({"codecs":[{"configuration":{"endian":"little"},"name":"bytes"},{")"
     R"(configuration":{"blocksize":0,"clevel":10,"cname":"lz4","shuffle":)"
     R"("noshuffle"},"name":"blosc"}]})",
     "", "", true, "020132010800000008000000180000000100000002000000",
     R"(Error parsing object member "codecs": Error parsing value at posit)"
     R"(ion 1: Error parsing object member "configuration": Error parsing )"
     R"(object member "cle)"},
    {"v3_blosc_shuffle_int", false,
     R"({"codecs":[{"configuration":{"endian":"little"},"name":"bytes"},{")"
     R"(configuration":{"blocksize":0,"clevel":5,"cname":"lz4","shuffle":1)"
     R"(},"name":"blosc"}]})",
     "", "", true, "020132010800000008000000180000000100000002000000",
     R"(Error parsing object member "codecs": Error parsing value at posit)"
     R"(ion 1: Error parsing object member "configuration": Error parsing )"
     R"(object member "shu)"},
    {"v3_blosc_typesize_0", false,
     R"({"codecs":[{"configuration":{"endian":"little"},"name":"bytes"},{")"
     R"(configuration":{"blocksize":0,"clevel":5,"cname":"lz4","shuffle":")"
     R"(noshuffle","typesize":0},"name":"blosc"}]})",
     "", "", true, "020132010800000008000000180000000100000002000000",
     R"(Error parsing object member "codecs": Error parsing value at posit)"
     R"(ion 1: Error parsing object member "configuration": Error parsing )"
     R"(object member "typ)"},
    {"v3_blosc_typesize_256", false,
     R"({"codecs":[{"configuration":{"endian":"little"},"name":"bytes"},{")"
     R"(configuration":{"blocksize":0,"clevel":5,"cname":"lz4","shuffle":")"
     R"(shuffle","typesize":256},"name":"blosc"}]})",
     "", "", true, "020132010800000008000000180000000100000002000000",
     R"(Error parsing object member "codecs": Error parsing value at posit)"
     R"(ion 1: Error parsing object member "configuration": Error parsing )"
     R"(object member "typ)"},
    {"v3_blosc_trailing", false,
     R"({"codecs":[{"configuration":{"endian":"little"},"name":"bytes"},{")"
     R"(configuration":{"blocksize":0,"clevel":5,"cname":"lz4","shuffle":")"
     R"(noshuffle"},"name":"blosc"}]})",
     "", "", true, "02013201080000000800000018000000010000000200000078", ""},
    {"v3_blosc_truncated", false,
     R"({"codecs":[{"configuration":{"endian":"little"},"name":"bytes"},{")"
     R"(configuration":{"blocksize":0,"clevel":5,"cname":"lz4","shuffle":")"
     R"(noshuffle"},"name":"blosc"}]})",
     "", "", true, "0201320108000000080000001800000001000000020000", ""},
    {"v3_blosc_empty", false,
     R"({"codecs":[{"configuration":{"endian":"little"},"name":"bytes"},{")"
     R"(configuration":{"blocksize":0,"clevel":5,"cname":"lz4","shuffle":")"
     R"(noshuffle"},"name":"blosc"}]})",
     "", "", true, "", ""},
    {"v3_grid_extra", false,
     R"({"chunk_grid":{"configuration":{"chunk_shape":[2]},"name":"regular)"
     R"(","x":1}})",
     "", "", true, "0100000002000000",
     R"(Error parsing object member "chunk_grid": Object includes extra me)"
     R"(mbers: "x")"},
    {"v3_grid_config_extra", false,
     R"({"chunk_grid":{"configuration":{"chunk_shape":[2],"x":1},"name":"r)"
     R"(egular"}})",
     "", "", true, "0100000002000000",
     R"(Error parsing object member "chunk_grid": Error parsing object mem)"
     R"(ber "configuration": Object includes extra members: "x")"},
    {"v3_keyenc_sep_bad", false,
     R"({"chunk_key_encoding":{"configuration":{"separator":"_"},"name":"d)"
     R"(efault"}})",
     "", "", true, "0100000002000000",
     R"(Error parsing object member "chunk_key_encoding": Error parsing ob)"
     R"(ject member "configuration": Error parsing object member "separato)"
     R"(r": Expected one o)"},
    {"v3_keyenc_extra", false,
     R"({"chunk_key_encoding":{"name":"default","x":1}})", "", "", true,
     "0100000002000000",
     R"(Error parsing object member "chunk_key_encoding": Object includes )"
     R"(extra members: "x")"},
    {"v3_keyenc_config_empty_ok", true,
     R"({"chunk_key_encoding":{"configuration":{},"name":"default"}})", "", "",
     true, "0100000002000000", "010000000200000007000000"},
    {"v3_keyenc_sep_default_ok", true,
     R"({"chunk_key_encoding":{"configuration":{"separator":"/"},"name":"d)"
     R"(efault"}})",
     "", "", true, "0100000002000000", "010000000200000007000000"},
    {"v3_dimnames_int", false, R"({"dimension_names":[1]})", "", "", true,
     "0100000002000000",
     R"(Error parsing object member "dimension_names": Error parsing value)"
     R"( at position 0: Expected string, but received: 1)"},
    {"v3_dimnames_null", false, R"({"dimension_names":null})", "", "", true,
     "0100000002000000",
     R"(Error parsing object member "dimension_names": Expected array, but)"
     R"( received: null)"},
    {"v3_dimnames_dup", false,
     R"({"chunk_grid":{"configuration":{"chunk_shape":[2,1]},"name":"regul)"
     R"(ar"},"dimension_names":["a","a"],"shape":[3,1]})",
     "", "", true, "0100000002000000", ""},
    {"v3_attributes_list", false, R"({"attributes":[]})", "", "", true,
     "0100000002000000",
     R"(Error parsing object member "attributes": Expected object, but rec)"
     R"(eived: [])"},
    {"v3_unknown_must_understand_true", false,
     R"({"hello":{"must_understand":true}})", "", "", true, "0100000002000000",
     R"(Unsupported metadata field "hello" is not marked {"must_understand)"
     R"(": false})"},
    {"v3_unknown_with_more_ok", true,
     R"({"hello":{"must_understand":false,"x":1}})", "", "", true,
     "0100000002000000", "010000000200000007000000"},
    {"v3_zarr_format_float_ok", true, R"({"zarr_format":3.0})", "", "", true,
     "0100000002000000", "010000000200000007000000"},
    {"v3_shape_float_ok", true, R"({"shape":[3.0]})", "", "", true,
     "0100000002000000", "010000000200000007000000"},
    {"v3_data_type_unknown", false, R"({"data_type":"float999"})", "", "", true,
     "0100000002000000", ""},
    {"v3_data_type_object", false, R"({"data_type":{"name":"int32"}})", "", "",
     true, "0100000002000000", ""},
    {"v3_data_type_v2", false, R"({"data_type":"<i4"})", "", "", true,
     "0100000002000000", ""},
    {"v3_transpose_extra", false,
     R"({"codecs":[{"configuration":{"order":[0],"x":1},"name":"transpose")"
     R"(},{"configuration":{"endian":"little"},"name":"bytes"}]})",
     "", "", true, "0100000002000000",
     R"(Error parsing object member "codecs": Error parsing value at posit)"
     R"(ion 0: Error parsing object member "configuration": Object include)"
     R"(s extra members: ")"},
    {"v3_transpose_F_ok", true,
     R"({"codecs":[{"configuration":{"order":"F"},"name":"transpose"},{"co)"
     R"(nfiguration":{"endian":"little"},"name":"bytes"}]})",
     "", "", true, "0100000002000000", "010000000200000007000000"},
    {"v3_transpose_no_config", false,
     R"({"codecs":[{"name":"transpose"},{"configuration":{"endian":"little)"
     R"("},"name":"bytes"}]})",
     "", "", true, "0100000002000000", ""},
    {"v3_shape_2e62", false, R"({"shape":[4611686018427387904]})", "", "", true,
     "0100000002000000", ""},
    {"v3_grid_product_overflow", false,
     R"({"chunk_grid":{"configuration":{"chunk_shape":[1099511627776,10995)"
     R"(11627776]},"name":"regular"},"shape":[2,2]})",
     "", "", true, "0100000002000000",
     "Integer overflow computing encoded size of array of shape {1"
     "099511627776, 1099511627776}"},
    {"v3_grid_huge", false,
     R"({"chunk_grid":{"configuration":{"chunk_shape":[4611686018427387904)"
     R"(]},"name":"regular"}})",
     "", "", true, "0100000002000000",
     "Integer overflow computing encoded size of array of shape {4"
     "611686018427387904}"},
    {"v3_int4_high_bits", true,
     R"({"codecs":[{"name":"bytes"}],"data_type":"int4"})", "", "", true,
     "18f8", "080807"},
    {"v3_int4_fill_range", false,
     R"({"codecs":[{"name":"bytes"}],"data_type":"int4","fill_value":9})", "",
     "", true, "0102",
     R"(Error parsing object member "fill_value": Expected integer in the )"
     R"(range [-8, 7], but received: 9)"},
    {"v3_json_spaces_ok", true, "{}", "", "", true, "0100000002000000",
     "010000000200000007000000"},
    {"v3_json_bom", true, "", "",
     "\357\273\277{\"chunk_grid\":{\"configuration\":{\"chunk_shape\":[2]},"
     "\"name\""
     ":\"regular\"},\"chunk_key_encoding\":{\"name\":\"default\"},\"codecs\""
     ":[{\"configuration\":{\"endian\":\"little\"},\"name\":\"bytes\"}],\"dat"
     "a_type\":\"int32\",\"fill_value\":7,\"node_type\":\"array\",\"shape\":["
     "3],\"zarr_format\":3}",
     true, "0100000002000000", "010000000200000007000000"},
    {"v3_json_bad_utf8", false, "", "",
     "{\"chunk_grid\":{\"configuration\":{\"chunk_shape\":[2]},\"name\":\"r"
     "egular\"},\"chunk_key_encoding\":{\"name\":\"default\"},\"codecs\":[{"
     "\"configuration\":{\"endian\":\"little\"},\"name\":\"bytes\"}],\"data_t"
     "ype\":\"int32\",\"fill_value\":7,\"node_type\":\"array\",\"shape\":[3],"
     "\"zarr_format\":3,\"attributes\":{\"a\":\"\377\"}}",
     true, "0100000002000000", "Invalid JSON"},
    {"v3_json_comment", false, "", "",
     R"(/*x*/{"chunk_grid":{"configuration":{"chunk_shape":[2]},"name":"re)"
     R"(gular"},"chunk_key_encoding":{"name":"default"},"codecs":[{"config)"
     R"(uration":{"endian":"little"},"name":"bytes"}],"data_type":"int32",)"
     R"("fill_value":7,"node_type":"array","shape":[3],"zarr_format":3})",
     true, "0100000002000000", "Invalid JSON"},
    {"v3_json_array", false, "", "", "[]", false, "",
     "Expected object, but received: []"},
    {"v3_json_nul", false, "", "",
     std::string_view(
         "{\"chunk_grid\":{\"configuration\":{\"chunk_shape\":[2]},\"name\":\"r"
         "egular\"},\"chunk_key_encoding\":{\"name\":\"default\"},\"codecs\":[{"
         "\"configuration\":{\"endian\":\"little\"},\"name\":\"bytes\"}],"
         "\"data_t"
         "ype\":\"int32\",\"fill_value\":7,\"node_type\":\"array\",\"shape\":["
         "3],"
         "\"zarr_format\":3}\000",
         257),
     true, "0100000002000000", ""},
    {"v3_json_newline_ok", true, "", "",
     "{\"chunk_grid\":{\"configuration\":{\"chunk_shape\":[2]},\"name\":\"r"
     "egular\"},\"chunk_key_encoding\":{\"name\":\"default\"},\"codecs\":[{"
     "\"configuration\":{\"endian\":\"little\"},\"name\":\"bytes\"}],\"data_t"
     "ype\":\"int32\",\"fill_value\":7,\"node_type\":\"array\",\"shape\":[3],"
     "\"zarr_format\":3}\012",
     true, "0100000002000000", "010000000200000007000000"},
};

}  // namespace holdfast::zarr
