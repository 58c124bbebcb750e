#include <mutex>
#include <utility>

#include "engine/restore/restore.h"
#include "formats/zarr/format/chunk_key.h"
#include "formats/zarr/read_plan.h"
#include "ground/base/cancel.h"
#include "ground/base/executor.h"
#include "ground/base/status_macros.h"
#include "ground/tensor/copy.h"
#include "orbax/tspec/handles.h"
#include "orbax/tspec/spec_json.h"

namespace holdfast::spec {
namespace {

std::string DriverOfFormat(int zarr_format) {
  return std::string(zarr_format == 3 ? kZarrVer3 : kZarrVer2);
}

// An array of a spec. The handle is also the ArrayHome of its array, and gives
// failures TensorStore's messages.
class ZarrHandle final : public SpecHandle, private ArrayHome {
 public:
  ZarrHandle(OpenedKvStore kvstore, OrderedJson kvstore_json, zarr::Array array,
             std::shared_ptr<const ArrayLayout> layout, bool refuses_missing,
             const OpenSpecOptions& options)
      : kvstore_(std::move(kvstore)),
        kvstore_json_(std::move(kvstore_json)),
        array_(std::move(array)),
        layout_(std::move(layout)),
        refuses_missing_(refuses_missing),
        driver_(DriverOfFormat(array_.metadata().zarr_format)),
        run_options_(options.context.run_options()),
        cancel_(options.cancel) {
    run_options_.cancel = options.cancel;
    const auto& sharding = array_.metadata().sharding;
    read_chunk_shape_ =
        sharding ? sharding->chunk_shape : array_.metadata().chunk_shape;
  }

  const std::string& driver() const override { return driver_; }
  DType dtype() const override { return array_.dtype(); }
  const Shape& shape() const override { return array_.shape(); }
  const Shape& read_chunk_shape() const override { return read_chunk_shape_; }
  const Shape& write_chunk_shape() const override {
    return array_.metadata().chunk_shape;
  }

  std::string spec_json() const override {
    OrderedJson json = OrderedJson::object();
    json["driver"] = driver_;
    json["dtype"] = ToJson(dtype());
    json["kvstore"] = kvstore_json_;
    const Result<std::string> text = zarr::SerializeMetadata(array_.metadata());
    if (text.ok()) json["metadata"] = OrderedJson::parse(*text);
    return Dump(json);
  }

  Result<Array> Read(const Shape& origin, const Shape& shape) const override {
    HF_RETURN_IF_ERROR(CheckBox(origin, shape));
    HF_ASSIGN_OR_RETURN(Array array, Array::Allocate(dtype(), shape));
    HF_RETURN_IF_ERROR(ReadInto(origin, array.mutable_view()));
    return array;
  }

  Status ReadInto(const Shape& origin, const ArrayView& target) const override {
    HF_RETURN_IF_ERROR(CheckBox(origin, target.shape));
    if (ElementCount(target.shape) == 0) return Status();
    Run run(run_options_, array_store().requests_in_flight());
    HF_ASSIGN_OR_RETURN(
        RestorePlan plan,
        PlanRestore(
            {{this, {"", kvstore_.prefix, layout_.get()}, origin, target}},
            run));
    Stats stats;
    return Restore(std::move(plan), run, stats);
  }

  Status Write(const Shape& origin, const ConstArrayView& source) override {
    HF_RETURN_IF_ERROR(CheckBox(origin, source.shape));
    const Box box{origin, source.shape};
    if (source.dtype == dtype()) {
      return array_.Write(box, source, &executor(), &cancel_);
    }
    HF_ASSIGN_OR_RETURN(Array stored, Array::Allocate(dtype(), source.shape));
    ConvertStrided(source, stored.mutable_view());
    return array_.Write(box, stored.view(), &executor(), &cancel_);
  }

  Result<std::string> ReadJson() const override { return NoJson(); }
  Status WriteJson(std::string_view) override { return NoJson(); }
  Status Commit() override { return kvstore_.commit(); }

 private:
  Store& array_store() const override { return *kvstore_.store; }
  ByteCheck byte_check() const override { return ByteCheck::kByCodecAlone; }
  bool refuses_missing_chunks() const override { return refuses_missing_; }
  std::optional<Status> Explain(const ReadableArray& array,
                                std::string_view key,
                                const Status& failure) const override {
    const auto index =
        zarr::ParseChunkKey(array_.metadata(), key.substr(array.prefix.size()));
    if (failure.code() != StatusCode::kNotFound || !index) return failure;
    return failure.WithContext(
        zarr::DescribeChunk(*index, array_store().Describe(key)) +
        " is missing");
  }

  Status NoJson() const {
    return InvalidArgumentError("driver \"" + driver_ + "\" holds no JSON");
  }

  // Checks the box before memory is allocated for it, because the caller
  // chooses its shape.
  Status CheckBox(const Shape& origin, const Shape& shape) const {
    const Shape& whole = array_.shape();
    bool inside = origin.size() == whole.size() && shape.size() == whole.size();
    for (size_t i = 0; inside && i < whole.size(); ++i) {
      inside = origin[i] >= 0 && shape[i] >= 0 && shape[i] <= whole[i] &&
               origin[i] <= whole[i] - shape[i];
    }
    if (inside) return Status();
    return OutOfRangeError("box of shape " + ShapeToString(shape) + " at " +
                           ShapeToString(origin) +
                           " is not within the array's shape " +
                           ShapeToString(whole));
  }

  // Returns the executor. Its threads start with the first write.
  Executor& executor() const {
    std::call_once(executor_once_, [this] {
      executor_ = std::make_unique<Executor>(run_options_.threads);
    });
    return *executor_;
  }

