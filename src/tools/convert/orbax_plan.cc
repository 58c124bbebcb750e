#include "tools/convert/orbax_plan.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <utility>

#include "engine/checkpoint/opened_checkpoint.h"
#include "engine/format/own_documents.h"
#include "ground/base/status_macros.h"
#include "ground/json/text.h"
#include "tools/convert/name_set.h"
#include "tools/convert/target_plan.h"

namespace holdfast {
namespace {

std::string MetadataText(const TreeMetadata* metadata) {
  if (metadata == nullptr || metadata->custom_metadata.is_null()) return "";
  return PythonJsonText(metadata->custom_metadata);
}

std::string DocumentsText(const TreeMetadata* metadata) {
  if (metadata == nullptr || metadata->documents.is_null()) return "";
  return PythonJsonText(metadata->documents);
}

CopiedLeaf CopyOf(size_t number, const LeafInfo& info) {
  CopiedLeaf leaf;
  leaf.source = number;
  leaf.key = info.key;
  leaf.kind = info.kind;
  leaf.dtype = info.dtype;
  leaf.shape = info.shape;
  return leaf;
}

class Planner {
 public:
  Planner(const Checkpoint& source, const ConvertOptions& options,
          const ReferredArrays* referred)
      : source_(source),
        options_(options),
        referred_(referred),
        has_item_names_(source.info().items.size() > 1) {}

  Result<OrbaxPlan> Plan() {
    ChooseFormat();
    const auto* orbax = dynamic_cast<const OpenedCheckpoint*>(&source_);
    if (orbax != nullptr && options_.map.is_empty()) {
      HF_RETURN_IF_ERROR(PlanAsItIs(*orbax));
    } else {
      HF_RETURN_IF_ERROR(PlanMapped(orbax));
    }
    return std::move(plan_);
  }

 private:
  void ChooseFormat() {
    const CheckpointInfo& info = source_.info();
    const bool is_orbax = info.format.starts_with("orbax");
    plan_.format = options_.format.value_or(
        info.format == "orbax-v1" ? Format::kOrbaxV1 : Format::kOrbax);
    plan_.zarr_format = options_.zarr_format.value_or(
        is_orbax && info.zarr_format != 0 ? info.zarr_format : 2);
    plan_.use_ocdbt = options_.use_ocdbt.value_or(!is_orbax || info.use_ocdbt ||
                                                  info.zarr_format == 0);
  }

  ItemTreeOptions TreeOptions() const {
    return {options_.sharding, options_.use_replica_parallel, referred_};
  }

  Status PlaceItems(const std::vector<SourceItem>& items) {
    HF_ASSIGN_OR_RETURN(TargetLayout layout,
                        MakeTargetLayout(source_.info(), items, plan_.format));
    plan_.root = std::move(layout.root);
    plan_.items.resize(items.size());
    for (size_t i = 0; i < items.size(); ++i) {
      plan_.items[i].place = std::move(layout.items[i]);
    }
    return Status();
  }

  // Keys start with the item's name if there are several items.
  void AddItemName(size_t item, CopiedLeaf& leaf) const {
    if (plan_.items.size() > 1) {
      leaf.key.insert(leaf.key.begin(), plan_.items[item].place.name);
    }
  }

  Status PlanAsItIs(const OpenedCheckpoint& orbax) {
    NameSet names(options_.names);
    std::vector<std::vector<size_t>> wanted;
    std::vector<const Item*> items;
    for (size_t i = 0; i < orbax.leaves().size(); ++i) {
      if (!names.Selects(orbax.leaves()[i].name)) continue;
      const Item* item = orbax.StoredLeafAt(i).first;
      if (items.empty() || items.back() != item) {
        items.push_back(item);
        wanted.emplace_back();
      }
      wanted.back().push_back(i);
    }
    if (const std::string* unused = names.FirstUnused()) {
      return NotFoundError("no leaf is named \"" + *unused +
                           "\" or lies below it");
    }
    if (items.empty()) {
      return InvalidArgumentError("convert: " + source_.info().path +
                                  " has no leaves");
    }
    std::vector<SourceItem> places;
    for (const Item* item : items) {
      const ItemPlace& place = item->place();
      places.push_back(
          {place.name, place.kind == ItemKind::kJson, place.json_file});
    }
    HF_RETURN_IF_ERROR(PlaceItems(places));
    for (size_t i = 0; i < items.size(); ++i) {
      HF_RETURN_IF_ERROR(FillItem(orbax, *items[i], wanted[i], i));
    }
    return Status();
  }

