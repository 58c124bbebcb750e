// Tools for finished checkpoints: convert, compare, measure, merge, copy
// between stores and check them; and files of torch.save.
#pragma once

#include "holdfast/tools/checked_file.h"
#include "holdfast/tools/commit.h"
#include "holdfast/tools/convert.h"
#include "holdfast/tools/diff.h"
#include "holdfast/tools/glob.h"
#include "holdfast/tools/item_deletion.h"
#include "holdfast/tools/merge.h"
#include "holdfast/tools/metrics.h"
#include "holdfast/tools/places.h"
#include "holdfast/tools/recipe.h"
#include "holdfast/tools/remote.h"
#include "holdfast/tools/report.h"
#include "holdfast/tools/stats.h"
#include "holdfast/tools/torch_file.h"
#include "holdfast/tools/view.h"
#include "holdfast/tools/watch.h"
