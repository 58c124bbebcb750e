#include <algorithm>
#include <cassert>
#include <utility>

#include "holdfast/orbax/type_handlers.h"

namespace holdfast {
namespace {

// Returns the entries for numbers and arrays.
std::vector<TypeHandlerRegistry::Entry> ArrayEntries(
    const StandardHandlerOptions& options) {
  NumpyHandler::Options host;
  host.metadata_key = options.metadata_key;
  ArrayHandler::Options device;
  device.metadata_key = options.metadata_key;
  const auto scalar = std::make_shared<ScalarHandler>(host);
  return {
      {{"int"}, scalar},
      {{"float"}, scalar},
      {{"bytes"}, scalar},
      {{"np.number"}, scalar},
      {{"np.ndarray"}, std::make_shared<NumpyHandler>(host)},
      {{"jax.Array"}, std::make_shared<ArrayHandler>(device)},
  };
}

std::vector<TypeHandlerRegistry::Entry> StandardEntries() {
  std::vector<TypeHandlerRegistry::Entry> entries = ArrayEntries({});
  entries.push_back({{"str"}, std::make_shared<StringHandler>()});
  entries.push_back({{"placeholder"}, std::make_shared<PlaceholderHandler>()});
  return entries;
}

// Returns a match for the type and its subtypes: Python's bool is an int.
TypeHandlerRegistry::Matches MatchesSubtypes(const LeafType& type) {
  return [type](const LeafType& other) {
    return other == type || (type.name == "int" && other.name == "bool");
  };
}

Status UnknownType(std::string_view type) {
  return InvalidArgumentError("Unknown type: \"" + std::string(type) +
                              "\". Must register a TypeHandler.");
}

}  // namespace

TypeHandlerRegistry::TypeHandlerRegistry(std::vector<Entry> entries) {
  for (auto& [type, handler] : entries) {
    const Status added = Add(type, std::move(handler), {}, true);
    assert(added.ok());
    (void)added;
  }
}

Status TypeHandlerRegistry::Add(const LeafType& type,
                                std::shared_ptr<TypeHandler> handler,
                                Matches func, bool override_existing) {
  assert(handler != nullptr);
  const std::string typestr = handler->typestr();
  Row row{type, func ? std::move(func) : MatchesSubtypes(type), handler};
  const auto existing =
      std::find_if(rows_.begin(), rows_.end(),
                   [&](const Row& other) { return other.matches(type); });
  if (existing != rows_.end() && !override_existing) {
    return InvalidArgumentError("A TypeHandler for \"" + type.name +
                                "\" is already registered.");
  }
  if (existing == rows_.end() && Has(typestr) && !override_existing) {
    return InvalidArgumentError("Type \"" + type.name +
                                "\" has a `typestr` (\"" + typestr +
                                "\") which collides with that of an existing "
                                "TypeHandler.");
  }
  if (existing != rows_.end()) {
    *existing = std::move(row);
  } else {
    rows_.push_back(std::move(row));
  }
  std::erase_if(typestrs_,
                [&](const auto& entry) { return entry.first == typestr; });
  typestrs_.emplace_back(typestr, std::move(handler));
  return Status();
}

Result<std::shared_ptr<TypeHandler>> TypeHandlerRegistry::Get(
    const LeafType& type) const {
  for (const Row& row : rows_) {
    if (row.matches(type)) return row.handler;
  }
  return UnknownType(type.name);
}

Result<std::shared_ptr<TypeHandler>> TypeHandlerRegistry::Get(
    std::string_view typestr) const {
  for (const auto& [name, handler] : typestrs_) {
    if (name == typestr) return handler;
  }
  return UnknownType(typestr);
}

bool TypeHandlerRegistry::Has(const LeafType& type) const {
  return Get(type).ok();
}

bool TypeHandlerRegistry::Has(std::string_view typestr) const {
  return Get(typestr).ok();
}

std::shared_ptr<TypeHandlerRegistry> CreateTypeHandlerRegistry() {
  return CreateTypeHandlerRegistry(StandardEntries());
}

std::shared_ptr<TypeHandlerRegistry> CreateTypeHandlerRegistry(
    std::vector<TypeHandlerRegistry::Entry> entries) {
  return std::make_shared<TypeHandlerRegistry>(std::move(entries));
}

std::shared_ptr<TypeHandlerRegistry> GlobalTypeHandlerRegistry() {
  static const std::shared_ptr<TypeHandlerRegistry> registry =
      CreateTypeHandlerRegistry();
  return registry;
}

Status RegisterTypeHandler(const LeafType& type,
                           std::shared_ptr<TypeHandler> handler,
                           TypeHandlerRegistry::Matches func,
                           bool override_existing) {
  return GlobalTypeHandlerRegistry()->Add(type, std::move(handler),
                                          std::move(func), override_existing);
}

Result<std::shared_ptr<TypeHandler>> GetTypeHandler(const LeafType& type) {
  return GlobalTypeHandlerRegistry()->Get(type);
}

bool HasTypeHandler(const LeafType& type) {
  return GlobalTypeHandlerRegistry()->Has(type);
}

void RegisterStandardHandlersWithOptions(
    const StandardHandlerOptions& options) {
  for (const auto& [type, handler] : ArrayEntries(options)) {
    const Status added = RegisterTypeHandler(type, handler, {}, true);
    assert(added.ok());
    (void)added;
  }
}

}  // namespace holdfast
