#include "orbax/pytree/handler_groups.h"

#include <typeinfo>
#include <unordered_map>
#include <utility>

#include "engine/format/directory_names.h"
#include "ground/base/status_macros.h"
#include "ground/tree/flatten.h"
#include "ground/tree/rebuild.h"
#include "ground/tree/value_type.h"
#include "orbax/pytree/messages.h"

namespace holdfast {
namespace {

// Returns the handler of each leaf type, and looks it up only once.
class HandlerOfType {
 public:
  explicit HandlerOfType(const TypeHandlerRegistry& registry)
      : registry_(registry) {}

  Result<std::shared_ptr<TypeHandler>> Get(const FlatLeaf& flat) {
    const LeafType type = LeafType::OfLeaf(*flat.leaf);
    for (const auto& [known, handler] : known_) {
      if (known == type) return handler;
    }
    Result<std::shared_ptr<TypeHandler>> handler = registry_.Get(type);
    if (!handler.ok()) {
      return InvalidArgumentError(LookupFailureText(
          {type.name, flat.path, "SaveArgs()", "a leaf of that type"}));
    }
    known_.emplace_back(type, *handler);
    return handler;
  }

 private:
  const TypeHandlerRegistry& registry_;
  std::vector<std::pair<LeafType, std::shared_ptr<TypeHandler>>> known_;
};

bool IsEmptyTree(const Tree& item) {
  return item.is_none() || item.is_empty_container();
}

// Returns whether the engine records the leaf exactly as the handler would.
bool IsForEngine(const FlatLeaf& flat, const TypeHandler& handler) {
  return flat.leaf->leaf_kind() != LeafKind::kObject &&
         IsStandardHandler(handler) && handler.typestr() == flat.value_type;
}

class Splitter {
 public:
  Splitter(const TypeHandlerRegistry& registry,
           const std::map<std::string, SaveArgs>& args, const ParamInfo& info)
      : handlers_(registry), info_(info) {
    parts_.save_args = args;
  }

  Status Add(const FlatLeaf& flat) {
    if (!flat.leaf->is_leaf() || IsEmptyValueType(flat.value_type)) {
      return Status();
    }
    HF_ASSIGN_OR_RETURN(const auto handler, handlers_.Get(flat));
    if (IsForEngine(flat, *handler)) return Status();
    AddToGroup(flat, handler);
    return Status();
  }

  SaveParts Finish(const Tree& item) {
    parts_.tree = external_.empty() ? item : RebuildWith(item, external_);
    return std::move(parts_);
  }

 private:
  SaveGroup& GroupOf(const std::shared_ptr<TypeHandler>& handler) {
    for (SaveGroup& group : parts_.groups) {
      if (group.handler == handler) return group;
    }
    return parts_.groups.emplace_back(SaveGroup{handler, {}, {}, {}});
  }

  void AddToGroup(const FlatLeaf& flat,
                  const std::shared_ptr<TypeHandler>& handler) {
    SaveGroup& group = GroupOf(handler);
    group.values.push_back(*flat.leaf);
    ParamInfo& info = group.infos.emplace_back(info_);
    info.name = ParamName(flat.path);
    info.keypath = PathOf(flat.path);
    info.value_typestr = handler->typestr();
    const auto args = parts_.save_args.find(info.name);
    SaveArgs& own = group.args.emplace_back();
    if (args != parts_.save_args.end()) {
      own = args->second;
      parts_.save_args.erase(args);
    }
    external_[flat.leaf] = Tree::External(info.value_typestr);
  }

  HandlerOfType handlers_;
  const ParamInfo& info_;
  SaveParts parts_;
  std::unordered_map<const Tree*, Tree> external_;
};

}  // namespace

bool IsStandardHandler(const TypeHandler& handler) {
  const std::type_info& type = typeid(handler);
  if (type == typeid(NumpyHandler) || type == typeid(ScalarHandler)) {
    const auto& options = static_cast<const NumpyHandler&>(handler).options();
    return !options.metadata_key && !options.ocdbt_process_id;
  }
  if (type == typeid(ArrayHandler)) {
    const auto& options = static_cast<const ArrayHandler&>(handler).options();
    return !options.metadata_key && options.enable_write_sharding_file &&
           options.enable_array_metadata;
  }
  if (type == typeid(StringHandler)) {
    return static_cast<const StringHandler&>(handler).filename() ==
           kStringsFile;
  }
  return type == typeid(PlaceholderHandler);
}

Result<SaveParts> SplitByHandler(const Tree& item,
                                 const std::map<std::string, SaveArgs>& args,
                                 const TypeHandlerRegistry& registry,
                                 const ParamInfo& info) {
  if (IsEmptyTree(item)) return InvalidArgumentError("Found empty item.");
  HF_ASSIGN_OR_RETURN(const std::vector<FlatLeaf> leaves, Flatten(item));
  Splitter splitter(registry, args, info);
  for (const FlatLeaf& leaf : leaves) HF_RETURN_IF_ERROR(splitter.Add(leaf));
  return splitter.Finish(item);
}

}  // namespace holdfast