  Status FillItem(const OpenedCheckpoint& orbax, const Item& item,
                  const std::vector<size_t>& leaves, size_t number) {
    PlannedItem& planned = plan_.items[number];
    for (const size_t i : leaves) {
      CopiedLeaf& leaf =
          planned.leaves.emplace_back(CopyOf(i, source_.leaves()[i]));
      if (has_item_names_) leaf.key.erase(leaf.key.begin());
      AddItemName(number, leaf);
    }
    if (!planned.place.json_file.empty()) {
      HF_ASSIGN_OR_RETURN(planned.text, source_.ReadText(leaves[0]));
      return Status();
    }
    HF_ASSIGN_OR_RETURN(planned.tree,
                        MakeItemTree(orbax, leaves, TreeOptions()));
    const TreeMetadata* metadata = item.tree_metadata();
    planned.item_custom_metadata = MetadataText(metadata);
    planned.item_documents = DocumentsText(metadata);
    // The metadata tree describes the complete tree, so it is kept only if all
    // leaves are.
    if (metadata != nullptr && options_.names.empty()) {
      planned.value_metadata_tree = metadata->value_metadata_tree.value_or("");
    }
    return Status();
  }

  struct MappedItem {
    SourceItem place;
    std::vector<const TargetLeaf*> leaves;
  };

  Status PlanMapped(const OpenedCheckpoint* orbax) {
    HF_ASSIGN_OR_RETURN(
        MappedLeaves mapped,
        MapLeaves(source_.leaves(), options_.names, options_.map));
    TargetPlan texts;
    texts.leaves = std::move(mapped.leaves);
    HF_RETURN_IF_ERROR(FillTexts(source_, texts));
    plan_.report = std::move(mapped.report);
    const std::vector<MappedItem> items = ItemsOf(texts.leaves);
    std::vector<SourceItem> places;
    for (const MappedItem& item : items) places.push_back(item.place);
    HF_RETURN_IF_ERROR(PlaceItems(places));
    for (size_t i = 0; i < items.size(); ++i) {
      HF_RETURN_IF_ERROR(FillMapped(items[i], orbax, i));
    }
    return Status();
  }

  std::vector<MappedItem> ItemsOf(const std::vector<TargetLeaf>& leaves) const {
    const auto& stored = source_.info().items;
    const std::string only = stored.size() == 1 ? stored.begin()->first : "";
    std::vector<MappedItem> items;
    std::unordered_map<std::string, size_t> by_name;
    for (const TargetLeaf& leaf : leaves) {
      const std::string name =
          has_item_names_ && !leaf.key.empty() ? leaf.key[0] : only;
      const auto [found, is_new] = by_name.emplace(name, items.size());
      if (is_new) items.push_back({{name, false, ""}, {}});
      MappedItem& item = items[found->second];
      item.leaves.push_back(&leaf);
      const size_t name_count = has_item_names_ ? 1 : 0;
      item.place.is_json = leaf.kind == ValueKind::kJson &&
                           item.leaves.size() == 1 &&
                           leaf.key.size() == name_count;
    }
    return items;
  }

