// holdfast: checkpoints that are fast, byte-compatible with Orbax and
// impossible to corrupt quietly. Start with holdfast/checkpoint.h.
#pragma once

#include "holdfast/checkpoint.h"
#include "holdfast/dtype.h"
#include "holdfast/open_spec.h"
#include "holdfast/options.h"
#include "holdfast/pending_save.h"
#include "holdfast/pytree_checkpoint_handler.h"
#include "holdfast/pytree_metadata.h"
#include "holdfast/restore_args.h"
#include "holdfast/shard_plan.h"
#include "holdfast/sharding.h"
#include "holdfast/spec.h"
#include "holdfast/status.h"
#include "holdfast/tensor.h"
#include "holdfast/transform.h"
#include "holdfast/tree.h"
#include "holdfast/tree_utils.h"
#include "holdfast/type_handlers.h"
#include "holdfast/value_metadata.h"
#include "holdfast/version.h"
