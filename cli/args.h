// Args: the command line, parsed but not yet executed.
//
// Thread-safety: a value.
// Units: bytes; seconds; steps are checkpoint step numbers.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "cli/env.h"
#include "cli/layout_text.h"
#include "cli/select.h"
#include "cli/text_table.h"
#include "holdfast/options.h"
#include "holdfast/steps/steps.h"
#include "holdfast/tiers/goodput.h"
#include "holdfast/tools/convert.h"
#include "holdfast/tools/merge.h"
#include "holdfast/tools/prove.h"
#include "holdfast/tools/remote.h"
#include "holdfast/tools/view.h"

namespace holdfast::cli {

enum class VerbId : uint8_t {
  kLs,
  kTree,
  kInfo,
  kCat,
  kDigest,
  kVerify,
  kSteps,
  kLog,
  kBisect,
  kPrune,
  kDu,
  kPlan,
  kConvert,
  kReshard,
  kDiff,
  kStats,
  kReport,
  kServe,
  kTop,
  kMerge,
  kRescue,
  kCp,
  kView,
  kMaterialize,
  kRecipes,
  kDoctor,
  kWatch,
  kProveCrash,
  kGoodput,
  kHelp,
  kCompletion,
  kMan,
};
inline constexpr int kVerbCount = 32;

// When to use a feature: kAuto decides by the terminal or environment.
enum class When : uint8_t { kAuto, kAlways, kNever };

enum class SortKey : uint8_t {
  kCheckpoint,
  kName,
  kSize,
  // Only for stats.
  kMean,
  kStd,
  kL2,
  kAbsMax,
  kZeros,
};

struct Args {
  std::optional<VerbId> verb;  // absent: only global flags were typed
  std::vector<std::string> operands;

  bool json = false;
  bool quiet = false;
  bool help = false;
  bool version = false;
  When color = When::kAuto;
  When progress = When::kAuto;

  std::optional<int64_t> step;
  std::string item;
  bool verify = true;
  bool use_sidecar = true;
  MissingChunks missing_chunks = MissingChunks::kAsRecorded;
  int threads = 0;
  uint64_t ram_bytes_max = uint64_t{256} << 20;
  When mpi = When::kAuto;
  double timeout_seconds = 600;

  bool long_listing = false;
  bool wide = false;
  bool use_pager = true;
  PatternKind pattern_kind = PatternKind::kGlob;
  SortKey sort = SortKey::kCheckpoint;
  int depth_max = std::numeric_limits<int>::max();
  bool full = false;
  bool raw = false;
  bool npy = false;

  std::optional<Format> format;
  std::optional<int> zarr_format;
  std::optional<bool> use_ocdbt;
  Compression compression = Compression::kZstd;
  uint64_t chunk_bytes = uint64_t{8} << 20;
  bool is_also_safetensors = false;
  bool overwrite = false;
  bool check = true;
  LeafMap map;
  std::vector<std::string> map_files;  // tables of renames
  std::string recipe;  // the name of a shipped recipe, or a file
  RecipeOptions recipe_options;
  uint64_t shard_bytes = 0;
  bool restart = false;
  std::string report;  // file of the report; "-": standard output

  // report
  std::string output = "report.html";  // "-": standard output
  std::string against;
  bool statistics = true;
  std::string cache;   // also for top and log
  bool moved = false;  // also for log

  // log
  uint64_t step_count_max = 0;  // 0: all

  // bisect
  std::string bad_if;
  std::string run_command;
  std::optional<int64_t> good;
  std::optional<int64_t> bad;

  // top
  bool follow = false;

  // serve
  std::string host = "127.0.0.1";
  uint16_t port = 8017;  // 0: any free port
  std::string token;

  // diff
  double atol = 0;
  double rtol = 0;
  bool equal_nan = true;
  bool equal_bits = false;
  bool ignore_dtype = false;
  bool only_structure = false;
  bool by_fingerprint = false;
  bool find_renamed = true;
  uint64_t line_count_max = 50;  // 0: all

  // stats: only tensors with a NaN or an infinity
  bool only_non_finite = false;

  // merge
  MergePrefer prefer = MergePrefer::kRefuse;
  bool average = false;
  std::vector<double> weights;
  bool take_first = false;
  std::vector<std::string> prefixes;  // empty, or one per source

  std::string fill;  // rescue: a step; empty: none

  // cp
  bool verify_copy = false;
  bool follow_links = false;

  std::string trace;  // a file; empty: none

  // watch
  bool once = false;
  double interval_seconds = 1;

  // view
  LinkKind link = LinkKind::kSymbolic;
  bool checksums = false;
  bool must_refer = false;

  // prove-crash; operands are the command
  ProveOptions prove;
  std::vector<std::string> libraries;
  std::string python = "python3";

  // goodput
  GoodputModel goodput;
  GoodputPolicy policy;
  uint64_t budget_bytes = 0;  // 0: simulate `policy`

  // doctor
  bool read_only = false;

  // How object stores are reached.
  RemoteSettings remote;

  bool all = false;
  // The rules for the steps to keep, as typed; their labels repeat them.
  std::vector<PruneRule> keep;
  std::optional<int64_t> keep_best;
  std::string metric;
  bool lowest_is_best = false;
  bool yes = false;
  std::optional<int64_t> undelete;
  bool empty_trash = false;

  std::optional<Mesh> mesh;
  std::vector<SpecRule> spec_rules;  // as typed; the last matching rule counts
  int64_t process_count = 0;         // 0: one per device
  std::optional<int64_t> rank;
};

OpenOptions OpenOptionsOf(const Args& args);
// Returns the run options without progress, which each verb adds itself.
RunOptions RunOptionsOf(const Args& args, const Env& env);

// Returns true if escape sequences may be written to env.out.
bool UseColor(const Args& args, const Env& env);
// Returns the style of tables on env.out, including their maximum width.
TableStyle TableStyleOf(const Args& args, const Env& env);
// Starts a pager if the output goes to a terminal. Call it before the first
// line of a long listing.
void BeginListing(const Args& args, Env& env);
// Returns true if a progress bar may be drawn on env.err.
bool UseProgress(const Args& args, const Env& env);

}  // namespace holdfast::cli
