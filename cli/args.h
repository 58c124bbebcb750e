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
#include "cli/words.h"
#include "holdfast/options.h"
#include "holdfast/steps/steps.h"
#include "holdfast/tiers/goodput.h"
#include "holdfast/tools/convert.h"
#include "holdfast/tools/merge.h"
#include "holdfast/tools/prove.h"
#include "holdfast/tools/remote.h"
#include "holdfast/tools/view.h"

namespace holdfast::cli {

// The rules for the steps to keep, as typed; their labels repeat them.
struct KeepRules {
  std::vector<PruneRule> rules;
};
Status Store(const Flag& flag, std::string_view value, KeepRules* keep);

// The values of --map.
struct MapWords {
  std::vector<LeafMap::Rename> renames;
  std::string recipe;  // the name of a shipped one, or a file; empty: none
};
Status Store(const Flag& flag, std::string_view value, MapWords* words);

struct Args {
  const Verb* verb = nullptr;
  std::vector<std::string> operands;

  bool json = false;
  bool quiet = false;
  When color = When::kAuto;
  When progress = When::kAuto;

  std::optional<int64_t> step;
  std::string item;
  bool verify = true;
  bool use_sidecar = true;
  MissingChunks missing_chunks = MissingChunks::kAsRecorded;
  int thread_count = 0;
  uint64_t ram_bytes_max = uint64_t{256} << 20;
  When mpi = When::kAuto;
  double timeout_seconds = 600;

