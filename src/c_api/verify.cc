// The verifying functions of the C API.

#include <utility>

#include "c_api/guard.h"
#include "c_api/open_options.h"
#include "c_api/structs.h"
#include "ground/base/status_macros.h"
#include "holdfast/c/holdfast.h"
#include "holdfast/checkpoint.h"

struct holdfast_report {
  holdfast::VerifyReport report;
};

namespace holdfast {

Result<OpenOptions> OpenOptionsFrom(const holdfast_open_options* options) {
  HF_ASSIGN_OR_RETURN(const holdfast_open_options given, ReadOptions(options));
  OpenOptions result;
  if (given.has_step != 0) result.step = given.step;
  if (given.item != nullptr) result.item = given.item;
  result.verify = given.skip_checksums == 0;
  return result;
}

namespace {

holdfast_damage DamageOf(const Damage& damage) {
  holdfast_damage result{};
  result.leaf = damage.leaf.c_str();
  result.file = damage.file.c_str();
  result.has_offset = damage.offset.has_value() ? 1 : 0;
  result.offset = damage.offset.value_or(0);
  result.code = static_cast<holdfast_code>(damage.status.code());
  result.message = damage.status.ok() ? "" : damage.status.message().data();
  return result;
}

}  // namespace
}  // namespace holdfast

using holdfast::Guard;
using holdfast::NotNull;
using holdfast::Status;

holdfast_code holdfast_verify(const char* path,
                              const holdfast_open_options* options,
                              holdfast_report** report) {
  return Guard([&]() -> Status {
    HF_RETURN_IF_ERROR(NotNull(path, "path"));
    HF_RETURN_IF_ERROR(NotNull(report, "report"));
    HF_ASSIGN_OR_RETURN(const holdfast::OpenOptions open_options,
                        holdfast::OpenOptionsFrom(options));
    HF_ASSIGN_OR_RETURN(auto found, holdfast::Verify(path, open_options));
    *report = new holdfast_report{std::move(found)};
    return Status();
  });
}

void holdfast_report_close(holdfast_report* report) { delete report; }

holdfast_code holdfast_report_count(const holdfast_report* report,
                                    size_t* count) {
  return Guard([&]() -> Status {
    HF_RETURN_IF_ERROR(NotNull(report, "report"));
    HF_RETURN_IF_ERROR(NotNull(count, "count"));
    *count = report->report.damages.size();
    return Status();
  });
}

holdfast_code holdfast_report_not_supported_count(const holdfast_report* report,
                                                  size_t* count) {
  return Guard([&]() -> Status {
    HF_RETURN_IF_ERROR(NotNull(report, "report"));
    HF_RETURN_IF_ERROR(NotNull(count, "count"));
    *count = report->report.not_supported.size();
    return Status();
  });
}

holdfast_code holdfast_report_damage(const holdfast_report* report,
                                     size_t index, holdfast_damage* damage) {
  return Guard([&]() -> Status {
    HF_RETURN_IF_ERROR(NotNull(report, "report"));
    HF_RETURN_IF_ERROR(NotNull(damage, "damage"));
    const auto& damages = report->report.damages;
    HF_RETURN_IF_ERROR(holdfast::InRange(index, damages.size(), "damage"));
    return holdfast::FillInfo(holdfast::DamageOf(damages[index]), damage);
  });
}

holdfast_code holdfast_report_not_supported(const holdfast_report* report,
                                            size_t index,
                                            holdfast_damage* found) {
  return Guard([&]() -> Status {
    HF_RETURN_IF_ERROR(NotNull(report, "report"));
    HF_RETURN_IF_ERROR(NotNull(found, "found"));
    const auto& all = report->report.not_supported;
    HF_RETURN_IF_ERROR(holdfast::InRange(index, all.size(), "finding"));
    return holdfast::FillInfo(holdfast::DamageOf(all[index]), found);
  });
}
