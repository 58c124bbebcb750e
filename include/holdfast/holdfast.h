// holdfast: checkpoints that are fast, byte-compatible with Orbax and
// impossible to corrupt quietly. Start with holdfast/checkpoint.h.
#pragma once

#include "holdfast/checkpoint.h"
#include "holdfast/dtype.h"
#include "holdfast/options.h"
#include "holdfast/pending_save.h"
#include "holdfast/status.h"
#include "holdfast/tensor.h"
#include "holdfast/tree.h"
#include "holdfast/version.h"