  bool long_listing = false;
  bool wide = false;
  bool use_pager = true;
  bool regex = false;  // patterns are regular expressions
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
  std::string also;  // a format; empty: none
  bool overwrite = false;
  bool check = true;
  LeafMap map;  // without the renames
  MapWords renames;
  std::vector<std::string> map_files;  // tables of renames
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
  bool average = false;  // also with weights
  std::vector<double> weights;
  bool take_first = false;
  std::string prefix;  // one per source, between commas

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
  KeepRules keep;
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

// Each calls fn(name, member) for some options, Fields for all.
template <typename Fn>
void SharedFields(const Fn& fn, Args& args) {
  fn("json", args.json);
  fn("quiet", args.quiet);
  fn("color", args.color);
  fn("progress", args.progress);
  fn("step", args.step);
  fn("item", args.item);
  fn("verify", args.verify);
  fn("sidecar", args.use_sidecar);
  fn("missing_chunks", args.missing_chunks);
  fn("threads", args.thread_count);
  fn("memory_bytes", args.ram_bytes_max);
  fn("mpi", args.mpi);
  fn("timeout_seconds", args.timeout_seconds);
  fn("wide", args.wide);
  fn("pager", args.use_pager);
  fn("trace", args.trace);
  fn("endpoint", args.remote.endpoint);
  fn("region", args.remote.region);
  fn("profile", args.remote.profile);
  fn("anonymous", args.remote.anonymous);
  fn("requester_pays", args.remote.requester_pays);
  fn("user_project", args.remote.user_project);
  fn("requests", args.remote.requests_in_flight_max);
  fn("hedge", args.remote.hedge);
  fn("ca_bundle", args.remote.ca_bundle);
}

template <typename Fn>
void TargetFields(const Fn& fn, Args& args) {
  fn("format", args.format);
  fn("view_format", args.format);
  fn("zarr_format", args.zarr_format);
  fn("ocdbt", args.use_ocdbt);
  fn("compression", args.compression);
  fn("chunk_bytes", args.chunk_bytes);
  fn("also", args.also);
  fn("overwrite", args.overwrite);
  fn("compare", args.check);
  fn("map", args.renames);
  fn("rename_file", args.map_files);
  fn("select", args.map.select);
  fn("drop", args.map.drop);
  fn("cast", args.map.casts);
  fn("shards", args.map.shards);
  fn("nest", args.map.nest);
  fn("strict", args.map.is_strict);
  fn("reverse", args.recipe_options.reverse);
  fn("sizes", args.recipe_options.sizes);
  fn("data_file_bytes", args.shard_bytes);
  fn("restart", args.restart);
  fn("notes", args.report);
  fn("prefer", args.prefer);
  fn("average", args.average);
  fn("weights", args.weights);
  fn("take_first", args.take_first);
  fn("prefix", args.prefix);
  fn("link", args.link);
  fn("checksums", args.checksums);
  fn("must_refer", args.must_refer);
  fn("mesh", args.mesh);
  fn("spec", args.spec_rules);
}

template <typename Fn>
void OtherFields(const Fn& fn, Args& args) {
  fn("long", args.long_listing);
  fn("regex", args.regex);
  fn("sort", args.sort);
  fn("depth", args.depth_max);
  fn("full", args.full);
  fn("raw", args.raw);
  fn("npy", args.npy);
  fn("output", args.output);
  fn("against", args.against);
  fn("verify_all", args.verify_copy);
  fn("statistics", args.statistics);
  fn("cache", args.cache);
  fn("moved", args.moved);
  fn("step_count", args.step_count_max);
  fn("bad_if", args.bad_if);
  fn("run_command", args.run_command);
  fn("good", args.good);
  fn("bad", args.bad);
  fn("follow", args.follow);
  fn("host", args.host);
  fn("port", args.port);
  fn("token", args.token);
  fn("atol", args.atol);
  fn("rtol", args.rtol);
  fn("equal_nan", args.equal_nan);
  fn("equal_bits", args.equal_bits);
  fn("ignore_dtype", args.ignore_dtype);
  fn("only_structure", args.only_structure);
  fn("by_fingerprint", args.by_fingerprint);
  fn("find_renamed", args.find_renamed);
  fn("line_count", args.line_count_max);
  fn("only_non_finite", args.only_non_finite);
  fn("fill", args.fill);
  fn("follow_links", args.follow_links);
  fn("once", args.once);
  fn("interval_seconds", args.interval_seconds);
  fn("read_only", args.read_only);
  fn("all", args.all);
  fn("keep_latest", args.keep);
  fn("keep_every", args.keep);
  fn("keep_since_seconds", args.keep);
  fn("keep_interval_seconds", args.keep);
  fn("keep_steps", args.keep);
  fn("keep_best", args.keep_best);
  fn("metric", args.metric);
  fn("mode", args.lowest_is_best);
  fn("yes", args.yes);
  fn("undelete", args.undelete);
  fn("empty_trash", args.empty_trash);
  fn("process_count", args.process_count);
  fn("rank", args.rank);
}

template <typename Fn>
void ModelFields(const Fn& fn, Args& args) {
  fn("root", args.prove.root);
  fn("judge", args.prove.check);
  fn("without_sync", args.prove.without_sync);
  fn("states", args.prove.state_count_max);
  fn("seed", args.prove.seed);
  fn("library", args.libraries);
  fn("python", args.python);
  fn("host_count", args.goodput.host_count);
  fn("host_mtbf_seconds", args.goodput.host_mtbf_seconds);
  fn("lost_share", args.goodput.lost_share);
  fn("hosts_per_domain", args.goodput.hosts_per_domain);
  fn("domain_mtbf_seconds", args.goodput.domain_mtbf_seconds);
  fn("state_bytes", args.goodput.state_bytes);
  fn("step_seconds", args.goodput.step_seconds);
  fn("blocking_seconds", args.goodput.blocking_seconds);
  fn("local_bytes_per_second", args.goodput.local_bytes_per_second);
  fn("peer_bytes_per_second", args.goodput.peer_bytes_per_second);
  fn("shared_bytes_per_second", args.goodput.shared_bytes_per_second);
  fn("restart_seconds", args.goodput.restart_seconds);
  fn("simulated_seconds", args.goodput.simulated_seconds);
  fn("local_every", args.policy.local_every);
  fn("shared_every", args.policy.shared_every);
  fn("data_shards", args.policy.data_shards);
  fn("parity_shards", args.policy.parity_shards);
  fn("budget_bytes", args.budget_bytes);
}

template <typename Fn>
void Fields(const Fn& fn, Args& args) {
  SharedFields(fn, args);
  TargetFields(fn, args);
  OtherFields(fn, args);
  ModelFields(fn, args);
}

OpenOptions OpenOptionsOf(const Args& args);
PatternKind PatternKindOf(const Args& args);
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
