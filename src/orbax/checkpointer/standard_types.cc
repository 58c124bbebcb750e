#include "orbax/checkpointer/standard_types.h"

#include <cassert>

#include "engine/format/checkpoint_metadata.h"
#include "holdfast/orbax/item_handlers.h"
#include "orbax/checkpointer/text_items.h"

namespace holdfast {
namespace {

using StandardHandlerPtr = std::shared_ptr<CheckpointHandler>;

StandardHandlerPtr Made(Result<StandardHandlerPtr> handler) {
  assert(handler.ok());
  return std::move(handler).value();
}

template <typename Save, typename Restore, typename Make>
StandardType Type(std::string_view typestr, Make make) {
  return {{std::string(typestr), make},
          CheckpointArgsType::Of<Save>(),
          CheckpointArgsType::Of<Restore>()};
}

template <typename Save, typename Restore, typename Make>
StandardType Alias(std::string_view typestr, Make make) {
  StandardType type = Type<Save, Restore>(typestr, make);
  type.is_alias = true;
  return type;
}

}  // namespace

std::vector<StandardType> StandardTypes() {
  return {
      Type<PyTreeSave, PyTreeRestore>(kPyTreeHandlerTypestr,
                                      [] { return Made(MakePyTreeHandler()); }),
      Type<StandardSave, StandardRestore>(
          kStandardHandlerTypestr, [] { return Made(MakeStandardHandler()); }),
      Type<JsonSave, JsonRestore>(kJsonHandlerTypestr,
                                  [] { return MakeJsonHandler(); }),
      Type<ArraySave, ArrayRestore>(kArrayHandlerTypestr,
                                    [] { return Made(MakeArrayHandler()); }),
      Type<ProtoSave, ProtoRestore>(kProtoHandlerTypestr,
                                    [] { return MakeProtoHandler(); }),
      Type<JaxRandomKeySave, JaxRandomKeyRestore>(
          kJaxRandomKeyHandlerTypestr,
          [] { return Made(MakeJaxRandomKeyHandler()); }),
      Type<NumpyRandomKeySave, NumpyRandomKeyRestore>(
          kNumpyRandomKeyHandlerTypestr,
          [] { return Made(MakeNumpyRandomKeyHandler()); }),
      Alias<PyTreeSave, PyTreeRestore>(
          kV1PyTreeHandlerTypestr, [] { return Made(MakePyTreeHandler()); }),
      Alias<JsonSave, JsonRestore>(kV1JsonHandlerTypestr,
                                   [] {
                                     return MakeJsonHandlerAs(
                                         kV1JsonHandlerTypestr,
                                         {.filename = "data.json"});
                                   }),
      Alias<JsonSave, JsonRestore>(kV1MetricsHandlerTypestr,
                                   [] {
                                     return MakeJsonHandlerAs(
                                         kV1MetricsHandlerTypestr,
                                         {.filename = "metrics"});
                                   }),
      Alias<ProtoSave, ProtoRestore>(kV1ProtoHandlerTypestr,
                                     [] { return MakeProtoHandler(); }),
  };
}

}  // namespace holdfast
