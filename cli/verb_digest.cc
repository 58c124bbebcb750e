// digest: prints the sha256 of each leaf's value.

#include <algorithm>
#include <memory>

#include "cli/digest_leaves.h"
#include "cli/element_text.h"
#include "cli/failures.h"
#include "cli/leaf_text.h"
#include "cli/progress_bar.h"
#include "cli/select.h"
#include "cli/units.h"
#include "cli/verbs.h"
#include "holdfast/checkpoint.h"
#include "holdfast/read_again.h"

namespace holdfast::cli {
namespace {

std::vector<Result<std::string>> Digests(const Checkpoint& checkpoint,
                                         const std::vector<size_t>& selected,
                                         const Args& args, Env& env) {
  LeafTotals totals;
  for (const size_t i : selected) totals.Add(checkpoint.leaves()[i]);
  DigestOptions options;
  options.threads = args.run.threads;
  options.ram_bytes_max = args.run.memory_bytes;
  options.cancel = env.cancel;
  if (!UseProgress(args, env)) {
    return DigestLeaves(checkpoint, selected, options);
  }
  ProgressBar bar(env.err, env.now_seconds,
                  {.label = "digest", .columns = env.columns});
  options.done = [&](uint64_t done_bytes) {
    bar.Update(done_bytes, totals.decoded_bytes);
  };
  return DigestLeaves(checkpoint, selected, options);
}

// Writes the value itself if the leaf is so small that the value says more than
// a digest.
Status WriteValue(const Checkpoint& checkpoint, size_t leaf, JsonWriter* json) {
  const LeafInfo& info = checkpoint.leaves()[leaf];
  if (info.kind == ValueKind::kScalar) {
    const auto array = checkpoint.Read(leaf);
    if (!array.ok()) return array.status();
    json->Key("value");
    WriteElement(array->dtype(), array->view().data, json);
  }
  if (info.kind == ValueKind::kString) {
    const auto text = checkpoint.ReadText(leaf);
    if (!text.ok()) return text.status();
    json->Field("value", *text);
  }
  return Status();
}

Status WriteLeafDigest(const Checkpoint& checkpoint, size_t leaf,
                       const Result<std::string>& digest, JsonWriter* json) {
  const LeafInfo& info = checkpoint.leaves()[leaf];
  json->BeginObject();
  json->Field("name", info.name);
  json->StringsField("key", info.key);
  WriteTypeFields(info, json);
  WriteShapeField(info, json);
  Status status = digest.status();
  if (digest.ok()) {
    json->Field("sha256", *digest);
    status = WriteValue(checkpoint, leaf, json);
  } else {
    json->NullField("sha256");
  }
  if (!info.prng_impl.empty()) json->Field("prng_impl", info.prng_impl);
  if (!status.ok()) json->Field("error", status.ToString());
  json->EndObject();
  return status;
}

int PrintDigestJson(const Checkpoint& checkpoint,
                    const std::vector<size_t>& selected,
                    const std::vector<Result<std::string>>& digests, Env& env) {
  JsonWriter json(env.out);
  json.BeginObject();
  json.Field("path", checkpoint.info().path);
  json.Field("format", checkpoint.info().format);
  json.Key("leaves");
  json.BeginArray();
  int code = kExitFine;
  for (size_t i = 0; i < selected.size(); ++i) {
    const Status status =
        WriteLeafDigest(checkpoint, selected[i], digests[i], &json);
    if (!status.ok()) code = WorseExit(code, Fail(env, status));
  }
  json.EndArray();
  json.EndObject();
  env.out << '\n';
  return code;
}

int PrintDigestText(const Checkpoint& checkpoint,
                    const std::vector<size_t>& selected,
                    const std::vector<Result<std::string>>& digests, Env& env) {
  int code = kExitFine;
  for (size_t i = 0; i < selected.size(); ++i) {
    if (digests[i].ok()) {
      env.out << *digests[i] << "  "
              << PrintableText(checkpoint.leaves()[selected[i]].name) << '\n';
    } else {
      code = WorseExit(code, Fail(env, digests[i].status()));
    }
  }
  return code;
}

}  // namespace

int RunDigest(const Args& args, Env& env) {
  std::unique_ptr<Checkpoint> opened;
  std::vector<size_t> selected;
  std::vector<Result<std::string>> digests;
  const Status read = ReadAgainIfReplaced(args.operands[0], [&]() -> Status {
    auto found = Open(args.operands[0], args.open);
    if (!found.ok()) return found.status();
    opened = *std::move(found);
    auto leaves =
        SelectLeaves(opened->leaves(), std::span(args.operands).subspan(1),
                     PatternKindOf(args));
    if (!leaves.ok()) return leaves.status();
    selected = *std::move(leaves);
    digests = Digests(*opened, selected, args, env);
    const auto replaced = std::ranges::find_if(
        digests, [](const auto& digest) { return WasReplaced(digest); });
    return replaced == digests.end() ? Status() : replaced->status();
  });
  if (!read.ok()) return Fail(env, read);
  // A partial list must not pass for a complete one.
  if (env.cancelled()) return Fail(env, CancelledError("interrupted"));
  return args.json ? PrintDigestJson(*opened, selected, digests, env)
                   : PrintDigestText(*opened, selected, digests, env);
}

}  // namespace holdfast::cli
