// Borderline and malformed arrays of zarr v2 (malformed_testdata.h).
#pragma once

#include "formats/zarr/format/malformed_testdata.h"

namespace holdfast::zarr {

inline constexpr std::string_view kMalformedBaseV2 =
    R"({"chunks":[2],"compressor":null,"dimension_separator":".","dtype":)"
    R"("<i4","fill_value":7,"filters":null,"order":"C","shape":[3],"zarr_)"
    R"(format":2})";

inline constexpr MalformedCase kMalformedV2[] = {
    {"v2_ok", true, "{}", "", "", true, "0100000002000000",
     "010000000200000007000000"},
    {"v2_missing_chunk_ok", true, "{}", "", "", false, "",
     "070000000700000007000000"},
    {"v2_missing_chunk_null_fill_ok", true, R"({"fill_value":null})", "", "",
     false, "", "000000000000000000000000"},
    {"v2_chunk_short", false, "{}", "", "", true, "01000000020000", ""},
    {"v2_chunk_long", false, "{}", "", "", true, "010000000200000000", ""},
    {"v2_chunk_empty", false, "{}", "", "", true, "", ""},
    {"v2_zstd_ok", true, R"({"compressor":{"id":"zstd","level":1}})", "", "",
     true, "28b52ffd20084100000100000002000000", "010000000200000007000000"},
    {"v2_zstd_no_size_ok", true, R"({"compressor":{"id":"zstd","level":1}})",
     "", "", true, "28b52ffd00004100000100000002000000",
     "010000000200000007000000"},
    {"v2_zstd_checksum_ok", true, R"({"compressor":{"id":"zstd","level":1}})",
     "", "", true, "28b52ffd240841000001000000020000003a18e41e",
     "010000000200000007000000"},
    {"v2_zstd_trailing", false, R"({"compressor":{"id":"zstd","level":1}})", "",
     "", true, "28b52ffd2008410000010000000200000078", ""},
    {"v2_zstd_two_frames", false, R"({"compressor":{"id":"zstd","level":1}})",
     "", "", true, "28b52ffd20042100000100000028b52ffd200421000002000000", ""},
    {"v2_zstd_truncated", false, R"({"compressor":{"id":"zstd","level":1}})",
     "", "", true, "28b52ffd2008410000010000000200", ""},
    {"v2_zstd_wrong_size", false, R"({"compressor":{"id":"zstd","level":1}})",
     "", "", true, "28b52ffd201081000001000000020000000100000002000000", ""},
    {"v2_zstd_not", false, R"({"compressor":{"id":"zstd","level":1}})", "", "",
     true, "0100000002000000", ""},
    {"v2_zlib_ok", true, R"({"compressor":{"id":"zlib","level":1}})", "", "",
     true, "789c636460606002620000180004", "010000000200000007000000"},
    {"v2_zlib_trailing", false, R"({"compressor":{"id":"zlib","level":1}})", "",
     "", true, "789c63646060600262000018000478", ""},
    // TensorStore refuses this byte; numpy, which writes such bytes, reads it
    // as true.
    {"v2_bool_2", true, R"({"dtype":"|b1","fill_value":false})", "", "", true,
     "0102", "010100"},
    {"v2_drop_chunks", false, "{}", "chunks", "", true, "0100000002000000",
     R"(Error parsing object member "chunks": Expected array, but member i)"
     R"(s missing)"},
    {"v2_drop_compressor", false, "{}", "compressor", "", true,
     "0100000002000000",
     R"(Error parsing object member "compressor": Expected object, but mem)"
     R"(ber is missing)"},
    {"v2_drop_dimension_separator", true, "{}", "dimension_separator", "", true,
     "0100000002000000", "010000000200000007000000"},
    {"v2_drop_dtype", false, "{}", "dtype", "", true, "0100000002000000",
     R"(Error parsing object member "dtype": Expected array, but member is)"
     R"( missing)"},
    {"v2_drop_fill_value", false, "{}", "fill_value", "", true,
     "0100000002000000",
     R"(Error parsing object member "fill_value": Expected integer in the )"
     R"(range [-2147483648, 2147483647], but received: <discarded>)"},
    {"v2_drop_filters", false, "{}", "filters", "", true, "0100000002000000",
     R"(Error parsing object member "filters": Expected null or array, but)"
     R"( member is missing)"},
    {"v2_drop_order", false, "{}", "order", "", true, "0100000002000000",
     R"(Error parsing object member "order": Expected one of "C", "F", but)"
     R"( member is missing)"},
    {"v2_drop_shape", false, "{}", "shape", "", true, "0100000002000000",
     R"(Error parsing object member "shape": Expected array, but member is)"
     R"( missing)"},
    {"v2_drop_zarr_format", false, "{}", "zarr_format", "", true,
     "0100000002000000", ""},
    {"v2_extra_member_ok", true, R"({"hello":1})", "", "", true,
     "0100000002000000", "010000000200000007000000"},
    {"v2_zarr_format_3", false, R"({"zarr_format":3})", "", "", true,
     "0100000002000000", ""},
    {"v2_zarr_format_str", false, R"({"zarr_format":"2"})", "", "", true,
     "0100000002000000", ""},
    {"v2_rank_mismatch", false, R"({"chunks":[2,2]})", "", "", true,
     "0100000002000000",
     R"(Error parsing object member "chunks": Array has length 2 but shoul)"
     R"(d have length 1)"},
    {"v2_chunk_zero", false, R"({"chunks":[0]})", "", "", true,
     "0100000002000000",
     R"(Error parsing object member "chunks": Error parsing value at posit)"
     R"(ion 0: Expected integer in the range [1, 9223372036854775806], but)"
     R"( received: 0)"},
    {"v2_shape_neg", false, R"({"shape":[-1]})", "", "", true,
     "0100000002000000",
     R"(Error parsing object member "shape": Error parsing value at positi)"
     R"(on 0: Expected integer in the range [0, 9223372036854775806], but )"
     R"(received: -1)"},
    {"v2_shape_float_ok", true, R"({"shape":[3.0]})", "", "", true,
     "0100000002000000", "010000000200000007000000"},
    {"v2_shape_half", false, R"({"shape":[3.5]})", "", "", true,
     "0100000002000000",
     R"(Error parsing object member "shape": Error parsing value at positi)"
     R"(on 0: Expected integer in the range [0, 9223372036854775806], but )"
     R"(received: 3.5)"},
    {"v2_shape_str", false, R"({"shape":["3"]})", "", "", true,
     "0100000002000000",
     R"(Error parsing object member "shape": Error parsing value at positi)"
     R"(on 0: Expected integer in the range [0, 9223372036854775806], but )"
     R"(received: "3")"},
    {"v2_dtype_bad", false, R"({"dtype":"i4"})", "", "", true,
     "0100000002000000",
     R"(Error parsing object member "dtype": Unsupported zarr dtype: "i4")"},
    {"v2_dtype_native", false, R"({"dtype":"=i4"})", "", "", true,
     "0100000002000000",
     R"(Error parsing object member "dtype": Unsupported zarr dtype: "=i4")"},
    {"v2_order_bad", false, R"({"order":"A"})", "", "", true,
     "0100000002000000",
     R"(Error parsing object member "order": Expected one of "C", "F", but)"
     R"( received: "A")"},
    {"v2_order_F_rank1_ok", true, R"({"order":"F"})", "", "", true,
     "0100000002000000", "010000000200000007000000"},
    {"v2_sep_bad", false, R"({"dimension_separator":"_"})", "", "", true,
     "0100000002000000",
     R"(Error parsing object member "dimension_separator": Expected one of)"
     R"( ".", "/", but received: "_")"},
    {"v2_sep_null", false, R"({"dimension_separator":null})", "", "", true,
     "0100000002000000",
     R"(Error parsing object member "dimension_separator": Expected one of)"
     R"( ".", "/", but received: null)"},
    {"v2_filters_nonempty", false, R"({"filters":[{"id":"delta"}]})", "", "",
     true, "0100000002000000",
     R"(Error parsing object member "filters": filters are not supported)"},
    {"v2_filters_empty_ok", true, R"({"filters":[]})", "", "", true,
     "0100000002000000", "010000000200000007000000"},
    {"v2_compressor_unknown", false, R"({"compressor":{"id":"lz4"}})", "", "",
     true, "0100000002000000",
     R"(Error parsing object member "compressor": Error parsing object mem)"
     R"(ber "id": "lz4" is not registered)"},
    {"v2_compressor_extra_key", false,
     R"({"compressor":{"checksum":false,"id":"zstd","level":1}})", "", "", true,
     "28b52ffd20084100000100000002000000",
     R"(Error parsing object member "compressor": Object includes extra me)"
     R"(mbers: "checksum")"},
    {"v2_compressor_zstd_level_23", false,
     R"({"compressor":{"id":"zstd","level":23}})", "", "", true,
     "28b52ffd20084100000100000002000000",
     R"(Error parsing object member "compressor": Error parsing object mem)"
     R"(ber "level": Expected integer in the range [-131072, 22], but rece)"
     R"(ived: 23)"},
    {"v2_fill_string", false, R"({"fill_value":"x"})", "", "", true,
     "0100000002000000",
     R"(Error parsing object member "fill_value": Expected integer in the )"
     R"(range [-2147483648, 2147483647], but received: "x")"},
    {"v2_fill_overflow", false, R"({"fill_value":2147483648})", "", "", true,
     "0100000002000000",
     R"(Error parsing object member "fill_value": Expected integer in the )"
     R"(range [-2147483648, 2147483647], but received: 2147483648)"},
    {"v2_fill_numeric_string", false, R"({"fill_value":"7"})", "", "", true,
     "0100000002000000",
     R"(Error parsing object member "fill_value": Expected integer in the )"
     R"(range [-2147483648, 2147483647], but received: "7")"},
    {"v2_fill_float", false, R"({"fill_value":1.5})", "", "", true,
     "0100000002000000",
     R"(Error parsing object member "fill_value": Expected integer in the )"
     R"(range [-2147483648, 2147483647], but received: 1.5)"},
    {"v2_json_garbage", false, "", "", "{", false, "", "Invalid JSON"},
    {"v2_json_trailing", false, "", "",
     R"({"chunks":[2],"compressor":null,"dimension_separator":".","dtype":)"
     R"("<i4","fill_value":7,"filters":null,"order":"C","shape":[3],"zarr_)"
     R"(format":2}x)",
     false, "", "Invalid JSON"},
    {"v2_json_spaces_ok", true, "", "",
     "{\012    \"chunks\": [\012        2\012    ],\012    \"compressor\": "
     "null,\012 "
     "   \"dimension_separator\": \".\",\012    \"dtype\": \"<i4\",\012    "
     "\"fill"
     "_value\": 7,\012    \"filters\": null,\012    \"order\": \"C\",\012    "
     "\"shap"
     "e\": [\012        3\012    ],\012    \"zarr_format\": 2\012}\012",
     true, "0100000002000000", "010000000200000007000000"},
    {"v2_json_nan", false, "", "",
     R"({"chunks":[2],"compressor":null,"dimension_separator":".","dtype":)"
     R"("<i4","fill_value":NaN,"filters":null,"order":"C","shape":[3],"zar)"
     R"(r_format":2})",
     false, "", "Invalid JSON"},
    {"v2_json_dup_key_last_wins", true, "", "",
     R"({"chunks":[2],"compressor":null,"dimension_separator":".","dtype":)"
     R"("<i4","fill_value":7,"filters":null,"order":"C","shape":[3],"zarr_)"
     R"(format":2,"shape":[2]})",
     true, "0100000002000000", "0100000002000000"},
    {"v2_f4_fill_null", true, R"({"dtype":"<f4","fill_value":null})", "", "",
     true, "0000803f00000040", "0000803f0000004000000000"},
    {"v2_f4_fill_int", true, R"({"dtype":"<f4","fill_value":3})", "", "", true,
     "0000803f00000040", "0000803f0000004000004040"},
    {"v2_f4_fill_numstr", true, R"({"dtype":"<f4","fill_value":"1.5"})", "", "",
     true, "0000803f00000040", "0000803f000000400000c03f"},
    {"v2_f4_fill_nan", true, R"({"dtype":"<f4","fill_value":"NaN"})", "", "",
     true, "0000803f00000040", "0000803f000000400000c07f"},
    {"v2_f4_fill_nan_lower", false, R"({"dtype":"<f4","fill_value":"nan"})", "",
     "", true, "0000803f00000040",
     R"(Error parsing object member "fill_value": Invalid floating-point v)"
     R"(alue: "nan")"},
    {"v2_f4_fill_inf", true, R"({"dtype":"<f4","fill_value":"Infinity"})", "",
     "", true, "0000803f00000040", "0000803f000000400000807f"},
    {"v2_f4_fill_pinf", false, R"({"dtype":"<f4","fill_value":"+Infinity"})",
     "", "", true, "0000803f00000040",
     R"(Error parsing object member "fill_value": Invalid floating-point v)"
     R"(alue: "+Infinity")"},
    {"v2_f4_fill_hex", false, R"({"dtype":"<f4","fill_value":"0x7fc00000"})",
     "", "", true, "0000803f00000040", ""},
    {"v2_f4_fill_hex_short", false, R"({"dtype":"<f4","fill_value":"0x1"})", "",
     "", true, "0000803f00000040", ""},
    {"v2_f4_fill_hex_upper", false,
     R"({"dtype":"<f4","fill_value":"0X7FC00000"})", "", "", true,
     "0000803f00000040", ""},
    {"v2_f4_fill_hex_upper2", false,
     R"({"dtype":"<f4","fill_value":"0x7FC00000"})", "", "", true,
     "0000803f00000040", ""},
    {"v2_f4_fill_hex_long", false,
     R"({"dtype":"<f4","fill_value":"0x07fc000000"})", "", "", true,
     "0000803f00000040", ""},
    {"v2_f4_fill_bool", false, R"({"dtype":"<f4","fill_value":true})", "", "",
     true, "0000803f00000040",
     R"(Error parsing object member "fill_value": Invalid floating-point v)"
     R"(alue: true)"},
    {"v2_f4_fill_huge", true, R"({"dtype":"<f4","fill_value":1e+300})", "", "",
     true, "0000803f00000040", "0000803f000000400000807f"},
    {"v2_f4_fill_overflow", true, R"({"dtype":"<f4","fill_value":1e+39})", "",
     "", true, "0000803f00000040", "0000803f000000400000807f"},
    {"v2_i4_fill_bool", false, R"({"fill_value":true})", "", "", true,
     "0100000002000000",
     R"(Error parsing object member "fill_value": Expected integer in the )"
     R"(range [-2147483648, 2147483647], but received: true)"},
    {"v2_i4_fill_float_int", true, R"({"fill_value":7.0})", "", "", true,
     "0100000002000000", "010000000200000007000000"},
    {"v2_i4_fill_numstr", false, R"({"fill_value":"7"})", "", "", true,
     "0100000002000000",
     R"(Error parsing object member "fill_value": Expected integer in the )"
     R"(range [-2147483648, 2147483647], but received: "7")"},
    {"v2_i4_fill_b64", false, R"({"fill_value":"BwAAAA=="})", "", "", true,
     "0100000002000000",
     R"(Error parsing object member "fill_value": Expected integer in the )"
     R"(range [-2147483648, 2147483647], but received: "BwAAAA==")"},
    {"v2_bool_fill_int", false, R"({"dtype":"|b1","fill_value":0})", "", "",
     true, "0101",
     R"(Error parsing object member "fill_value": Expected boolean, but re)"
     R"(ceived: 0)"},
    {"v2_bool_fill_str", false, R"({"dtype":"|b1","fill_value":"false"})", "",
     "", true, "0101",
     R"(Error parsing object member "fill_value": Expected boolean, but re)"
     R"(ceived: "false")"},
    {"v2_c8_fill_scalar", false, R"({"dtype":"<c8","fill_value":1.0})", "", "",
     true, "0000803f000000400000803f00000040", ""},
    {"v2_c8_fill_pair_ok", true, R"({"dtype":"<c8","fill_value":[1,"NaN"]})",
     "", "", true, "0000803f000000400000803f00000040",
     "0000803f000000400000803f000000400000803f0000c07f"},
    {"v2_i8_fill_big_ok", true,
     R"({"dtype":"<i8","fill_value":-9223372036854775808})", "", "", true,
     "01000000000000000200000000000000",
     "010000000000000002000000000000000000000000000080"},
    {"v2_u8_fill_big_ok", true,
     R"({"dtype":"<u8","fill_value":18446744073709551615})", "", "", true,
     "01000000000000000200000000000000",
     "01000000000000000200000000000000ffffffffffffffff"},
    {"v2_compressor_zstd_no_level_ok", true, R"({"compressor":{"id":"zstd"}})",
     "", "", true, "28b52ffd20084100000100000002000000",
     "010000000200000007000000"},
    {"v2_compressor_empty", false, R"({"compressor":{}})", "", "", true,
     "0100000002000000",
     R"(Error parsing object member "compressor": Error parsing object mem)"
     R"(ber "id": Expected string, but member is missing)"},
    {"v2_compressor_str", false, R"({"compressor":"zstd"})", "", "", true,
     "0100000002000000",
     R"(Error parsing object member "compressor": Expected object, but rec)"
     R"(eived: "zstd")"},
    {"v2_shape_rank33", false,
     R"({"chunks":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1)"
     R"(,1,1,1,1,1],"shape":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1)"
     R"(,1,1,1,1,1,1,1,1,1,1]})",
     "", "", true, "0100000002000000",
     R"(Error parsing object member "shape": Rank 33 is outside valid rang)"
     R"(e [0, 32])"},
    {"v2_shape_too_big", false, R"({"shape":[9223372036854775807]})", "", "",
     true, "0100000002000000",
     R"(Error parsing object member "shape": Error parsing value at positi)"
     R"(on 0: Expected integer in the range [0, 9223372036854775806], but )"
     R"(received: 92233720)"},
    {"v2_chunks_product_overflow", false,
     R"({"chunks":[1099511627776,1099511627776],"shape":[1099511627776,109)"
     R"(9511627776]})",
     "", "", true, "0100000002000000",
     "Product of chunk dimensions {1099511627776, 1099511627776} i"
     "s too large"},
    {"v2_dtype_V", false, R"({"dtype":"|V4","fill_value":null})", "", "", true,
     "0100000002000000", ""},
    {"v2_blosc_ok", true,
     R"({"compressor":{"blocksize":0,"clevel":5,"cname":"lz4","id":"blosc")"
     R"(,"shuffle":0}})",
     "", "", true, "020132010800000008000000180000000100000002000000",
     "010000000200000007000000"},
    {"v2_blosc_drop_id", false,
     R"({"compressor":{"blocksize":0,"clevel":5,"cname":"lz4","shuffle":0})"
     R"(})",
     "", "", true, "020132010800000008000000180000000100000002000000",
     R"(Error parsing object member "compressor": Error parsing object mem)"
     R"(ber "id": Expected string, but member is missing)"},
    {"v2_blosc_drop_cname", true,
     R"({"compressor":{"blocksize":0,"clevel":5,"id":"blosc","shuffle":0}})",
     "", "", true, "020132010800000008000000180000000100000002000000",
     "010000000200000007000000"},
    {"v2_blosc_drop_clevel", true,
     R"({"compressor":{"blocksize":0,"cname":"lz4","id":"blosc","shuffle":)"
     R"(0}})",
     "", "", true, "020132010800000008000000180000000100000002000000",
     "010000000200000007000000"},
    {"v2_blosc_drop_shuffle", true,
     R"({"compressor":{"blocksize":0,"clevel":5,"cname":"lz4","id":"blosc")"
     R"(}})",
     "", "", true, "020132010800000008000000180000000100000002000000",
     "010000000200000007000000"},
    {"v2_blosc_drop_blocksize", true,
     R"({"compressor":{"clevel":5,"cname":"lz4","id":"blosc","shuffle":0}})",
     "", "", true, "020132010800000008000000180000000100000002000000",
     "010000000200000007000000"},
    {"v2_blosc_shuffle_3", false,
     R"({"compressor":{"blocksize":0,"clevel":5,"cname":"lz4","id":"blosc")"
     R"(,"shuffle":3}})",
     "", "", true, "020132010800000008000000180000000100000002000000",
     R"(Error parsing object member "compressor": Error parsing object mem)"
     R"(ber "shuffle": Expected integer in the range [-1, 2], but received)"
     R"(: 3)"},
    {"v2_blosc_shuffle_-1_ok", true,
     R"({"compressor":{"blocksize":0,"clevel":5,"cname":"lz4","id":"blosc")"
     R"(,"shuffle":-1}})",
     "", "", true, "020132010800000008000000180000000100000002000000",
     "010000000200000007000000"},
    {"v2_blosc_shuffle_-2", false,
     R"({"compressor":{"blocksize":0,"clevel":5,"cname":"lz4","id":"blosc")"
     R"(,"shuffle":-2}})",
     "", "", true, "020132010800000008000000180000000100000002000000",
     R"(Error parsing object member "compressor": Error parsing object mem)"
     R"(ber "shuffle": Expected integer in the range [-1, 2], but received)"
     R"(: -2)"},
    {"v2_blosc_clevel_10", false,
     R"({"compressor":{"blocksize":0,"clevel":10,"cname":"lz4","id":"blosc)"
     R"(","shuffle":0}})",
     "", "", true, "020132010800000008000000180000000100000002000000",
     R"(Error parsing object member "compressor": Error parsing object mem)"
     R"(ber "clevel": Expected integer in the range [0, 9], but received: )"
     R"(10)"},
    {"v2_blosc_cname_bad", false,
     R"({"compressor":{"blocksize":0,"clevel":5,"cname":"q","id":"blosc",")"
     R"(shuffle":0}})",
     "", "", true, "020132010800000008000000180000000100000002000000",
     R"(Error parsing object member "compressor": Error parsing object mem)"
     R"(ber "cname": Expected one of blosclz,lz4,lz4hc,snappy,zlib,zstd, b)"
     R"(ut received: "q")"},
    {"v2_blosc_trailing", false,
     R"({"compressor":{"blocksize":0,"clevel":5,"cname":"lz4","id":"blosc")"
     R"(,"shuffle":0}})",
     "", "", true, "02013201080000000800000018000000010000000200000078", ""},
    {"v2_blosc_truncated", false,
     R"({"compressor":{"blocksize":0,"clevel":5,"cname":"lz4","id":"blosc")"
     R"(,"shuffle":0}})",
     "", "", true, "0201320108000000080000001800000001000000020000", ""},
    {"v2_zlib_level_10", false, R"({"compressor":{"id":"zlib","level":10}})",
     "", "", true, "789c636460606002620000180004",
     R"(Error parsing object member "compressor": Error parsing object mem)"
     R"(ber "level": Expected integer in the range [0, 9], but received: 1)"
     R"(0)"},
    {"v2_zlib_no_level_ok", true, R"({"compressor":{"id":"zlib"}})", "", "",
     true, "789c636460606002620000180004", "010000000200000007000000"},
    {"v2_gzip_ok", true, R"({"compressor":{"id":"gzip","level":1}})", "", "",
     true, "1f8b080072bc006b02ff63646060600262007c17810308000000",
     "010000000200000007000000"},
    {"v2_gzip_as_zlib", false, R"({"compressor":{"id":"zlib","level":1}})", "",
     "", true, "1f8b080072bc006b02ff63646060600262007c17810308000000", ""},
    {"v2_bz2_ok", false, R"({"compressor":{"id":"bz2","level":1}})", "", "",
     true,
     "425a68393141592653597140b0b500000340007000200030cc0c7a825e2e"
     "e48a70a120e281616a",
     ""},
    {"v2_bz2_level_0", false, R"({"compressor":{"id":"bz2","level":0}})", "",
     "", true,
     "425a68393141592653597140b0b500000340007000200030cc0c7a825e2e"
     "e48a70a120e281616a",
     R"(Error parsing object member "compressor": Error parsing object mem)"
     R"(ber "level": Expected integer in the range [1, 9], but received: 0)"},
    {"v2_bz2_no_level_ok", false, R"({"compressor":{"id":"bz2"}})", "", "",
     true,
     "425a68393141592653597140b0b500000340007000200030cc0c7a825e2e"
     "e48a70a120e281616a",
     ""},
    {"v2_bz2_trailing", false, R"({"compressor":{"id":"bz2","level":1}})", "",
     "", true,
     "425a68393141592653597140b0b500000340007000200030cc0c7a825e2e"
     "e48a70a120e281616a78",
     ""},
    {"v2_shape_2e62", false, R"({"shape":[4611686018427387904]})", "", "", true,
     "0100000002000000", ""},
    {"v2_int4_high_bits", true, R"({"dtype":"int4"})", "", "", true, "18f8",
     "080807"},
    {"v2_int4_fill_range", true, R"({"dtype":"int4","fill_value":9})", "", "",
     true, "0102", "010209"},
    {"v2_json_bom", true, "", "",
     "\357\273\277{\"chunks\":[2],\"compressor\":null,\"dimension_separator\":"
     "\".\""
     ",\"dtype\":\"<i4\",\"fill_value\":7,\"filters\":null,\"order\":\"C\",\"sh"
     "ape\":[3],\"zarr_format\":2}",
     true, "0100000002000000", "010000000200000007000000"},
};

}  // namespace holdfast::zarr