  Status FillMapped(const MappedItem& item, const OpenedCheckpoint* orbax,
                    size_t number) {
    PlannedItem& planned = plan_.items[number];
    std::vector<MappedLeaf> leaves;
    for (const TargetLeaf* leaf : item.leaves) {
      MappedLeaf& mapped = leaves.emplace_back(MappedLeaf{leaf, {}});
      CopiedLeaf copy = CopyOf(leaf->source, source_.leaves()[leaf->source]);
      copy.key.clear();
      for (size_t i = has_item_names_; i < leaf->key.size(); ++i) {
        mapped.path.push_back({leaf->key[i], leaf->key_kinds[i]});
        copy.key.push_back(leaf->key[i]);
      }
      if (leaf->kind == ValueKind::kArray) copy.dtype = leaf->dtype;
      AddItemName(number, copy);
      planned.leaves.push_back(std::move(copy));
    }
    if (!planned.place.json_file.empty()) {
      planned.text = item.leaves[0]->text;
      return Status();
    }
    HF_ASSIGN_OR_RETURN(planned.tree,
                        MakeMappedTree(source_, leaves, TreeOptions()));
    HF_RETURN_IF_ERROR(FillMetadata(item.place.name, orbax, planned));
    for (const SidecarLeaf& leaf : planned.tree.sidecar) {
      const bool is_array = leaf.kind == ValueKind::kArray;
      std::string name;
      for (const std::string& key : leaf.key) {
        name += (name.empty() ? "" : ".") + key;
      }
      plan_.report.notes.push_back(
          name + (is_array ? ": has no elements, so that only the sidecar "
                             "has it"
                           : ": its bytes are an array of uint8; the sidecar "
                             "has its kind"));
    }
    return Status();
  }

  Status FillMetadata(const std::string& item_name,
                      const OpenedCheckpoint* orbax, PlannedItem& planned) {
    planned.item_custom_metadata = source_.info().item_custom_metadata;
    planned.item_documents =
        WithTreeDocuments("", source_.info().item_documents);
    if (orbax != nullptr) {
      for (const auto& item : orbax->items()) {
        if (item->place().name != item_name) continue;
        planned.item_custom_metadata = MetadataText(item->tree_metadata());
        planned.item_documents =
            WithTreeDocuments("", DocumentsText(item->tree_metadata()));
      }
    } else if (options_.map.is_empty() && options_.names.empty()) {
      planned.value_metadata_tree = source_.info().value_metadata_tree;
    }
    return AddSidecar(planned);
  }

  // Adds the source's result id if the new checkpoint keeps the source's
  // complete content, which the id identifies.
  void AddResultId(nlohmann::ordered_json& documents) {
    const std::string& id = source_.info().result_id;
    const bool is_whole = options_.map.is_empty() && options_.names.empty() &&
                          !options_.recipe && source_.info().items.size() <= 1;
    if (id.empty() || !is_whole) return;
    documents[std::string(kResultIdKey)] = id;
    plan_.result_id = id;
  }

  Status AddSidecar(PlannedItem& planned) {
    nlohmann::ordered_json documents;
    if (!planned.item_documents.empty()) {
      HF_ASSIGN_OR_RETURN(documents, ParseJsonText(planned.item_documents));
    }
    if (!planned.tree.sidecar.empty()) {
      TreeSidecar sidecar;
      sidecar.is_partial = true;
      sidecar.leaves = planned.tree.sidecar;
      HF_ASSIGN_OR_RETURN(documents[std::string(kSidecarKey)],
                          ParseJsonText(SidecarText(sidecar)));
    }
    AddResultId(documents);
    planned.item_documents =
        documents.is_null() ? "" : PythonJsonText(documents);
    return Status();
  }

  const Checkpoint& source_;
  const ConvertOptions& options_;
  const ReferredArrays* const referred_;
  const bool has_item_names_;
  OrbaxPlan plan_;
};

}  // namespace

Result<OrbaxPlan> MakeOrbaxPlan(const Checkpoint& source,
                                const ConvertOptions& options,
                                const ReferredArrays* referred) {
  return Planner(source, options, referred).Plan();
}

}  // namespace holdfast