  const OpenedKvStore kvstore_;
  const OrderedJson kvstore_json_;
  const zarr::Array array_;
  const std::shared_ptr<const ArrayLayout> layout_;
  const bool refuses_missing_;
  const std::string driver_;
  RunOptions run_options_;
  const CancelToken cancel_;
  Shape read_chunk_shape_;
  mutable std::once_flag executor_once_;
  mutable std::unique_ptr<Executor> executor_;
};

class ZarrOpener {
 public:
  ZarrOpener(const ZarrSpec& spec, const OpenedKvStore& kvstore)
      : spec_(spec), kvstore_(kvstore) {
    array_options_.metadata_key =
        spec.metadata_key.empty()
            ? std::string(zarr::MetadataKey(spec.constraints.zarr_format))
            : spec.metadata_key;
    array_options_.store_data_equal_to_fill_value =
        spec.store_data_equal_to_fill_value;
    array_options_.write = kvstore.write;
  }

  Result<zarr::Array> Run() const {
    if (spec_.mode.assume_metadata) return Assume();
    // CheckMode allows delete_existing only without `open`, so Create follows.
    if (spec_.mode.delete_existing) HF_RETURN_IF_ERROR(DeleteAll());
    if (spec_.mode.open) {
      Result<zarr::Array> array = Open();
      const bool absent = array.status().code() == StatusCode::kNotFound;
      if (!absent || !spec_.mode.create) return array;
    }
    return Create();
  }

 private:
  std::string MetadataKey() const {
    return kvstore_.prefix + array_options_.metadata_key;
  }

  Result<zarr::Array> Assume() const {
    HF_ASSIGN_OR_RETURN(const zarr::ArrayMetadata metadata,
                        CompleteMetadata(spec_.constraints));
    return zarr::Array::Assume(kvstore_.store.get(), kvstore_.prefix, metadata,
                               array_options_);
  }

  Result<zarr::Array> Open() const {
    Store& store = *kvstore_.store;
    const std::string key = MetadataKey();
    const Result<Bytes> text = store.Read(key);
    if (text.status().code() == StatusCode::kNotFound) {
      return NotFoundError("Metadata at \"" + store.Describe(key) +
                           "\" does not exist");
    }
    HF_RETURN_IF_ERROR(text.status());
    Result<zarr::ArrayMetadata> metadata = spec_.constraints.zarr_format == 3
                                               ? zarr::ParseV3(text->view())
                                               : zarr::ParseV2(text->view());
    if (!metadata.ok()) {
      return metadata.status().WithContext("Error reading \"" +
                                           store.Describe(key) + "\"");
    }
    HF_RETURN_IF_ERROR(CheckStored(spec_.constraints, text->view(), *metadata));
    return zarr::Array::Assume(&store, kvstore_.prefix, *metadata,
                               array_options_);
  }

  Result<zarr::Array> Create() const {
    HF_ASSIGN_OR_RETURN(const zarr::ArrayMetadata metadata,
                        CompleteMetadata(spec_.constraints));
    return zarr::Array::Create(kvstore_.store.get(), kvstore_.prefix, metadata,
                               array_options_);
  }

  Status DeleteAll() const {
    std::vector<std::string> keys;
    HF_RETURN_IF_ERROR(kvstore_.store->List(
        kvstore_.prefix, [&](std::string_view key, const ObjectInfo&) {
          keys.emplace_back(key);
          return Status();
        }));
    // Deleted after the listing, because a store may skip keys if others vanish
    // meanwhile.
    for (const std::string& key : keys) {
      HF_RETURN_IF_ERROR(kvstore_.store->Delete(key));
    }
    return Status();
  }

  const ZarrSpec& spec_;
  const OpenedKvStore& kvstore_;
  zarr::ArrayOptions array_options_;
};

}  // namespace

Result<OpenMode> CheckMode(const std::optional<bool>& open,
                           const std::optional<bool>& create,
                           bool delete_existing, bool assume_metadata) {
  OpenMode mode;
  mode.create = create.value_or(false);
  mode.open = open.value_or(!mode.create);
  mode.delete_existing = delete_existing;
  mode.assume_metadata = assume_metadata;
  const auto refused = [](const char* why) {
    return InvalidArgumentError("Cannot specify an open mode of " +
                                std::string(why));
  };
  if (delete_existing && !mode.create) {
    return refused("`delete_existing` without `create`");
  }
  if (delete_existing && mode.open) {
    return refused("`delete_existing` with `open`");
  }
  if (assume_metadata && !mode.open) {
    return refused("`assume_metadata` without `open`");
  }
  return mode;
}

Result<std::unique_ptr<SpecHandle>> OpenZarr(const ZarrSpec& spec,
                                             const OpenSpecOptions& options) {
  HF_ASSIGN_OR_RETURN(OpenedKvStore kvstore, OpenStore(spec.kvstore, options));
  Result<zarr::Array> array = ZarrOpener(spec, kvstore).Run();
  if (!array.ok()) {
    // Array::Create already adds this to its failures.
    const std::string context = "Error opening \"" +
                                DriverOfFormat(spec.constraints.zarr_format) +
                                "\" driver";
    if (array.status().message().starts_with(context)) return array.status();
    return array.status().WithContext(context);
  }
  const bool refuses_missing = !spec.fill_missing_data_reads;
  HF_ASSIGN_OR_RETURN(std::shared_ptr<const ArrayLayout> layout,
                      MakeArrayLayout(array->metadata(),
                                      refuses_missing ? MissingChunks::kRefuse
                                                      : MissingChunks::kFill));
  return std::unique_ptr<SpecHandle>(std::make_unique<ZarrHandle>(
      std::move(kvstore), spec.kvstore.ToJson(), *std::move(array),
      std::move(layout), refuses_missing, options));
}

}  // namespace holdfast::spec
