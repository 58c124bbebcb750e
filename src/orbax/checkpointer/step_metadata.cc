// The metadata that a step directory records about itself.
#include "engine/commit/layout.h"
#include "engine/format/checkpoint_metadata.h"
#include "engine/format/directory_names.h"
#include "engine/format/own_documents.h"
#include "ground/base/status_macros.h"
#include "ground/json/text.h"
#include "holdfast/detail/checked_file.h"
#include "holdfast/orbax/composite_handler.h"
#include "stores/place/directory_ops.h"
#include "stores/storage/url_path.h"

namespace holdfast {
namespace {

Result<CheckpointMetadata> ReadMetadataFile(const std::string& directory) {
  const Result<std::string> text =
      ReadCheckedFile(directory + "/" + std::string(kCheckpointMetadataFile));
  // Damage to a saved file is reported; a file that was never valid is ignored.
  if (text.status().code() == StatusCode::kDataLoss) return text.status();
  Result<CheckpointMetadata> metadata =
      text.ok() ? ParseCheckpointMetadata(*text) : text.status();
  return metadata.ok() ? std::move(metadata) : CheckpointMetadata();
}

StepMetadata::ItemTypes TypesOf(const CompositeHandlers& handlers) {
  StepMetadata::ItemTypes types;
  for (const auto& [name, typestr] : handlers) types[name] = typestr;
  return types;
}

std::string ObjectText(const nlohmann::ordered_json& object) {
  return object.is_object() ? PythonJsonText(object) : "{}";
}

}  // namespace

Result<StepMetadata> ReadStepMetadataFile(const std::string& directory) {
  StepMetadata step;
  HF_ASSIGN_OR_RETURN(const CheckpointMetadata metadata,
                      ReadMetadataFile(AbsolutePath(directory)));
  if (const auto* type = std::get_if<std::string>(&metadata.item_handlers)) {
    step.item_handlers = *type;
  }
  if (const auto* types =
          std::get_if<CompositeHandlers>(&metadata.item_handlers)) {
    step.item_handlers = TypesOf(*types);
  }
  step.metrics = ObjectText(metadata.metrics);
  step.performance_metrics = ObjectText(metadata.performance_metrics);
  step.custom_metadata =
      SplitOwnDocuments(ObjectText(metadata.custom_metadata)).users;
  step.init_timestamp_ns = metadata.init_timestamp_nsecs;
  step.commit_timestamp_ns = metadata.commit_timestamp_nsecs;
  return step;
}

Result<StepLayout> GetStepLayout(const std::string& directory) {
  const Place place = Place(directory).Absolute();
  const Result<bool> is_there = LeadsToDirectory(place);
  if (!is_there.ok() || !*is_there) {
    if (place.is_remote()) HF_RETURN_IF_ERROR(is_there.status());
    return NotFoundError("Checkpoint at " + place.path() + " not found.");
  }
  HF_ASSIGN_OR_RETURN(const StepMetadata metadata,
                      ReadStepMetadataFile(place.path()));
  if (std::holds_alternative<std::string>(metadata.item_handlers)) {
    return StepLayout::kFlat;
  }
  const auto* types =
      std::get_if<StepMetadata::ItemTypes>(&metadata.item_handlers);
  const std::string default_item(kDefaultItemName);
  if (types != nullptr) {
    return types->contains(default_item) ? StepLayout::kDefaultItem
                                         : StepLayout::kComposite;
  }
  const Result<bool> has_default = LeadsToDirectory(place / default_item);
  if (has_default.ok() && *has_default) {
    return StepLayout::kDefaultItem;
  }
  HF_ASSIGN_OR_RETURN(const ItemPlace self, ClassifyItem(place));
  return self.kind == ItemKind::kUnknown ? StepLayout::kComposite
                                         : StepLayout::kFlat;
}

}  // namespace holdfast
