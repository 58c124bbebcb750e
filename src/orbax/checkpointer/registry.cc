// Maps arguments to their handlers: the process's registrations, and
// CheckpointHandlerRegistry.
#include <algorithm>
#include <mutex>

#include "ground/base/status_macros.h"
#include "ground/base/type_name.h"
#include "holdfast/orbax/checkpoint_handler.h"
#include "orbax/checkpointer/standard_types.h"

namespace holdfast {
namespace {

constexpr std::string_view kNewNames = "orbax.checkpoint.v0._src.";
constexpr std::string_view kOldNames = "orbax.checkpoint._src.";

struct Registration {
  CheckpointArgsType args;
  std::string typestr;
  bool for_save = false;
  bool for_restore = false;
  bool is_alias = false;  // as in StandardType
};

class GlobalRegistrations {
 public:
  GlobalRegistrations() {
    for (const StandardType& type : StandardTypes()) {
      types_.push_back(type.handler);
      rows_.push_back(
          {type.save, type.handler.typestr, true, false, type.is_alias});
      rows_.push_back(
          {type.restore, type.handler.typestr, false, true, type.is_alias});
    }
  }

  Status Add(const CheckpointArgsType& args, const CheckpointHandlerType& type,
             bool for_save, bool for_restore) {
    const std::lock_guard lock(mutex_);
    const CheckpointHandlerType* known = Find(type.typestr);
    if (known == nullptr) {
      types_.push_back(type);
    } else if (known->make.target_type() != type.make.target_type()) {
      return InvalidArgumentError("Handler type " + type.typestr +
                                  " is registered for another handler");
    }
    rows_.push_back({args, type.typestr, for_save, for_restore});
    return Status();
  }

  Result<CheckpointHandlerType> OfArgs(std::type_index args) const {
    const std::lock_guard lock(mutex_);
    // A registration for saving is preferred. Among equals, the latest counts.
    const Registration* found = nullptr;
    for (const Registration& row : rows_) {
      if (row.is_alias || row.args.type != args) continue;
      if (found == nullptr || row.for_save || !found->for_save) found = &row;
    }
    if (found != nullptr) return *Find(found->typestr);
    return InvalidArgumentError(
        "Unable to find registered `CheckpointHandler` for " +
        CppTypeName(args) + ". Use `register_with_handler`.");
  }

  Result<CheckpointHandlerType> OfTypestr(std::string_view typestr) const {
    const std::lock_guard lock(mutex_);
    const CheckpointHandlerType* type = Find(typestr);
    if (type != nullptr) return *type;
    return NotFoundError("no handler is registered for the type " +
                         std::string(typestr));
  }

  Result<RegisteredArgs> ArgsOf(std::string_view typestr) const {
    const std::lock_guard lock(mutex_);
    const CheckpointHandlerType* type = Find(typestr);
    RegisteredArgs args;
    const Registration* save = nullptr;
    const Registration* restore = nullptr;
    for (const Registration& row : rows_) {
      if (type == nullptr || row.typestr != type->typestr) continue;
      if (row.for_save && save == nullptr) save = &row;
      if (row.for_restore && restore == nullptr) restore = &row;
    }
    if (save == nullptr || restore == nullptr) {
      return InvalidArgumentError(
          "Unable to find registered `CheckpointArgs` for " +
          std::string(save == nullptr ? "save" : "restore") + " for " +
          std::string(typestr) + ".");
    }
    return RegisteredArgs{save->args, restore->args};
  }

 private:
  const CheckpointHandlerType* Find(std::string_view typestr) const {
    std::string name(typestr);
    if (typestr.starts_with(kNewNames)) {
      name = std::string(kOldNames) +
             std::string(typestr.substr(kNewNames.size()));
    }
    for (const CheckpointHandlerType& type : types_) {
      if (type.typestr == typestr || type.typestr == name) return &type;
    }
    return nullptr;
  }

