#include "cli/args.h"

namespace holdfast::cli {

PatternKind PatternKindOf(const Args& args) {
  return args.regex ? PatternKind::kRegex : PatternKind::kGlob;
}

RunOptions RunOptionsOf(const Args& args, const Env& env) {
  RunOptions run = args.run;
  run.cancel = env.cancel;
  return run;
}

bool UseColor(const Args& args, const Env& env) {
  if (args.color != When::kAuto) return args.color == When::kAlways;
  return env.out_is_terminal && !env.no_color;
}

TableStyle TableStyleOf(const Args& args, const Env& env) {
  TableStyle style = {.with_titles = !args.quiet, .utf8 = env.utf8};
  if (env.out_is_terminal && !args.wide) {
    style.columns_max = static_cast<size_t>(env.columns);
  }
  return style;
}

void BeginListing(const Args& args, Env& env) {
  const bool is_read_by_people =
      env.out_is_terminal && !args.json && args.use_pager;
  if (is_read_by_people && env.start_pager) env.start_pager();
}

bool UseProgress(const Args& args, const Env& env) {
  if (args.progress != When::kAuto) return args.progress == When::kAlways;
  return env.err_is_terminal && !args.quiet;
}

}  // namespace holdfast::cli
