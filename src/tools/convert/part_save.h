// One item of a checkpoint, written as the parts of a save by many processes,
// one after the other (doc/architecture.md, "A save by many processes"), so
// that finished parts need not be written again.
//
// Thread-safety: one part of a directory at a time. Errors: those of Save.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/save/save_plan.h"
#include "holdfast/checkpoint.h"

namespace holdfast {

inline constexpr int64_t kSavePartsMax = 256;

// How many parts an item of `bytes` has, none of much more than part_bytes.
int64_t PartCount(uint64_t bytes, uint64_t part_bytes);

// The plans of what each part of an item writes.
Result<std::vector<SavePlan>> PlanSaveParts(const Tree& tree,
                                            const SaveOptions& options,
                                            uint64_t part_bytes);

// Writes part `index` into `directory`, which exists; durable as its options
// say.
Result<SaveResult> WriteSavePart(const std::string& directory,
                                 const SavePlan& plan, int64_t index);

// Everything that decides what the parts hold, but the elements of arrays.
uint64_t SavePlanHash(const SavePlan& plan);

}  // namespace holdfast
