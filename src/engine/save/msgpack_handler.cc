#include <memory>
#include <string>
#include <utility>

#include "engine/format/aggregate.h"
#include "engine/format/serialize_aggregate.h"
#include "ground/base/bytes.h"
#include "ground/base/status_macros.h"
#include "holdfast/detail/aggregate_handlers.h"
#include "stores/place/place.h"
#include "stores/storage/url_path.h"

namespace holdfast {
namespace {

struct FilePlace {
  std::shared_ptr<Store> store;
  std::string name;
};

FilePlace PlaceOf(const std::string& path) {
  const std::string parent = ParentDirectory(path);
  return {Place(parent.empty() ? "." : parent).OpenStore(), FileNameOf(path)};
}

}  // namespace

Status MsgpackHandler::Serialize(const std::string& path, const Tree& item) {
  HF_ASSIGN_OR_RETURN(const std::string text, SerializeAggregate(item));
  const FilePlace place = PlaceOf(path);
  return place.store->Write(place.name, text);
}

Result<Tree> MsgpackHandler::Deserialize(const std::string& path) {
  const FilePlace place = PlaceOf(path);
  const Result<Bytes> file = place.store->Read(place.name);
  if (file.status().code() == StatusCode::kNotFound) {
    return NotFoundError("Checkpoint does not exist at " + path + ".");
  }
  HF_RETURN_IF_ERROR(file.status());
  Result<Tree> tree = ParseAggregate(file->view());
  if (!tree.ok()) return tree.status().WithContext(path);
  return tree;
}

}  // namespace holdfast
