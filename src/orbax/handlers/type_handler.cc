// The interface's default methods, and the checks that handlers share.
#include "ground/base/status_macros.h"
#include "holdfast/orbax/type_handlers.h"

namespace holdfast {
namespace {

uint64_t ByteCountOf(const Tree& value) {
  if (!value.is_leaf()) return 0;
  switch (value.leaf_kind()) {
    case LeafKind::kArray:
      return ElementCount(value.array_shape()) *
             DTypeBytes(value.array_dtype());
    case LeafKind::kScalar:
      return DTypeBytes(value.scalar().dtype);
    case LeafKind::kString:
    case LeafKind::kBytes:
      return value.text().size();
    default:
      return 0;
  }
}

}  // namespace

Status TypeHandler::Finalize(const std::string& /*directory*/) {
  return Status();
}

std::vector<std::pair<uint64_t, uint64_t>> TypeHandler::MemorySize(
    std::span<const Tree* const> values) {
  std::vector<std::pair<uint64_t, uint64_t>> sizes;
  for (const Tree* value : values) {
    sizes.emplace_back(ByteCountOf(*value), ByteCountOf(*value));
  }
  return sizes;
}

Status CheckInputArguments(std::initializer_list<size_t> lengths) {
  std::optional<size_t> common;
  for (const size_t length : lengths) {
    if (common == 0u) {
      return InvalidArgumentError("Cannot pass TypeHandler input of length 0.");
    }
    if (common && length != *common) {
      return InvalidArgumentError("Found input args with mismatched lengths.");
    }
    common = length;
  }
  return Status();
}

Status CheckArrayValues(std::span<const Tree* const> values,
                        std::span<const ParamInfo> infos) {
  HF_RETURN_IF_ERROR(CheckInputArguments({values.size(), infos.size()}));
  for (size_t i = 0; i < values.size(); ++i) {
    const Tree& value = *values[i];
    const bool is_array =
        value.is_leaf() && value.leaf_kind() == LeafKind::kArray;
    if (!is_array || ElementCount(value.array_shape()) > 0) continue;
    return InvalidArgumentError(
        "Cannot save arrays with zero size: ParamInfo: [name=" + infos[i].name +
        ",value_typestr=" + infos[i].value_typestr + "]");
  }
  return Status();
}

std::optional<std::string> GetProcessIndexForSubdir(
    bool use_ocdbt,
    const std::optional<std::string>& override_ocdbt_process_id) {
  if (!use_ocdbt) return std::nullopt;
  const bool has_override =
      override_ocdbt_process_id && !override_ocdbt_process_id->empty();
  return has_override ? *override_ocdbt_process_id : "0";
}

RestoreType DefaultRestoreType(const AnyRestoreArgs& args) {
  return AsArrayRestoreArgs(args) != nullptr ? RestoreType::kJaxArray
                                             : RestoreType::kNumpy;
}

}  // namespace holdfast
