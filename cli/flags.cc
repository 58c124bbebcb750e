#include "cli/flags.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "cli/flag_value.h"
#include "cli/goodput_flags.h"
#include "cli/prove_flags.h"
#include "cli/prune_flags.h"
#include "cli/units.h"

namespace holdfast::cli {
namespace {

constexpr uint32_t Bit(VerbId verb) { return 1u << static_cast<int>(verb); }

constexpr uint32_t kLs = Bit(VerbId::kLs);
constexpr uint32_t kTree = Bit(VerbId::kTree);
constexpr uint32_t kInfo = Bit(VerbId::kInfo);
constexpr uint32_t kCat = Bit(VerbId::kCat);
constexpr uint32_t kDigest = Bit(VerbId::kDigest);
constexpr uint32_t kVerify = Bit(VerbId::kVerify);
constexpr uint32_t kSteps = Bit(VerbId::kSteps);
constexpr uint32_t kLog = Bit(VerbId::kLog);
constexpr uint32_t kBisect = Bit(VerbId::kBisect);
constexpr uint32_t kPrune = Bit(VerbId::kPrune);
constexpr uint32_t kDu = Bit(VerbId::kDu);
constexpr uint32_t kPlan = Bit(VerbId::kPlan);
constexpr uint32_t kConvert = Bit(VerbId::kConvert);
constexpr uint32_t kReshard = Bit(VerbId::kReshard);
constexpr uint32_t kDiff = Bit(VerbId::kDiff);
constexpr uint32_t kStats = Bit(VerbId::kStats);
constexpr uint32_t kReport = Bit(VerbId::kReport);
constexpr uint32_t kServe = Bit(VerbId::kServe);
constexpr uint32_t kTop = Bit(VerbId::kTop);
constexpr uint32_t kMerge = Bit(VerbId::kMerge);
constexpr uint32_t kRescue = Bit(VerbId::kRescue);
constexpr uint32_t kCp = Bit(VerbId::kCp);
constexpr uint32_t kView = Bit(VerbId::kView);
constexpr uint32_t kMaterialize = Bit(VerbId::kMaterialize);
constexpr uint32_t kRecipes = Bit(VerbId::kRecipes);
constexpr uint32_t kDoctor = Bit(VerbId::kDoctor);
constexpr uint32_t kWatch = Bit(VerbId::kWatch);
constexpr uint32_t kProve = Bit(VerbId::kProveCrash);
constexpr uint32_t kGoodput = Bit(VerbId::kGoodput);
constexpr uint32_t kRewrite = kConvert | kReshard;
constexpr uint32_t kWrite = kRewrite | kMerge;
constexpr uint32_t kMapped = kWrite | kDiff | kView;  // rules for leaves
constexpr uint32_t kRecipe = kRewrite | kView;
constexpr uint32_t kOpen = kLs | kTree | kInfo | kCat | kDigest | kVerify |
                           kPlan | kWrite | kDiff | kStats | kView |
                           kMaterialize | kReport | kServe | kTop;
// Verbs that run long jobs on many threads.
constexpr uint32_t kWork = kDigest | kVerify | kWrite | kDiff | kStats | kView |
                           kMaterialize | kReport | kServe;
constexpr uint32_t kLong = kWork | kCp | kLog | kBisect | kRescue;
constexpr uint32_t kRanks = kVerify | kRewrite;  // split over mpirun's ranks
constexpr uint32_t kReports = kOpen | kSteps | kLog | kBisect | kPrune | kDu |
                              kCp | kDoctor | kRecipes | kWatch | kRescue |
                              kProve | kGoodput;
constexpr uint32_t kPatterns = kLs | kStats | kDigest | kPlan;
constexpr uint32_t kPaged = kLs | kTree | kStats | kDiff | kSteps | kLog;
constexpr uint32_t kTables =
    kLs | kStats | kDiff | kSteps | kLog | kDu | kPrune | kPlan;
constexpr uint32_t kEvery = ~uint32_t{0} >> (32 - kVerbCount);

constexpr std::string_view kWhen = "auto|always|never";

Status ApplyWhen(std::string_view flag, std::string_view value, When* when) {
  if (value == "auto") {
    *when = When::kAuto;
  } else if (value == "always") {
    *when = When::kAlways;
  } else if (value == "never") {
    *when = When::kNever;
  } else {
    return BadValue(flag, value, "auto, always or never");
  }
  return Status();
}

Status ApplyStep(std::string_view value, Args* args) {
  args->step = ParseInt(value, 0, std::numeric_limits<int64_t>::max());
  if (args->step) return Status();
  return BadValue("step", value, "a step number");
}

Status ApplyThreads(std::string_view value, Args* args) {
  const auto count = ParseInt(value, 0, 1024);
  if (!count) return BadValue("threads", value, "a number from 0 to 1024");
  args->threads = static_cast<int>(*count);
  return Status();
}

Status ApplyRam(std::string_view value, Args* args) {
  const auto bytes = ParseBytes(value);
  if (!bytes.ok()) return BadValue("ram", value, "a size such as 512M or 2GiB");
  args->ram_bytes_max = *bytes;
  return Status();
}

Status ApplyTimeout(std::string_view value, Args* args) {
  const auto seconds = ParseInt(value, 1, 1'000'000);
  if (!seconds) return BadValue("timeout", value, "seconds, from 1");
  args->timeout_seconds = static_cast<double>(*seconds);
  return Status();
}

Status ApplyMissing(std::string_view value, Args* args) {
  if (value == "fill") {
    args->missing_chunks = MissingChunks::kFill;
  } else if (value == "refuse") {
    args->missing_chunks = MissingChunks::kRefuse;
  } else {
    return BadValue("missing", value, "fill or refuse");
  }
  return Status();
}

Status ApplySort(std::string_view value, Args* args) {
  constexpr std::pair<std::string_view, SortKey> kKeys[] = {
      {"name", SortKey::kName},   {"size", SortKey::kSize},
      {"mean", SortKey::kMean},   {"std", SortKey::kStd},
      {"l2", SortKey::kL2},       {"absmax", SortKey::kAbsMax},
      {"zeros", SortKey::kZeros},
  };
  for (const auto& [name, key] : kKeys) {
    if (value != name) continue;
    args->sort = key;
    return Status();
  }
  return BadValue("sort", value,
                  "name or size; of stats also mean, std, l2, "
                  "absmax or zeros");
}

Status ApplyDepth(std::string_view value, Args* args) {
  const auto depth = ParseInt(value, 1, std::numeric_limits<int>::max());
  if (!depth) return BadValue("depth", value, "a number >= 1");
  args->depth_max = static_cast<int>(*depth);
  return Status();
}

Status ApplyRegex(std::string_view, Args* args) {
  args->pattern_kind = PatternKind::kRegex;
  return Status();
}

Status ApplyItem(std::string_view value, Args* args) {
  if (value.empty()) return BadValue("item", value, "the name of an item");
  args->item = value;
  return Status();
}

Status ApplyTo(std::string_view value, Args* args) {
  args->format = FormatFromName(value);
  if (args->format) return Status();
  return BadValue("to", value,
                  "orbax, orbax-v1, megatron-zarr, safetensors, dcp, "
                  "torch-dist or npz");
}

template <typename Rule>
Status AddRule(std::string_view flag, Result<Rule> rule,
               std::vector<Rule>& rules) {
  if (!rule.ok()) {
    return rule.status().WithContext("--" + std::string(flag));
  }
  rules.push_back(*std::move(rule));
  return Status();
}

Status ApplyMap(std::string_view value, Args* args) {
  if (value.find('=') != std::string_view::npos) {
    return AddRule("map", ParseRename(value), args->map.renames);
  }
  if (value.empty() || !args->recipe.empty()) {
    return BadValue("map", value, "PATTERN=NEW, or one recipe");
  }
  args->recipe = value;
  return Status();
}

Status ApplySet(std::string_view value, Args* args) {
  const size_t equals = value.find('=');
  if (equals != std::string_view::npos && equals > 0) {
    const auto size = ParseInt(value.substr(equals + 1), 1, kCountMax);
    if (size) {
      args->recipe_options.sizes[std::string(value.substr(0, equals))] = *size;
      return Status();
    }
  }
  return BadValue("set", value, "AXIS=SIZE such as heads=8");
}

Status ApplyReverse(std::string_view, Args* args) {
  args->recipe_options.reverse = true;
  return Status();
}

Status ApplyMapFile(std::string_view value, Args* args) {
  args->map_files.emplace_back(value);
  return Status();
}

Status ApplySelect(std::string_view value, Args* args) {
  args->map.select.emplace_back(value);
  return Status();
}

Status ApplyDrop(std::string_view value, Args* args) {
  args->map.drop.emplace_back(value);
  return Status();
}

Status ApplyCast(std::string_view value, Args* args) {
  return AddRule("cast", ParseCast(value), args->map.casts);
}

Status ApplyShards(std::string_view value, Args* args) {
  return AddRule("shards", ParseShards(value), args->map.shards);
}

Status ApplyLink(std::string_view value, Args* args) {
  const auto kind = LinkKindFromName(value);
  if (!kind) return BadValue("link", value, "symlink, hard, reflink or copy");
  args->link = *kind;
  return Status();
}

// Accepts only the formats that a view can have.
Status ApplyAs(std::string_view value, Args* args) {
  args->format = FormatFromName(value);
  if (args->format &&
      (IsOrbaxFormat(*args->format) || *args->format == Format::kSafetensors)) {
    return Status();
  }
  return BadValue("as", value, "orbax, orbax-v1 or safetensors");
}

Status ApplyAlso(std::string_view value, Args* args) {
  args->is_also_safetensors = FormatFromName(value) == Format::kSafetensors;
  if (args->is_also_safetensors) return Status();
  return BadValue("also", value, "safetensors");
}

Status ApplyShardBytes(std::string_view value, Args* args) {
  const auto bytes = ParseBytes(value);
  if (!bytes.ok()) return BadValue("shard-bytes", value, "a size such as 5G");
  args->shard_bytes = *bytes;
  return Status();
}

Status ApplyReport(std::string_view value, Args* args) {
  if (value.empty()) return BadValue("report", value, "a file, or -");
  args->report = value;
  return Status();
}

Status ApplyOutput(std::string_view value, Args* args) {
  if (value.empty()) return BadValue("output", value, "a file, or -");
  args->output = value;
  return Status();
}

Status ApplyHost(std::string_view value, Args* args) {
  if (value.empty()) return BadValue("host", value, "an address");
  args->host = value;
  return Status();
}

Status ApplyPort(std::string_view value, Args* args) {
  const auto port = ParseInt(value, 0, 65535);
  if (!port) return BadValue("port", value, "a number from 0 to 65535");
  args->port = static_cast<uint16_t>(*port);
  return Status();
}

Status ApplyToken(std::string_view value, Args* args) {
  args->token = value;
  return Status();
}

Status ApplyTrace(std::string_view value, Args* args) {
  if (value.empty()) return BadValue("trace", value, "a file");
  args->trace = value;
  return Status();
}

Status ApplyInterval(std::string_view value, Args* args) {
  const auto seconds = ParseInt(value, 1, 1'000'000);
  if (!seconds) return BadValue("interval", value, "seconds, from 1");
  args->interval_seconds = static_cast<double>(*seconds);
  return Status();
}

Status ApplyFill(std::string_view value, Args* args) {
  if (value.empty()) return BadValue("fill", value, "a step");
  args->fill = value;
  return Status();
}

Status ApplyAgainst(std::string_view value, Args* args) {
  if (value.empty()) return BadValue("against", value, "a checkpoint");
  args->against = value;
  return Status();
}

Status ApplyCache(std::string_view value, Args* args) {
  if (value.empty()) return BadValue("cache", value, "a file");
  args->cache = value;
  return Status();
}

Status ApplyCount(std::string_view value, Args* args) {
  const auto count = ParseInt(value, 0, kCountMax);
  if (!count) return BadValue("count", value, "a number of steps; 0: all");
  args->step_count_max = static_cast<uint64_t>(*count);
  return Status();
}

Status ApplyBadIf(std::string_view value, Args* args) {
  if (value.empty()) return BadValue("bad-if", value, "a predicate");
  args->bad_if = value;
  return Status();
}

Status ApplyRunCommand(std::string_view value, Args* args) {
  if (value.find("{}") == std::string_view::npos) {
    return BadValue("run", value, "a command with {} for the step's path");
  }
  args->run_command = value;
  return Status();
}

Status ApplyGood(std::string_view value, Args* args) {
  args->good = ParseInt(value, 0, kCountMax);
  if (args->good) return Status();
  return BadValue("good", value, "a step number");
}

Status ApplyBad(std::string_view value, Args* args) {
  args->bad = ParseInt(value, 0, kCountMax);
  if (args->bad) return Status();
  return BadValue("bad", value, "a step number");
}

Status ApplyNest(std::string_view, Args* args) {
  args->map.nest = true;
  return Status();
}

Status ApplyStrict(std::string_view, Args* args) {
  args->map.is_strict = true;
  return Status();
}

Status ApplyZarr(std::string_view value, Args* args) {
  if (value != "2" && value != "3") return BadValue("zarr", value, "2 or 3");
  args->zarr_format = value == "2" ? 2 : 3;
  return Status();
}

Status ApplyOcdbt(std::string_view value, Args* args) {
  if (value != "yes" && value != "no") {
    return BadValue("ocdbt", value, "yes or no");
  }
  args->use_ocdbt = value == "yes";
  return Status();
}

Status ApplyCompression(std::string_view value, Args* args) {
  const auto compression = CompressionFromName(value);
  if (!compression) {
    return BadValue("compression", value, "planes, zstd, fast or none");
  }
  args->compression = *compression;
  return Status();
}

Status ApplyChunkBytes(std::string_view value, Args* args) {
  if (value == "0") {
    args->chunk_bytes = 0;
    return Status();
  }
  const auto bytes = ParseBytes(value);
  if (!bytes.ok()) {
    return BadValue("chunk-bytes", value, "a size such as 8M, or 0");
  }
  args->chunk_bytes = *bytes;
  return Status();
}

Status ApplyMesh(std::string_view value, Args* args) {
  auto mesh = ParseMesh(value);
  if (!mesh.ok()) return mesh.status().WithContext("--mesh");
  args->mesh = *std::move(mesh);
  return Status();
}

Status ApplySpec(std::string_view value, Args* args) {
  auto rule = ParseSpecRule(value);
  if (!rule.ok()) return rule.status().WithContext("--spec");
  args->spec_rules.push_back(*std::move(rule));
  return Status();
}

Status ApplyRanks(std::string_view value, Args* args) {
  const auto count = ParseInt(value, 1, int64_t{1} << 22);
  if (!count) return BadValue("ranks", value, "a number of processes");
  args->process_count = *count;
  return Status();
}

Status ApplyRank(std::string_view value, Args* args) {
  args->rank = ParseInt(value, 0, int64_t{1} << 22);
  if (args->rank) return Status();
  return BadValue("rank", value, "a process, counted from 0");
}

Status ApplyMetric(std::string_view value, Args* args) {
  if (value.empty()) return BadValue("metric", value, "the name of a metric");
  args->metric = value;
  return Status();
}

Status ApplyMode(std::string_view value, Args* args) {
  if (value != "min" && value != "max") {
    return BadValue("mode", value, "min or max");
  }
  args->lowest_is_best = value == "min";
  return Status();
}

Status ApplyTolerance(std::string_view flag, std::string_view value,
                      double* tolerance) {
  const auto number = ParseNumber(value);
  if (!number || *number < 0) return BadValue(flag, value, "a number >= 0");
  *tolerance = *number;
  return Status();
}

Status ApplyMaxLines(std::string_view value, Args* args) {
  const auto count = ParseInt(value, 0, kCountMax);
  if (!count) return BadValue("max-lines", value, "a number; 0: all");
  args->line_count_max = static_cast<uint64_t>(*count);
  return Status();
}

Status ApplyPrefer(std::string_view value, Args* args) {
  if (value != "first" && value != "last") {
    return BadValue("prefer", value, "first or last");
  }
  args->prefer = value == "first" ? MergePrefer::kFirst : MergePrefer::kLast;
  return Status();
}

Status ApplyWeights(std::string_view value, Args* args) {
  args->average = true;
  args->weights.clear();
  for (const std::string_view text : Split(value, ',')) {
    const auto weight = ParseNumber(text);
    if (!weight) return BadValue("weights", value, "numbers such as 0.7,0.3");
    args->weights.push_back(*weight);
  }
  return Status();
}

Status ApplyPrefix(std::string_view value, Args* args) {
  // There are at least two sources.
  if (value.find(',') == std::string_view::npos) {
    return BadValue("prefix", value, "one name a source, such as a,b or ,b");
  }
  args->prefixes.clear();
  for (const std::string_view text : Split(value, ',')) {
    args->prefixes.emplace_back(text);
  }
  return Status();
}

Status ApplyUndelete(std::string_view value, Args* args) {
  args->undelete = ParseInt(value, 0, kCountMax);
  if (args->undelete) return Status();
  return BadValue("undelete", value, "a step number");
}

Status ApplyEndpoint(std::string_view value, Args* args) {
  if (!value.starts_with("http://") && !value.starts_with("https://")) {
    return BadValue("endpoint", value, "a URL such as http://127.0.0.1:9000");
  }
  args->remote.endpoint = value;
  return Status();
}

Status ApplyRequests(std::string_view value, Args* args) {
  const auto count = ParseInt(value, 1, 1024);
  if (!count) return BadValue("requests", value, "a number from 1 to 1024");
  args->remote.requests_in_flight_max = static_cast<int>(*count);
  return Status();
}

template <std::string RemoteSettings::* member>
Status SetRemote(std::string_view value, Args* args) {
  args->remote.*member = value;
  return Status();
}

template <bool RemoteSettings::* member, bool value = true>
Status SwitchRemote(std::string_view, Args* args) {
  args->remote.*member = value;
  return Status();
}

template <bool Args::* member, bool value = true>
Status Switch(std::string_view, Args* args) {
  args->*member = value;
  return Status();
}

// The help lists flags in this order.
constexpr Flag kFlags[] = {
    {"json", 0, "", "Print one JSON value instead of text", kReports, "",
     Completion::kNothing, "", Switch<&Args::json>},
    {"long", 'l', "",
     "ls: add value types, chunk shapes and exact byte counts; plan: add one "
     "line for each device",
     kLs | kPlan, "", Completion::kNothing, "", Switch<&Args::long_listing>},
    {"sort", 0, "KEY",
     "Order leaves by name, or by another key with the largest first; ls "
     "knows only name and size",
     kLs | kStats, "the checkpoint's own order", Completion::kChoices,
     "name|size|mean|std|l2|absmax|zeros", ApplySort},
    {"wide", 0, "",
     "Print whole tables, even when they are wider than the terminal", kTables,
     "", Completion::kNothing, "", Switch<&Args::wide>},
    {"no-pager", 0, "",
     "Do not send what is longer than the terminal through $PAGER or less",
     kPaged, "", Completion::kNothing, "", Switch<&Args::use_pager, false>},
    {"regex", 0, "",
     "Take each PATTERN for a regular expression (Python's) that matches a "
     "whole name",
     kPatterns, "", Completion::kNothing, "", ApplyRegex},
    {"depth", 0, "N", "Show N levels and count what is below them", kTree,
     "all", Completion::kNothing, "", ApplyDepth},
    {"full", 0, "",
     "Print every element, however many; by default more than 1000 are "
     "summarised",
     kCat, "", Completion::kNothing, "", Switch<&Args::full>},
    {"raw", 0, "",
     "Write the bytes themselves: elements in C order, little endian; text "
     "as it is",
     kCat, "", Completion::kNothing, "", Switch<&Args::raw>},
    {"npy", 0, "", "Write a .npy file", kCat, "", Completion::kNothing, "",
     Switch<&Args::npy>},
    {"to", 0, "FORMAT", "Write this format", kConvert | kMerge,
     "as the source is", Completion::kChoices,
     "orbax|orbax-v1|megatron-zarr|safetensors|dcp|torch-dist|npz", ApplyTo},
    {"as", 0, "FORMAT", "Show the source as this format", kView, "orbax",
     Completion::kChoices, "orbax|orbax-v1|safetensors", ApplyAs},
    {"link", 0, "KIND",
     "Bring the source's files in as symbolic links, hard links, copies that "
     "share their blocks, or copies",
     kView, "symlink", Completion::kChoices, "symlink|hard|reflink|copy",
     ApplyLink},
    {"checksums", 0, "",
     "Record the checksums of all that is referred to: read it, where the "
     "source has none",
     kView, "", Completion::kNothing, "", Switch<&Args::checksums>},
    {"refer-all", 0, "", "Fail for a tensor that would have to be copied",
     kView, "", Completion::kNothing, "", Switch<&Args::must_refer>},
    {"zarr", 0, "N", "Write arrays as zarr 2 or zarr 3",
     kConvert | kMerge | kView | kMaterialize, "as in the source; of a view 3",
     Completion::kChoices, "2|3", ApplyZarr},
    {"ocdbt", 0, "WHETHER",
     "Write one OCDBT database (yes), or one directory for each parameter "
     "(no)",
     kConvert | kMerge | kMaterialize, "as in the source", Completion::kChoices,
     "yes|no", ApplyOcdbt},
    {"compression", 0, "NAME",
     "Compress chunks: zstd, as Orbax does; planes, the smallest and fastest "
     "to load; fast, blosc with lz4; or not at all",
     kWrite | kView | kMaterialize | kRescue, "zstd", Completion::kChoices,
     "planes|zstd|fast|none", ApplyCompression},
    {"chunk-bytes", 0, "SIZE",
     "Cut larger arrays into chunks of about SIZE bytes; 0: as Orbax does",
     kWrite | kView | kMaterialize, "8M", Completion::kNothing, "",
     ApplyChunkBytes},
    {"also", 0, "FORMAT",
     "With Orbax's formats: store the arrays, uncompressed, in files that "
     "safetensors can read too",
     kConvert, "", Completion::kChoices, "safetensors", ApplyAlso},
    {"overwrite", 0, "", "Replace what is at TARGET once the new one is whole",
     kWrite | kView | kMaterialize | kCp, "", Completion::kNothing, "",
     Switch<&Args::overwrite>},
    {"no-check", 0, "", "Do not read the new checkpoint back to compare it",
     kWrite | kMaterialize, "", Completion::kNothing, "",
     Switch<&Args::check, false>},
    {"map", 0, "RULE",
     "Take the leaves that a recipe makes: the name of one that is shipped "
     "(holdfast recipes lists them), or a file. Or PATTERN=NEW: rename "
     "leaves. PATTERN is a regular expression in Python's syntax and "
     "is matched with the leaf's keys, joined with /, and with its name; \\1 "
     "in NEW is its first group. May be repeated; the first that matches "
     "counts",
     kMapped, "", Completion::kNothing, "", ApplyMap},
    {"reverse", 0, "", "Run the recipe of --map backwards", kRecipe, "",
     Completion::kNothing, "", ApplyReverse},
    {"set", 0, "AXIS=SIZE",
     "Say how long an axis of the recipe is; may be repeated", kRecipe,
     "as config.json and shapes say", Completion::kNothing, "", ApplySet},
    {"map-file", 0, "FILE",
     "Rename by a table: each line a rule as for --map, or a JSON object of "
     "old name to new name",
     kMapped, "", Completion::kFile, "", ApplyMapFile},
    {"select", 0, "GLOB", "Write only these leaves; may be repeated", kMapped,
     "all", Completion::kNothing, "", ApplySelect},
    {"drop", 0, "GLOB", "Leave these leaves out; may be repeated", kMapped, "",
     Completion::kNothing, "", ApplyDrop},
    {"cast", 0, "GLOB=DTYPE",
     "Cast these arrays; may be repeated, the last that matches counts",
     kMapped, "", Completion::kNothing, "", ApplyCast},
    {"shards", 0, "GLOB=N,...",
     "Cut each axis of these arrays into this many chunks, in Megatron's "
     "zarr format; may be repeated, the last that matches counts",
     kRewrite, "as stored", Completion::kNothing, "", ApplyShards},
    {"nest", 0, "", "Split names at their dots into nested dicts", kMapped, "",
     Completion::kNothing, "", ApplyNest},
    {"strict", 0, "", "Fail when a rule matches no leaf", kMapped, "",
     Completion::kNothing, "", ApplyStrict},
    {"shard-bytes", 0, "SIZE",
     "Begin a new data file when one reaches this "
     "size",
     kConvert | kMerge, "as the format has it", Completion::kNothing, "",
     ApplyShardBytes},
    {"verify", 0, "",
     "Check every byte: cp reads the copy back, report the checkpoint",
     kCp | kReport, "", Completion::kNothing, "", Switch<&Args::verify_copy>},
    {"output", 'o', "FILE", "Write the page to FILE; - is standard output",
     kReport, "report.html", Completion::kFile, "", ApplyOutput},
    {"against", 0, "PATH", "Show what is different from the checkpoint at PATH",
     kReport, "", Completion::kFile, "", ApplyAgainst},
    {"no-statistics", 0, "", "Read no tensor: only what the metadata say",
     kReport | kTop, "", Completion::kNothing, "",
     Switch<&Args::statistics, false>},
    {"host", 0, "ADDRESS",
     "Listen on this address of the machine; other machines need the token",
     kServe, "127.0.0.1", Completion::kNothing, "", ApplyHost},
    {"port", 0, "N", "Listen on this port; 0: any that is free", kServe, "8017",
     Completion::kNothing, "", ApplyPort},
    {"token", 0, "TEXT",
     "Answer only requests with this token; empty: no token is needed when "
     "only this machine can ask, else one is made",
     kServe, "", Completion::kNothing, "", ApplyToken},
    {"moved", 0, "",
     "With a root: show how far tensors moved between steps; reads all steps",
     kReport | kLog, "", Completion::kNothing, "", Switch<&Args::moved>},
    {"cache", 0, "FILE",
     "Keep the statistics in FILE: what is in it is not read again",
     kReport | kTop | kLog, "", Completion::kFile, "", ApplyCache},
    {"count", 'n', "COUNT", "List only the newest COUNT steps; 0: all", kLog,
     "0", Completion::kNothing, "", ApplyCount},
    {"bad-if", 0, "PREDICATE",
     "Say when a step is bad, such as 'nan(params.*) or metric(loss) > 9': "
     "nan, inf, zeros, l2, max, min, mean, absmax of a PATTERN, metric; "
     "compared by > >= < <= == !=; and, or, not, parentheses",
     kBisect, "", Completion::kNothing, "", ApplyBadIf},
    {"run", 0, "COMMAND",
     "Ask this command of the shell, with the step's path for {}: it ends with "
     "0 where the step is good, with 125 where that cannot be said, and with 1 "
     "to 127 where it is bad",
     kBisect, "", Completion::kNothing, "", ApplyRunCommand},
    {"root", 0, "DIR", "Record what is done to this directory", kProve,
     "a new one, removed later", Completion::kFile, "", ApplyRoot},
    {"library", 0, "NAME",
     "Record three steps saved by this library of Python instead of a command; "
     "may be given several times: holdfast, holdfast-manager, orbax, torch, "
     "dcp, safetensors, numpy",
     kProve, "", Completion::kNothing, "", ApplyLibrary},
    {"python", 0, "PROGRAM", "Run --library with this interpreter", kProve,
     "python3", Completion::kFile, "", ApplyPython},
    {"check", 0, "COMMAND",
     "Judge each state with this command of the shell, with its directory for "
     "{root}: it ends with 0 where the state is fine",
     kProve, "", Completion::kNothing, "", ApplyCheckCommand},
    {"without-sync", 0, "GLOB",
     "Take the syncs of paths that match for not made: what if they were "
     "missing? '.' is the directory itself",
     kProve, "", Completion::kNothing, "", ApplyWithoutSync},
    {"states", 0, "N", "Judge at most N states, evenly chosen; 0: all", kProve,
     "20000", Completion::kNothing, "", ApplyStates},
    {"seed", 0, "N", "Choose other mixes of losses, or other failures",
     kProve | kGoodput, "0", Completion::kNothing, "", ApplySeed},
    {"good", 0, "STEP", "Begin at this step, which is good", kBisect,
     "the oldest", Completion::kNothing, "", ApplyGood},
    {"bad", 0, "STEP", "End at this step, which is bad", kBisect, "the newest",
     Completion::kNothing, "", ApplyBad},
    {"watch", 0, "", "Look every second for new steps, and follow the newest",
     kTop, "", Completion::kNothing, "", Switch<&Args::follow>},
    {"follow-links", 0, "",
     "Copy what symbolic links lead to, also outside SOURCE", kCp, "",
     Completion::kNothing, "", Switch<&Args::follow_links>},
    {"read-only", 0, "", "Write nothing, not even a probe", kDoctor, "",
     Completion::kNothing, "", Switch<&Args::read_only>},
    {"restart", 0, "", "Start over, whatever an earlier run left",
     kRewrite | kMaterialize | kCp, "", Completion::kNothing, "",
     Switch<&Args::restart>},
    {"report", 0, "FILE",
     "Write what was renamed, cast and left out to FILE, as JSON; - prints it "
     "as text",
     kRewrite, "", Completion::kFile, "", ApplyReport},
    {"atol", 0, "X",
     "Let elements differ by X, plus R times the larger of the two when "
     "--rtol R is given",
     kDiff, "0", Completion::kNothing, "",
     [](std::string_view value, Args* args) {
       return ApplyTolerance("atol", value, &args->atol);
     }},
    {"rtol", 0, "R", "Let elements differ by R times the larger of the two",
     kDiff, "0", Completion::kNothing, "",
     [](std::string_view value, Args* args) {
       return ApplyTolerance("rtol", value, &args->rtol);
     }},
    {"bits", 0, "",
     "Count equal values with different bits as different: -0.0 and 0.0, NaNs",
     kDiff, "", Completion::kNothing, "", Switch<&Args::equal_bits>},
    {"unequal-nan", 0, "", "Count NaN as different from NaN", kDiff, "",
     Completion::kNothing, "", Switch<&Args::equal_nan, false>},
    {"ignore-dtype", 0, "", "Compare only values, whatever dtypes they have",
     kDiff, "", Completion::kNothing, "", Switch<&Args::ignore_dtype>},
    {"structure", 0, "", "Compare only names, kinds, shapes and dtypes", kDiff,
     "", Completion::kNothing, "", Switch<&Args::only_structure>},
    {"fingerprint", 0, "",
     "Compare the fingerprints that both were saved with; no tensor is read",
     kDiff, "", Completion::kNothing, "", Switch<&Args::by_fingerprint>},
    {"no-renames", 0, "", "Do not look for leaves that were renamed", kDiff, "",
     Completion::kNothing, "", Switch<&Args::find_renamed, false>},
    {"max-lines", 0, "N", "Print the N worst leaves; 0: all", kDiff, "50",
     Completion::kNothing, "", ApplyMaxLines},
    {"nan", 0, "",
     "Print only tensors with a NaN or an infinity; exit code 1 if there is "
     "one",
     kStats, "", Completion::kNothing, "", Switch<&Args::only_non_finite>},
    {"prefer", 0, "WHICH",
     "Take a leaf that several sources have from the first or the last of "
     "them",
     kMerge, "refuse", Completion::kChoices, "first|last", ApplyPrefer},
    {"prefix", 0, "NAME,...",
     "Put the leaves of each source below a name; one name for each source, "
     "may be empty",
     kMerge, "", Completion::kNothing, "", ApplyPrefix},
    {"average", 0, "",
     "Average the float tensors of sources with the same leaves", kMerge, "",
     Completion::kNothing, "", Switch<&Args::average>},
    {"weights", 0, "W,...", "Average with these weights, one for each source",
     kMerge, "all alike", Completion::kNothing, "", ApplyWeights},
    {"take-first", 0, "",
     "With --average, take leaves that are not floats from the first source; "
     "by default they must be equal in all",
     kMerge, "", Completion::kNothing, "", Switch<&Args::take_first>},
    {"fill", 0, "STEP",
     "Take what is lost from this step, where it has the same leaves", kRescue,
     "", Completion::kFile, "", ApplyFill},
    {"hosts", 0, "N", "Simulate a run of N hosts", kGoodput, "256",
     Completion::kNothing, "", ApplyModelCount<&GoodputModel::host_count>},
    {"mtbf", 0, "TIME", "Mean time between failures of one host", kGoodput,
     "250d", Completion::kNothing, "",
     ApplyModelSeconds<&GoodputModel::host_mtbf_seconds>},
    {"lost-share", 0, "SHARE",
     "Share of these failures that also lose what the host keeps", kGoodput,
     "0.5", Completion::kNothing, "", ApplyLostShare},
    {"domain-hosts", 0, "N", "Number of hosts that fail together, as a rack",
     kGoodput, "1", Completion::kNothing, "",
     ApplyModelCount<&GoodputModel::hosts_per_domain>},
    {"domain-mtbf", 0, "TIME", "Mean time between failures of one such rack",
     kGoodput, "never", Completion::kNothing, "",
     ApplyModelSeconds<&GoodputModel::domain_mtbf_seconds>},
    {"state", 0, "SIZE", "Size of the training state, all hosts together",
     kGoodput, "1T", Completion::kNothing, "",
     ApplyModelBytes<&GoodputModel::state_bytes>},
    {"step-time", 0, "TIME", "Duration of one training step", kGoodput, "10s",
     Completion::kNothing, "", ApplyModelSeconds<&GoodputModel::step_seconds>},
    {"blocking-time", 0, "TIME", "How long a save stops training", kGoodput,
     "1s", Completion::kNothing, "",
     ApplyModelSeconds<&GoodputModel::blocking_seconds>},
    {"local-rate", 0, "SIZE", "Bytes a second that a host saves", kGoodput,
     "2G", Completion::kNothing, "",
     ApplyModelBytes<&GoodputModel::local_bytes_per_second>},
    {"peer-rate", 0, "SIZE", "Bytes a second that a host receives from others",
     kGoodput, "5G", Completion::kNothing, "",
     ApplyModelBytes<&GoodputModel::peer_bytes_per_second>},
    {"shared-rate", 0, "SIZE",
     "Bytes a second that the shared tier reads and writes", kGoodput, "20G",
     Completion::kNothing, "",
     ApplyModelBytes<&GoodputModel::shared_bytes_per_second>},
    {"recovery-time", 0, "TIME",
     "Time from a failure until all processes run again", kGoodput, "5m",
     Completion::kNothing, "",
     ApplyModelSeconds<&GoodputModel::restart_seconds>},
    {"duration", 0, "TIME", "How long a run is simulated", kGoodput, "90d",
     Completion::kNothing, "",
     ApplyModelSeconds<&GoodputModel::simulated_seconds>},
    {"save-every", 0, "N", "Steps between saves on the hosts", kGoodput, "10",
     Completion::kNothing, "", ApplyPolicy<&GoodputPolicy::local_every>},
    {"shared-every", 0, "N",
     "Steps between copies to the shared tier; 0: none are made", kGoodput,
     "1000", Completion::kNothing, "",
     ApplyPolicy<&GoodputPolicy::shared_every>},
    {"data-shards", 0, "N", "Hosts of a group, less the parity", kGoodput, "7",
     Completion::kNothing, "", ApplyPolicy<&GoodputPolicy::data_shards>},
    {"parity-shards", 0, "M", "Hosts of a group that may be lost", kGoodput,
     "1", Completion::kNothing, "", ApplyPolicy<&GoodputPolicy::parity_shards>},
    {"budget", 0, "SIZE",
     "Look for the best policies that keep at most SIZE on a host", kGoodput,
     "", Completion::kNothing, "", ApplyBudget},
    {"all", 0, "", "Check all steps of a directory of steps", kVerify, "",
     Completion::kNothing, "", Switch<&Args::all>},
    {"keep-latest", 0, "N", "Keep the last N steps", kPrune, "",
     Completion::kNothing, "", ApplyKeepLatest},
    {"keep-every", 0, "N", "Keep steps that N divides", kPrune, "",
     Completion::kNothing, "", ApplyKeepEvery},
    {"keep-best", 0, "N", "Keep the N steps whose --metric is best", kPrune, "",
     Completion::kNothing, "", ApplyKeepBest},
    {"metric", 0, "NAME",
     "prune: rank steps by this number in their metrics; log: draw it; "
     "NAME.NAME in nested ones",
     kPrune | kLog, "", Completion::kNothing, "", ApplyMetric},
    {"mode", 0, "WHICH",
     "Say whether the least or the greatest --metric is "
     "best",
     kPrune, "max", Completion::kChoices, "min|max", ApplyMode},
    {"keep-since", 0, "TIME",
     "Keep steps younger than TIME: a number with s, m, h, d or w", kPrune, "",
     Completion::kNothing, "", ApplyKeepSince},
    {"keep-interval", 0, "TIME",
     "Keep the first step, and then the next one whenever TIME has passed",
     kPrune, "", Completion::kNothing, "", ApplyKeepInterval},
    {"keep-steps", 0, "N,...", "Keep these steps; may be repeated", kPrune, "",
     Completion::kNothing, "", ApplyKeepSteps},
    {"yes", 'y', "", "Do it; without --yes, prune only says what it would do",
     kPrune, "", Completion::kNothing, "", Switch<&Args::yes>},
    {"undelete", 0, "STEP", "Take a step back out of the trash", kPrune, "",
     Completion::kNothing, "", ApplyUndelete},
    {"empty-trash", 0, "", "Remove what is in the trash, for good", kPrune, "",
     Completion::kNothing, "", Switch<&Args::empty_trash>},
    {"mesh", 0, "AXES",
     "Lay arrays out on devices in a grid of these axes, such as "
     "data=4,model=2",
     kPlan | kReshard, "as stored", Completion::kNothing, "", ApplyMesh},
    {"spec", 0, "[PATTERN=]SPEC",
     "Cut arrays by these axes: one entry for each dimension, AXIS, "
     "AXIS+AXIS or None; without PATTERN it goes for all arrays with that "
     "many dimensions. May be repeated; the last that matches counts",
     kPlan | kReshard, "as stored, otherwise a copy on each device",
     Completion::kNothing, "", ApplySpec},
    {"ranks", 0, "N",
     "Share the devices among N processes, in order of "
     "device ids",
     kPlan, "one a device", Completion::kNothing, "", ApplyRanks},
    {"rank", 0, "R", "Show only process R", kPlan, "all", Completion::kNothing,
     "", ApplyRank},
    {"step", 0, "N", "Read step N when PATH is a directory of steps", kOpen,
     "the newest committed step", Completion::kNothing, "", ApplyStep},
    {"item", 0, "NAME", "Read only this item of a checkpoint that has several",
     kOpen, "all", Completion::kNothing, "", ApplyItem},
    {"missing", 0, "WHAT",
     "Treat chunks that are not stored as fill values, or refuse them",
     kCat | kWork, "as the checkpoint says", Completion::kChoices,
     "fill|refuse", ApplyMissing},
    {"no-verify", 0, "", "Do not check the checkpoint's own file digests",
     kOpen | kCp, "", Completion::kNothing, "", Switch<&Args::verify, false>},
    {"no-sidecar", 0, "",
     "Show a foreign format's tensors as that format has them, and ignore "
     "the tree that holdfast keeps beside them",
     kOpen, "", Completion::kNothing, "", Switch<&Args::use_sidecar, false>},
    {"threads", 'j', "N", "Work on N threads; 0: one per available CPU", kLong,
     "0", Completion::kNothing, "", ApplyThreads},
    {"ram", 0, "SIZE",
     "Hold at most SIZE bytes of tensors in memory; a chunk larger than that "
     "is handled by itself",
     kLong | kCat, "256M", Completion::kNothing, "", ApplyRam},
    {"mpi", 0, "WHEN",
     "Split the work among the processes that mpirun "
     "started",
     kRanks, "auto: when it did", Completion::kChoices, kWhen,
     [](std::string_view value, Args* args) {
       return ApplyWhen("mpi", value, &args->mpi);
     }},
    {"timeout", 0, "SECONDS", "Wait at most SECONDS for another process",
     kRanks, "600", Completion::kNothing, "", ApplyTimeout},
    {"progress", 0, "WHEN", "Draw a progress bar on standard error", kLong,
     "auto: on a terminal, after one second", Completion::kChoices, kWhen,
     [](std::string_view value, Args* args) {
       return ApplyWhen("progress", value, &args->progress);
     }},
    {"trace", 0, "FILE",
     "Write what was done when, by which thread, to FILE, which Perfetto "
     "shows; %p in its name is the process, %r the rank",
     kLong | kCat, "", Completion::kFile, "", ApplyTrace},
    {"once", 0, "", "Look once, and end", kWatch, "", Completion::kNothing, "",
     Switch<&Args::once>},
    {"interval", 0, "SECONDS", "Look every SECONDS", kWatch, "1",
     Completion::kNothing, "", ApplyInterval},
    {"endpoint", 0, "URL",
     "Use this server for s3:// and gs:// instead of Amazon's or Google's",
     kReports, "as the environment says", Completion::kNothing, "",
     ApplyEndpoint},
    {"region", 0, "NAME", "Say which region s3:// is in", kReports,
     "as the environment says", Completion::kNothing, "",
     SetRemote<&RemoteSettings::region>},
    {"profile", 0, "NAME", "Use this profile's credentials for s3://", kReports,
     "as the environment says", Completion::kNothing, "",
     SetRemote<&RemoteSettings::profile>},
    {"anonymous", 0, "", "Send no credentials to object stores", kReports, "",
     Completion::kNothing, "", SwitchRemote<&RemoteSettings::anonymous>},
    {"requester-pays", 0, "", "Pay for reads from s3://", kReports, "",
     Completion::kNothing, "", SwitchRemote<&RemoteSettings::requester_pays>},
    {"user-project", 0, "ID", "Bill gs:// requests to this project", kReports,
     "", Completion::kNothing, "", SetRemote<&RemoteSettings::user_project>},
    {"requests", 0, "N",
     "Have at most N requests to a store under way at "
     "once",
     kReports, "64", Completion::kNothing, "", ApplyRequests},
    {"no-hedge", 0, "",
     "Do not send a read a second time when it lags far behind the others",
     kReports, "", Completion::kNothing, "",
     SwitchRemote<&RemoteSettings::hedge, false>},
    {"ca-bundle", 0, "FILE", "Trust the certificates in FILE", kReports,
     "the system's", Completion::kFile, "",
     SetRemote<&RemoteSettings::ca_bundle>},
    {"color", 0, "WHEN", "Use colors", kReports,
     "auto: on a terminal, unless NO_COLOR is set", Completion::kChoices, kWhen,
     [](std::string_view value, Args* args) {
       return ApplyWhen("color", value, &args->color);
     }},
    {"quiet", 'q', "",
     "Print results only: no titles, totals, notes or progress", kReports, "",
     Completion::kNothing, "", Switch<&Args::quiet>},
    {"help", 'h', "", "Print help and exit", kEvery, "", Completion::kNothing,
     "", Switch<&Args::help>},
    {"version", 'V', "", "Print the version and exit", kEvery, "",
     Completion::kNothing, "", Switch<&Args::version>},
};

constexpr ExitCode kExitCodes[] = {
    {0, "fine"},
    {1, "the data differ or are damaged"},
    {2, "the command line is wrong"},
    {3, "any other failure: not found, not readable, disk full, no network"},
    {130, "interrupted"},
};

}  // namespace

std::span<const Flag> AllFlags() { return kFlags; }
std::span<const ExitCode> AllExitCodes() { return kExitCodes; }

const Flag* FindFlag(std::string_view name) {
  for (const Flag& flag : kFlags) {
    if (flag.name == name) return &flag;
  }
  return nullptr;
}

const Flag* FindShortFlag(char name) {
  for (const Flag& flag : kFlags) {
    if (flag.short_name != 0 && flag.short_name == name) return &flag;
  }
  return nullptr;
}

bool Applies(const Flag& flag, VerbId verb) {
  return (flag.verbs & Bit(verb)) != 0;
}

bool IsGlobal(const Flag& flag) { return flag.verbs == kEvery; }

}  // namespace holdfast::cli
