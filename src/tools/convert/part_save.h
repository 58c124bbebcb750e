// Writes one item of a checkpoint as if many processes saved it
// (doc/architecture.md, "A save by many processes"), one process's part after
// the other. After an interruption, finished parts need not be written again.
//
// Thread-safety: one part per directory at a time. Errors: those of Save.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/save/save_plan.h"
#include "holdfast/checkpoint.h"

namespace holdfast {

inline constexpr int64_t kSavePartsMax = 256;

// Returns the number of parts for an item of `bytes` bytes: parts of about
// `part_bytes`, but at most kSavePartsMax parts.
int64_t PartCount(uint64_t bytes, uint64_t part_bytes);

// Plans what each part of an item writes.
Result<std::vector<SavePlan>> PlanSaveParts(const Tree& tree,
                                            const SaveOptions& options,
                                            uint64_t part_bytes);

// Writes part `index` into `directory`, which must exist. The part is durable
// if the plan's options say so.
Result<SaveResult> WriteSavePart(const std::string& directory,
                                 const SavePlan& plan, int64_t index);

// Hashes everything that determines the parts' content except array elements.
uint64_t SavePlanHash(const SavePlan& plan);

}  // namespace holdfast
