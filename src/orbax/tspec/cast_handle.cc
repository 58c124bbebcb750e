#include <utility>

#include "ground/base/status_macros.h"
#include "ground/tensor/copy.h"
#include "orbax/tspec/handles.h"
#include "orbax/tspec/spec_json.h"

namespace holdfast::spec {
namespace {

class CastHandle final : public SpecHandle {
 public:
  CastHandle(std::unique_ptr<SpecHandle> base, DType dtype)
      : base_(std::move(base)), dtype_(dtype) {}

  const std::string& driver() const override { return driver_; }
  DType dtype() const override { return dtype_; }
  const Shape& shape() const override { return base_->shape(); }
  const Shape& read_chunk_shape() const override {
    return base_->read_chunk_shape();
  }
  const Shape& write_chunk_shape() const override {
    return base_->write_chunk_shape();
  }

  std::string spec_json() const override {
    OrderedJson json = OrderedJson::object();
    json["base"] = OrderedJson::parse(base_->spec_json());
    json["driver"] = driver_;
    json["dtype"] = ToJson(dtype_);
    return Dump(json);
  }

  Result<Array> Read(const Shape& origin, const Shape& shape) const override {
    HF_ASSIGN_OR_RETURN(Array stored, base_->Read(origin, shape));
    if (base_->dtype() == dtype_) return stored;
    HF_ASSIGN_OR_RETURN(Array cast, Array::Allocate(dtype_, shape));
    ConvertStrided(stored.view(), cast.mutable_view());
    return cast;
  }

  Status ReadInto(const Shape& origin, const ArrayView& target) const override {
    // The elements are first converted to the cast's dtype, and then to the
    // target's.
    if (target.dtype == dtype_) return base_->ReadInto(origin, target);
    HF_ASSIGN_OR_RETURN(const Array cast, Read(origin, target.shape));
    ConvertStrided(cast.view(), target);
    return Status();
  }

  Status Write(const Shape& origin, const ConstArrayView& source) override {
    if (source.dtype == dtype_) return base_->Write(origin, source);
    HF_ASSIGN_OR_RETURN(Array cast, Array::Allocate(dtype_, source.shape));
    ConvertStrided(source, cast.mutable_view());
    return base_->Write(origin, cast.view());
  }

  Result<std::string> ReadJson() const override { return base_->ReadJson(); }
  Status WriteJson(std::string_view text) override {
    return base_->WriteJson(text);
  }
  Status Commit() override { return base_->Commit(); }

 private:
  const std::unique_ptr<SpecHandle> base_;
  const DType dtype_;
  const std::string driver_ = "cast";
};

}  // namespace

std::unique_ptr<SpecHandle> MakeCast(std::unique_ptr<SpecHandle> base,
                                     DType dtype) {
  return std::make_unique<CastHandle>(std::move(base), dtype);
}

}  // namespace holdfast::spec
