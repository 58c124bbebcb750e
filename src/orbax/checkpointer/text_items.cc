#include "orbax/checkpointer/text_items.h"

#include "engine/format/checkpoint_metadata.h"
#include "ground/base/status_macros.h"
#include "holdfast/detail/checked_file.h"
#include "orbax/checkpointer/args.h"
#include "orbax/checkpointer/primary.h"
#include "orbax/handlers/done_future.h"
#include "stores/place/place.h"

namespace holdfast {
namespace {

// A single file that only the primary host writes.
class TextFile {
 public:
  TextFile(std::string filename, const MultiprocessingOptions& options)
      : filename_(std::move(filename)), is_primary_(IsPrimaryHost(options)) {}

  Status Write(const std::string& directory, std::string_view text) const {
    if (!is_primary_) return Status();
    const std::shared_ptr<Store> store = Place(directory).OpenStore();
    HF_RETURN_IF_ERROR(
        store->Write(filename_, text, {.sync = false, .atomic = false}));
    return store->Flush();
  }

  std::vector<CommitFuture> WriteLater(const std::string& directory,
                                       std::string text) const {
    return {InBackground([file = *this, directory, text = std::move(text)] {
      return file.Write(directory, text);
    })};
  }

  Result<std::string> Read(const std::string& directory) const {
    Result<std::string> text = ReadCheckedFile(PathIn(directory));
    if (text.status().code() == StatusCode::kNotFound) {
      return NotFoundError("File " + directory + "/" + filename_ +
                           " not found.");
    }
    return text;
  }

  std::string PathIn(const std::string& directory) const {
    return directory + "/" + filename_;
  }

 private:
  std::string filename_;
  bool is_primary_;
};

class JsonItemHandler final : public CheckpointHandler {
 public:
  JsonItemHandler(std::string_view typestr, const JsonHandlerOptions& options)
      : typestr_(typestr),
        file_(options.filename, options.multiprocessing_options) {}

  std::string TypeStr() const override { return typestr_; }

  Status Save(const std::string& directory,
              const CheckpointArgs& args) override {
    HF_ASSIGN_OR_RETURN(const std::string text, TextOf(args));
    return file_.Write(directory, text);
  }

  Result<std::vector<CommitFuture>> AsyncSave(
      const std::string& directory, const CheckpointArgs& args) override {
    HF_ASSIGN_OR_RETURN(std::string text, TextOf(args));
    return file_.WriteLater(directory, std::move(text));
  }

  Result<Tree> Restore(const std::string& directory,
                       const CheckpointArgs* args) override {
    HF_RETURN_IF_ERROR(OptionalArgsAs<JsonRestore>(typestr_, args).status());
    HF_ASSIGN_OR_RETURN(const std::string text, file_.Read(directory));
    Result<Tree> tree = TreeOfJsonText(text);
    if (tree.ok()) return tree;
    return tree.status().WithContext(file_.PathIn(directory));
  }

 private:
  Result<std::string> TextOf(const CheckpointArgs& args) const {
    HF_ASSIGN_OR_RETURN(const JsonSave* save, ArgsAs<JsonSave>(typestr_, args));
    return JsonTextOf(save->item);
  }

  const std::string typestr_;
  const TextFile file_;
};

class ProtoItemHandler final : public CheckpointHandler {
 public:
  explicit ProtoItemHandler(const ProtoHandlerOptions& options)
      : file_(options.filename, options.multiprocessing_options) {}

  std::string TypeStr() const override {
    return std::string(kProtoHandlerTypestr);
  }

  Status Save(const std::string& directory,
              const CheckpointArgs& args) override {
    HF_ASSIGN_OR_RETURN(const ProtoSave* save,
                        ArgsAs<ProtoSave>(TypeStr(), args));
    return file_.Write(directory, save->text);
  }

  Result<std::vector<CommitFuture>> AsyncSave(
      const std::string& directory, const CheckpointArgs& args) override {
    HF_ASSIGN_OR_RETURN(const ProtoSave* save,
                        ArgsAs<ProtoSave>(TypeStr(), args));
    return file_.WriteLater(directory, save->text);
  }

  Result<Tree> Restore(const std::string& directory,
                       const CheckpointArgs* args) override {
    HF_RETURN_IF_ERROR(OptionalArgsAs<ProtoRestore>(TypeStr(), args).status());
    HF_ASSIGN_OR_RETURN(std::string text, file_.Read(directory));
    return Tree(std::move(text));
  }

 private:
  const TextFile file_;
};

}  // namespace

std::shared_ptr<CheckpointHandler> MakeJsonHandlerAs(
    std::string_view typestr, JsonHandlerOptions options) {
  return std::make_shared<JsonItemHandler>(typestr, options);
}

std::shared_ptr<CheckpointHandler> MakeJsonHandler(JsonHandlerOptions options) {
  return MakeJsonHandlerAs(kJsonHandlerTypestr, std::move(options));
}

std::shared_ptr<CheckpointHandler> MakeProtoHandler(
    ProtoHandlerOptions options) {
  return std::make_shared<ProtoItemHandler>(options);
}

}  // namespace holdfast
