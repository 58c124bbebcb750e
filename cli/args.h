// The arguments that verbs share, parsed but not yet executed.
//
// Thread-safety: a value.
// Units: bytes; seconds; steps are checkpoint step numbers.
#pragma once

#include <string>
#include <vector>

#include "cli/env.h"
#include "cli/select.h"
#include "cli/text_table.h"
#include "cli/words.h"
#include "holdfast/options.h"
#include "holdfast/tools/remote.h"

namespace holdfast::cli {

// The options that many verbs take. A verb with options of its own has a struct
// that adds them.
struct Args {
  const Verb* verb = nullptr;
  std::vector<std::string> operands;

  bool json = false;
  bool quiet = false;
  When color = When::kAuto;
  When progress = When::kAuto;
  bool wide = false;
  bool use_pager = true;
  bool regex = false;  // patterns are regular expressions

  OpenOptions open;
  RunOptions run;
  When mpi = When::kAuto;
  double timeout_seconds = 600;
  std::string trace;      // a file; empty: none
  RemoteSettings remote;  // how object stores are reached

  // Calls fn(name, member) for each option, by its name in the table.
  template <typename Fn>
  void Fields(const Fn& fn) {
    fn("json", json);
    fn("quiet", quiet);
    fn("color", color);
    fn("progress", progress);
    fn("wide", wide);
    fn("pager", use_pager);
    fn("regex", regex);
    fn("step", open.step);
    fn("item", open.item);
    fn("missing_chunks", open.missing_chunks);
    fn("verify", open.verify);
    fn("sidecar", open.use_sidecar);
    fn("threads", run.threads);
    fn("memory_bytes", run.memory_bytes);
    fn("mpi", mpi);
    fn("timeout_seconds", timeout_seconds);
    fn("trace", trace);
    fn("endpoint", remote.endpoint);
    fn("region", remote.region);
    fn("profile", remote.profile);
    fn("anonymous", remote.anonymous);
    fn("requester_pays", remote.requester_pays);
    fn("user_project", remote.user_project);
    fn("requests", remote.requests_in_flight_max);
    fn("hedge", remote.hedge);
    fn("ca_bundle", remote.ca_bundle);
  }
};

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
