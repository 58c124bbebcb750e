// Early return on failure. Thread-safety and ownership: none, plain macros.
#pragma once

#include "holdfast/status.h"

#define HF_CONCAT_INNER(a, b) a##b
#define HF_CONCAT(a, b) HF_CONCAT_INNER(a, b)

#define HF_RETURN_IF_ERROR(expr)           \
  do {                                     \
    ::holdfast::Status hf_status = (expr); \
    if (!hf_status.ok()) return hf_status; \
  } while (false)

#define HF_ASSIGN_OR_RETURN_IMPL(tmp, lhs, expr) \
  auto tmp = (expr);                             \
  if (!tmp.ok()) return tmp.status();            \
  lhs = std::move(tmp).value()

#define HF_ASSIGN_OR_RETURN(lhs, expr) \
  HF_ASSIGN_OR_RETURN_IMPL(HF_CONCAT(hf_result_, __LINE__), lhs, expr)
