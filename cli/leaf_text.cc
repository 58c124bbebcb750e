#include "cli/leaf_text.h"

#include "cli/units.h"

namespace holdfast::cli {

bool HasShape(const LeafInfo& leaf) {
  return leaf.kind == ValueKind::kArray || leaf.kind == ValueKind::kScalar;
}

std::string TypeText(const LeafInfo& leaf) {
  if (IsNotSupported(leaf)) return "not supported";
  if (!leaf.dtype) return "-";
  std::string text(DTypeName(*leaf.dtype));
  if (leaf.kind == ValueKind::kArray) text += ShapeText(leaf.shape);
  return text;
}

std::string SummaryText(const LeafInfo& leaf) {
  std::string text;
  if (leaf.dtype || IsNotSupported(leaf)) {
    text = TypeText(leaf);
  } else {
    text = ValueKindName(leaf.kind);
  }
  if (!leaf.prng_impl.empty()) {
    text += " key<" + PrintableText(leaf.prng_impl) + ">";
  }
  if (leaf.kind == ValueKind::kArray) {
    text += " " + HumanBytes(leaf.decoded_bytes);
  }
  return text;
}

void WriteTypeFields(const LeafInfo& leaf, JsonWriter* json) {
  json->Field("kind", ValueKindName(leaf.kind));
  if (leaf.dtype) {
    json->Field("dtype", DTypeName(*leaf.dtype));
  } else {
    json->NullField("dtype");
  }
}

void WriteShapeField(const LeafInfo& leaf, JsonWriter* json) {
  if (HasShape(leaf)) {
    json->ShapeField("shape", leaf.shape);
  } else {
    json->NullField("shape");
  }
}

void WriteLeafFields(const LeafInfo& leaf, JsonWriter* json) {
  json->Field("name", leaf.name);
  json->StringsField("key", leaf.key);
  WriteTypeFields(leaf, json);
  WriteShapeField(leaf, json);
  if (HasShape(leaf)) {
    json->ShapeField("chunk_shape", leaf.chunk_shape);
  } else {
    json->NullField("chunk_shape");
  }
  json->Field("parameter_count", ParameterCount(leaf));
  json->Field("chunk_count", leaf.chunk_count);
  json->Field("stored_bytes", leaf.stored_bytes);
  json->Field("decoded_bytes", leaf.decoded_bytes);
  json->Field("codecs", leaf.codecs);
  json->Field("value_type", leaf.value_type);
  if (!leaf.prng_impl.empty()) json->Field("prng_impl", leaf.prng_impl);
  if (!leaf.problem.ok()) json->Field("error", leaf.problem.ToString());
}

uint64_t ParameterCount(const LeafInfo& leaf) {
  if (leaf.kind != ValueKind::kArray || !leaf.dtype) return 0;
  return static_cast<uint64_t>(ElementCount(leaf.shape));
}

void LeafTotals::Add(const LeafInfo& leaf) {
  ++leaf_count;
  parameter_count += ParameterCount(leaf);
  chunk_count += leaf.chunk_count;
  stored_bytes += leaf.stored_bytes;
  decoded_bytes += leaf.decoded_bytes;
}

std::string ParametersText(const LeafTotals& totals) {
  return HumanCount(totals.parameter_count) +
         (totals.parameter_count == 1 ? " parameter" : " parameters");
}

std::string TotalsText(const LeafTotals& totals) {
  return Counted(totals.leaf_count, "leaf", "leaves") + ", " +
         ParametersText(totals) + ", " +
         Counted(totals.chunk_count, "chunk", "chunks") + ", stored " +
         HumanBytes(totals.stored_bytes) + ", decoded " +
         HumanBytes(totals.decoded_bytes);
}

void WriteTotals(const LeafTotals& totals, JsonWriter* json) {
  json->Field("leaf_count", totals.leaf_count);
  json->Field("parameter_count", totals.parameter_count);
  json->Field("chunk_count", totals.chunk_count);
  json->Field("stored_bytes", totals.stored_bytes);
  json->Field("decoded_bytes", totals.decoded_bytes);
}

}  // namespace holdfast::cli
