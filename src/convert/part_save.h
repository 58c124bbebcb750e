// One item of a checkpoint, written as the parts of a save by many processes,
// one after the other (doc/architecture.md, "A save by many processes"), so
// that finished parts need not be written again.
//
// Thread-safety: one part of a directory at a time. Errors: those of Save.
#pragma once

#include <cstdint>
#include <string>

#include "checkpoint/save/save_plan.h"
#include "holdfast/checkpoint.h"

namespace holdfast {

inline constexpr int64_t kSavePartsMax = 256;

// How many parts an item of `bytes` has, none of much more than part_bytes.
int64_t PartCount(uint64_t bytes, uint64_t part_bytes);

// What part `index` of `count` writes.
Result<SavePlan> PlanSavePart(const Tree& tree, const SaveOptions& options,
                              int64_t index, int64_t count);

// Writes it into `directory`, which exists; durable with options.sync.
Status WriteSavePart(const std::string& directory, const SavePlan& plan,
                     const SaveOptions& options, int64_t index, Stats& stats);

// Everything that decides what the parts hold, but the elements of arrays.
uint64_t SavePlanHash(const SavePlan& plan, const SaveOptions& options);

}  // namespace holdfast
