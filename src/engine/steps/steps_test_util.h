// Makes directories that look like steps. For tests only.
#pragma once

#include <string>

#include "twins/scratch_directory.h"

namespace holdfast {

// Makes a step with one JSON item "default", committed at `time_ns`, with
// metrics unless they are empty.
inline void PutStep(const std::string& root, const std::string& name,
                    int64_t time_ns, const std::string& metrics = "") {
  const std::string step = root + "/" + name;
  WriteTestFile(step + "/_CHECKPOINT_METADATA",
                R"({"item_handlers": {"default": null}, "metrics": {}, )"
                R"("performance_metrics": {}, "init_timestamp_nsecs": 1, )"
                R"("commit_timestamp_nsecs": )" +
                    std::to_string(time_ns) + R"(, "custom_metadata": {}})");
  WriteTestFile(step + "/default/metadata", R"({"epoch": 3})");
  if (!metrics.empty()) WriteTestFile(step + "/metrics/metrics", metrics);
}

}  // namespace holdfast