  mutable std::mutex mutex_;
  std::vector<CheckpointHandlerType> types_;
  std::vector<Registration> rows_;
};

GlobalRegistrations& Registrations() {
  static GlobalRegistrations registrations;
  return registrations;
}

std::string EntryText(const std::optional<std::string>& item,
                      std::string_view args_name, std::type_index args) {
  return "item=" + item.value_or("None") + " and " + std::string(args_name) +
         "=" + CppTypeName(args);
}

Result<std::shared_ptr<CheckpointHandler>> MakeRegistered(
    const std::optional<std::string>& item, std::type_index args) {
  const std::string start =
      "Provided a `None` `CheckpointHandler` when registering " +
      EntryText(item, "args_type", args) + ". ";
  const Result<CheckpointHandlerType> type = RegisteredHandlerType(args);
  if (!type.ok()) {
    return InvalidArgumentError(
        start +
        "Unable to find a globally registered handler for the given args type. "
        "Provide a `handler` or ensure the args type corresponds to a globally "
        "registered handler.");
  }
  if (!type->make) {
    return InvalidArgumentError(
        start +
        "The globally-registered handler for this args type is not "
        "default-constructible. Please a `handler` when adding this args type "
        "to the registry.");
  }
  return type->make();
}

}  // namespace

Status RegisterCheckpointArgs(const CheckpointArgsType& args,
                              const CheckpointHandlerType& handler,
                              bool for_save, bool for_restore) {
  if (!for_save && !for_restore) {
    return InvalidArgumentError(
        "`for_save` and `for_restore` cannot both be False.");
  }
  return Registrations().Add(args, handler, for_save, for_restore);
}

Result<CheckpointHandlerType> RegisteredHandlerType(std::type_index args) {
  return Registrations().OfArgs(args);
}

Result<CheckpointHandlerType> HandlerTypeOf(std::string_view typestr) {
  return Registrations().OfTypestr(typestr);
}

Result<RegisteredArgs> RegisteredArgsOf(std::string_view typestr) {
  return Registrations().ArgsOf(typestr);
}

Status CheckpointHandlerRegistry::Add(
    std::optional<std::string> item, std::type_index args,
    std::shared_ptr<CheckpointHandler> handler) {
  if (Has(item, args)) {
    return AlreadyExistsError("Entry for " +
                              EntryText(item, "args_type", args) +
                              " already exists in the registry.");
  }
  if (handler == nullptr) {
    HF_ASSIGN_OR_RETURN(handler, MakeRegistered(item, args));
  }
  entries_.emplace_back(Key(std::move(item), args), std::move(handler));
  return Status();
}

Result<std::shared_ptr<CheckpointHandler>> CheckpointHandlerRegistry::Get(
    const std::optional<std::string>& item, std::type_index args) const {
  for (const auto& [key, handler] : entries_) {
    if (key.first == item && key.second == args) return handler;
  }
  return NotFoundError("No entry for " + EntryText(item, "args_ty", args) +
                       " in the registry.");
}

bool CheckpointHandlerRegistry::Has(const std::optional<std::string>& item,
                                    std::type_index args) const {
  return std::any_of(entries_.begin(), entries_.end(), [&](const auto& entry) {
    return entry.first.first == item && entry.first.second == args;
  });
}

Result<CheckpointHandlerRegistry> CreateDefaultHandlerRegistry(
    const std::map<std::string, std::shared_ptr<CheckpointHandler>>& items) {
  CheckpointHandlerRegistry registry;
  for (const auto& [item, handler] : items) {
    HF_ASSIGN_OR_RETURN(const RegisteredArgs args,
                        RegisteredArgsOf(handler->TypeStr()));
    HF_RETURN_IF_ERROR(registry.Add(item, args.save.type, handler));
    if (args.restore.type != args.save.type) {
      HF_RETURN_IF_ERROR(registry.Add(item, args.restore.type, handler));
    }
  }
  return registry;
}

}  // namespace holdfast
