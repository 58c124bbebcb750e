// holdfast: checkpoints that are fast, byte-compatible with Orbax and
// impossible to corrupt quietly. Start with holdfast/checkpoint.h.
//
// This header has Save, Load, Open and the types that they use. Three other
// groups of headers build on it: holdfast/orbax/orbax.h (Orbax's handlers,
// checkpointers, managers and specs), holdfast/megatron/ (Megatron Core's
// sharded state and its zarr checkpoints), and holdfast/tools/tools.h (convert,
// diff, merge, statistics, copies between stores, torch.save files).
#pragma once

#include "holdfast/checkpoint.h"
#include "holdfast/device.h"
#include "holdfast/dtype.h"
#include "holdfast/mapped_tensor.h"
#include "holdfast/mpi.h"
#include "holdfast/options.h"
#include "holdfast/pending_save.h"
#include "holdfast/process_group.h"
#include "holdfast/read_together.h"
#include "holdfast/shape.h"
#include "holdfast/shard_plan.h"
#include "holdfast/sharding.h"
#include "holdfast/status.h"
#include "holdfast/tensor.h"
#include "holdfast/tree.h"
#include "holdfast/version.h"
