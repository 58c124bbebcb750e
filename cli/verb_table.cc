// The verbs: their operands, descriptions and examples.
#include <algorithm>
#include <iterator>
#include <limits>

#include "cli/flags.h"

namespace holdfast::cli {
namespace {

constexpr Example kLsExamples[] = {
    {"holdfast ls /ckpt", "leaves of the newest step"},
    {"holdfast ls /ckpt --step 7 'params.*'", "leaves whose names match"},
    {"holdfast ls --sort size --long /ckpt/7", "the largest leaves first"},
};
constexpr Example kTreeExamples[] = {
    {"holdfast tree /ckpt/7", "the whole tree"},
    {"holdfast tree --depth 2 /ckpt/7", "two levels, sizes below them summed"},
};
constexpr Example kInfoExamples[] = {
    {"holdfast info /ckpt", "what the newest step is and how well it packs"},
    {"holdfast info --json /ckpt/7 | jq .custom_metadata",
     "only the custom metadata"},
};
constexpr Example kCatExamples[] = {
    {"holdfast cat /ckpt/7 step", "one value"},
    {"holdfast cat /ckpt/7 'params.w[0:2, ::-1]'", "a slice, as in numpy"},
    {"holdfast cat --npy /ckpt/7 params.w > w.npy", "a file for np.load"},
    {"holdfast cat --raw /ckpt/7 params.w | sha256sum", "the bytes themselves"},
};
constexpr Example kDigestExamples[] = {
    {"holdfast digest /ckpt/7", "one line a leaf, as sha256sum prints"},
    {"diff <(holdfast digest A) <(holdfast digest B)",
     "compare two checkpoints, whatever their formats"},
};
constexpr Example kVerifyExamples[] = {
    {"holdfast verify /ckpt/7", "read and check everything"},
    {"holdfast verify --quiet /ckpt/7 && cp -r /ckpt/7 /backup",
     "copy only what is sound"},
    {"holdfast verify /ckpt", "the newest step that is sound"},
    {"mpirun -np 8 holdfast verify /ckpt/7", "check an eighth each"},
};
constexpr Example kStepsExamples[] = {
    {"holdfast steps /ckpt", "every step, and why some do not count"},
    {"holdfast steps --json /ckpt | jq '.steps[] | select(.committed).step'",
     "numbers of committed steps"},
};
constexpr Example kLogExamples[] = {
    {"holdfast log /ckpt", "every step, the newest first"},
    {"holdfast log -n 20 --metric loss /ckpt",
     "the newest 20, and how loss "
     "has gone"},
    {"holdfast log --moved --cache /tmp/c /ckpt",
     "and which tensors moved most since the step before"},
};
constexpr Example kBisectExamples[] = {
    {"holdfast bisect /ckpt --bad-if 'nan(params.*)'",
     "the first step with "
     "a NaN"},
    {"holdfast bisect /ckpt --bad-if 'l2(*.bias) > 50 or metric(loss) > 9'",
     "of several conditions"},
    {"holdfast bisect /ckpt --good 1000 --run 'python check.py {}'",
     "asking a program, from step 1000 on"},
};
constexpr Example kPruneExamples[] = {
    {"holdfast prune /ckpt --keep-latest 3 --keep-every 1000", "what would go"},
    {"holdfast prune /ckpt --keep-best 2 --metric loss --mode min --yes",
     "into the trash"},
    {"holdfast prune /ckpt --undelete 7", "and back"},
    {"holdfast prune /ckpt --empty-trash --yes", "for good"},
};
constexpr Example kDuExamples[] = {
    {"holdfast du /ckpt", "bytes by step, item and kind of file"},
    {"holdfast du --json /ckpt | jq .total_bytes", "only the sum"},
};
constexpr Example kPlanExamples[] = {
    {"holdfast plan /ckpt/7", "as it was saved"},
    {"holdfast plan /ckpt/7 --mesh data=4,model=2 --spec data,model",
     "on eight devices, matrices cut both ways"},
    {"holdfast plan /ckpt/7 --mesh x=8 --spec x --spec 'emb.*=None,x' --ranks "
     "2",
     "two processes of four devices; rules by name"},
};
constexpr Example kServeExamples[] = {
    {"holdfast serve /ckpt", "the newest step, and all others"},
    {"holdfast serve s3://bucket/run --port 0", "any free port"},
    {"curl -r 0-99 http://127.0.0.1:8017/as/safetensors/model.safetensors",
     "read from it"},
};
constexpr Example kConvertExamples[] = {
    {"holdfast convert /ckpt/7 /new/7 --to orbax-v1 --zarr 3",
     "the newer format"},
    {"holdfast convert /ckpt /params --ocdbt no 'params.*'",
     "some leaves of the newest step, a directory each"},
    {"holdfast convert /ckpt/7 w.safetensors --select params --cast "
     "'*=bfloat16'",
     "only the weights, cast, for others"},
    {"mpirun -np 8 holdfast convert --ram 1G /ckpt/7 /new/7",
     "eight processes write a part each"},
};
constexpr Example kReshardExamples[] = {
    {"holdfast reshard /ckpt/7 /new/7 --mesh data=4,model=2 --spec data,model",
     "as eight devices would have saved it"},
    {"holdfast reshard /megatron/7 /new/7 --shards 'decoder.*=4,1'",
     "matrices of a Megatron zarr checkpoint in four chunks each"},
};
constexpr Example kDiffExamples[] = {
    {"holdfast diff /ckpt/7 /ckpt/8", "what a step has changed"},
    {"holdfast diff /ckpt/7 /new/7.safetensors --rtol 1e-2 --ignore-dtype",
     "whether a cast copy is still the same"},
    {"holdfast diff --fingerprint /ckpt/7 /ckpt/8",
     "which tensors have changed, by the fingerprints of both"},
    {"holdfast diff --structure --json A B | jq .leaves[].name",
     "names of leaves that do not match"},
};
constexpr Example kStatsExamples[] = {
    {"holdfast stats /ckpt 'params.*'", "weights of the newest step"},
    {"holdfast stats --nan /ckpt/7 || echo broken", "look for NaN"},
    {"holdfast stats --sort absmax /ckpt/7", "the largest weights first"},
};
constexpr Example kReportExamples[] = {
    {"holdfast report /ckpt/7 -o r.html", "open it in any browser"},
    {"holdfast report /ckpt --against /ckpt/6 --verify",
     "the newest step, what moved since step 6, and whether all is sound"},
};
constexpr Example kTopExamples[] = {
    {"holdfast top /ckpt", "all steps, and what is in them"},
    {"holdfast top --watch s3://bucket/run", "while a job saves there"},
};
constexpr Example kMergeExamples[] = {
    {"holdfast merge /base /adapter /both --prefix ,adapter",
     "the leaves of both, one below a name"},
    {"holdfast merge /ckpt/7 /ckpt/8 /ckpt/9 /soup --average",
     "the mean of three steps"},
    {"holdfast merge /a /b /soup --weights 0.7,0.3 --take-first",
     "a weighted one; step counters from the first"},
};
constexpr Example kRescueExamples[] = {
    {"holdfast rescue /ckpt/7.orbax-checkpoint-tmp /rescued/7",
     "every tensor that is whole in a save that never ended"},
    {"holdfast rescue /ckpt/7 /rescued/7 --fill /ckpt/6 --json | jq .lost",
     "what is lost, and taken from the step before"},
};
constexpr Example kCpExamples[] = {
    {"holdfast cp /ckpt/7 gs://bucket/run/7", "a step into an object store"},
    {"holdfast cp s3://bucket/run /ckpt",
     "a root with all its steps; again, and only new ones are fetched"},
    {"holdfast cp --verify gs://bucket/run/7 s3://other/run/7",
     "from store to store, and checked there"},
    {"holdfast cp https://host/ckpt/7 ./7", "what a web server has"},
};
constexpr Example kMaterializeExamples[] = {
    {"holdfast materialize /ckpt/llama", "in its place"},
    {"holdfast materialize /ckpt/llama /own/llama --compression planes",
     "elsewhere, and smaller"},
};
constexpr Example kViewExamples[] = {
    {"holdfast view /models/llama /ckpt/llama",
     "a model of Hugging Face that Orbax restores, without a second copy"},
    {"holdfast view model.pt /ckpt/model --link hard",
     "one that stays when the original's name goes"},
    {"holdfast view /models/llama /ckpt/llama --map llama-to-maxtext",
     "with the names, stacks and axes that MaxText wants"},
    {"holdfast view /models/llama /ckpt/llama --checksums",
     "read it once, and know every byte again"},
};
constexpr Example kRecipesExamples[] = {
    {"holdfast recipes", "the names, and what each is for"},
    {"holdfast recipes llama-to-flax > mine.json", "one to start from"},
};
constexpr Example kDoctorExamples[] = {
    {"holdfast doctor s3://bucket/run", "try all that holdfast needs there"},
    {"holdfast doctor --read-only gs://bucket/run",
     "where nothing may be written"},
    {"holdfast doctor --json s3://bucket | jq .checks", "for programs"},
};
constexpr Example kWatchExamples[] = {
    {"holdfast watch /ckpt", "until interrupted"},
    {"holdfast watch --once --json /ckpt | jq .saves", "for programs"},
};
constexpr Example kProveExamples[] = {
    {"holdfast prove-crash -- python3 save.py {root}", "of a program of yours"},
    {"holdfast prove-crash --library orbax --library holdfast",
     "of libraries, side by side"},
    {"holdfast prove-crash --library holdfast --without-sync '.'",
     "what if the root were never synced?"},
    {"holdfast prove-crash --check 'python3 check.py {root}' -- sh save.sh",
     "by rules of your own"},
};
constexpr Example kGoodputExamples[] = {
    {"holdfast goodput --hosts 1024 --state 4T --mtbf 2500h --budget 64G",
     "what to choose"},
    {"holdfast goodput --hosts 1024 --save-every 10 --parity-shards 2",
     "what a choice is worth"},
    {"holdfast goodput /dev/shm --hosts 64", "as fast as this machine saves"},
};
constexpr Example kHelpExamples[] = {
    {"holdfast help cat", "help of one verb"},
};
constexpr Example kCompletionExamples[] = {
    {"source <(holdfast completion bash)", "complete in this shell"},
    {"holdfast completion fish > ~/.config/fish/completions/holdfast.fish",
     "complete in every fish"},
};
constexpr Example kManExamples[] = {
    {"holdfast man > holdfast.1 && man -l holdfast.1", "read the manual page"},
};

constexpr size_t kAny = std::numeric_limits<size_t>::max();

// In the order of VerbId.
constexpr Verb kVerbs[] = {
    {VerbId::kLs, "ls", "PATH [PATTERN...]", 1, kAny, "List leaves",
     "Lists the leaves of a checkpoint: name, kind, dtype and shape, chunks, "
     "bytes stored and decoded, codec. A PATTERN selects a leaf by name, all "
     "leaves below a name, or what a glob (*, ?, [abc], {a,b}) matches; * also "
     "matches dots, and / may stand for one. No tensor is read.",
     kLsExamples, Completion::kFile, "", false},
    {VerbId::kTree, "tree", "PATH", 1, 1, "Show leaves as a tree",
     "Shows the tree of a checkpoint with a summary of each leaf. No tensor is "
     "read.",
     kTreeExamples, Completion::kFile, "", false},
    {VerbId::kInfo, "info", "PATH", 1, 1, "Summarise a checkpoint",
     "Shows the format, step, items and layout of a checkpoint, how many "
     "leaves and bytes it has, their dtypes, its metadata and times. No "
     "tensor is read.",
     kInfoExamples, Completion::kFile, "", false},
    {VerbId::kCat, "cat", "PATH [NAME[SLICE]]", 1, 2, "Print one value",
     "Prints a leaf, or a slice of it written as in numpy: integers, a:b:c, "
     "negative ones, and `...`. The whole argument is tried as a name first, "
     "so names may contain brackets. NAME may be left out when there is one "
     "leaf. Only the chunks that are needed are read. --npy stores bfloat16 "
     "and other types that numpy has no name for as raw bytes (<V2), as "
     "np.save does; view them back with ml_dtypes.",
     kCatExamples, Completion::kFile, "", false},
    {VerbId::kDigest, "digest", "PATH [PATTERN...]", 1, kAny,
     "Print the sha256 of each leaf",
     "Prints the sha256 of each leaf's value: elements in C order, little "
     "endian; text as UTF-8. Equal values have equal digests in every format, "
     "chunking and compression. PATTERN is as for ls.",
     kDigestExamples, Completion::kFile, "", false},
    {VerbId::kVerify, "verify", "PATH", 1, 1, "Check every byte",
     "Reads everything that a restore could depend on, checks every checksum "
     "there is, and names each damaged leaf, file and offset. Exit code 1 "
     "means damage. For a directory of steps it checks the newest committed "
     "step, then older ones until one is sound, and names that. Processes "
     "started by mpirun check a part each; the first of them prints.",
     kVerifyExamples, Completion::kFile, "", false},
    {VerbId::kSteps, "steps", "ROOT", 1, 1, "List the steps of a root",
     "Lists the step directories of a root: time, size, items, metrics, and "
     "whether each is committed or why not.",
     kStepsExamples, Completion::kFile, "", false},
    {VerbId::kLog, "log", "ROOT", 1, 1, "Show the history of a run",
     "Prints a line for each step of a root, newest first: when it was "
     "committed, its size, how long its save took where that is recorded, its "
     "metrics, and whether it is whole. --metric draws one of them over the "
     "steps, --moved names the tensors that moved most since the step before, "
     "relative to what they were. No tensor is read without --moved.",
     kLogExamples, Completion::kFile, "", false},
    {VerbId::kBisect, "bisect", "ROOT", 1, 1, "Find the first bad step",
     "Looks for the first step that is bad, by --bad-if or by --run, in as "
     "many looks as the logarithm of the number of steps: first at the newest, "
     "which must be bad, then at the oldest, which must be good. Only the "
     "tensors that the predicate names are read. Steps that are damaged, or "
     "lack what is asked for, are passed over and named; where they hide the "
     "answer all candidates are printed, and the exit code is 1.",
     kBisectExamples, Completion::kFile, "", false},
    {VerbId::kPrune, "prune", "ROOT", 1, 1,
     "Remove the steps that no --keep "
     "option keeps",
     "Removes the committed steps of a root that no --keep option keeps; the "
     "newest always stays. Without --yes it only says what it would do. With "
     "--yes it moves each step into ROOT/.holdfast_trash by one rename; the "
     "step stays there until --empty-trash --yes, and --undelete brings it "
     "back.",
     kPruneExamples, Completion::kFile, "", false},
    {VerbId::kDu, "du", "ROOT", 1, 1, "Show what takes the disk space",
     "Shows how many bytes each step, item and kind of file takes. A file "
     "with several names (hard links) is counted once, for the oldest step; "
     "its other names are shown as shared.",
     kDuExamples, Completion::kFile, "", false},
    {VerbId::kPlan, "plan", "PATH [PATTERN...]", 1, kAny,
     "Show what each process would hold, write and read",
     "Shows, for a mesh of devices and processes, which box of each array "
     "each device holds and writes, which chunks each process reads to "
     "restore, and how even that is. Bytes are those of the elements, "
     "uncompressed. No tensor is read. PATTERN is as for ls.",
     kPlanExamples, Completion::kFile, "", false},
    {VerbId::kConvert, "convert", "SOURCE TARGET [PATTERN...]", 2, kAny,
     "Write a checkpoint again in another layout",
     "Writes the checkpoint SOURCE again at TARGET, in another format, "
     "chunking or compression, without holding it in memory, and then "
     "compares the two. Names, values and metadata stay. A stored chunk is "
     "read more than once only if it is larger than --ram allows, or if the "
     "places that need it are further apart than that. Processes started by "
     "mpirun read and write a part each, and each may use --ram. An "
     "interrupted conversion continues when you run the same command again. "
     "PATTERN is as for ls.",
     kConvertExamples, Completion::kFile, "", false},
    {VerbId::kReshard, "reshard", "SOURCE TARGET [PATTERN...]", 2, kAny,
     "Write a checkpoint again for another mesh",
     "Writes the checkpoint SOURCE again at TARGET as a run on the devices "
     "of --mesh would have saved it: the shardings it records, and chunks "
     "that no border between devices cuts; or, with --shards, it writes "
     "Megatron's zarr arrays in other chunks. Everything else is as for "
     "convert. Any checkpoint can be restored on any mesh; this makes it "
     "fast.",
     kReshardExamples, Completion::kFile, "", false},
    {VerbId::kDiff, "diff", "A B [PATTERN...]", 2, kAny,
     "Show the differences between two checkpoints",
     "Compares two checkpoints of any formats: names first, then kinds, "
     "shapes and dtypes, then every value, exactly. Prints the worst leaves "
     "first, with how many elements differ, the largest |a - b|, the largest "
     "|a - b| / max(|a|, |b|), and the first place. NaN equals NaN. With "
     "--atol and --rtol elements may differ by atol + rtol * max(|a|, |b|). "
     "Leaves that seem to be renamed are shown as such; --map and its kin "
     "say what leaves of A are called in B. Exit code 1 means that they "
     "differ. PATTERN is as for ls.",
     kDiffExamples, Completion::kFile, "", false},
    {VerbId::kStats, "stats", "PATH [PATTERN...]", 1, kAny,
     "Summarise the numbers of each tensor",
     "Prints, for each tensor and for all together, the least and the "
     "largest element, mean, standard deviation, l2 norm, and how many "
     "elements are 0, NaN or infinite. Everything but these counts is "
     "computed from finite elements only. PATTERN is as for ls.",
     kStatsExamples, Completion::kFile, "", false},
    {VerbId::kReport, "report", "PATH", 1, 1,
     "Show a checkpoint as one HTML page",
     "Writes a page that any browser opens, without a network: a map of the "
     "modules by parameters or bytes, a table that can be searched and sorted, "
     "and of each tensor its layout, statistics and histogram; of a root of "
     "steps also their sizes, times and metrics. Each tensor is read once, in "
     "the memory that --ram allows. The exit code is 1 when something is "
     "damaged.",
     kReportExamples, Completion::kFile, "", false},
    {VerbId::kServe, "serve", "[PATH...]", 0, kAny,
     "Serve checkpoints over HTTP, to look at and to read from",
     "Prints the address, and answers until it is interrupted: the page of "
     "report for each checkpoint and step, and below /as/ the checkpoint as "
     "files of other formats that are made while they are read "
     "(safetensors, npz, zarr), with ranges and ETags; below /files/ its own. "
     "PATH is a checkpoint or a root of steps, here or at a URL. Nothing is "
     "written. Only this machine is served, unless --host says otherwise; "
     "others need the token.",
     kServeExamples, Completion::kFile, "", false},
    {VerbId::kTop, "top", "PATH", 1, 1,
     "Walk through steps and tensors in a terminal",
     "Shows the steps of a root with their sizes, ages and metrics, and of the "
     "one that is chosen the modules with parameters, bytes, norms, and how "
     "far they have drifted since the step before. Enter shows a tensor's "
     "histogram and values, / searches, d compares with the step before, v "
     "verifies, ? lists all keys, q quits. Tensors are measured in the "
     "background, in the memory that --ram allows.",
     kTopExamples, Completion::kFile, "", false},
    {VerbId::kMerge, "merge", "SOURCE SOURCE... TARGET", 3, kAny,
     "Make one checkpoint of several",
     "Writes the leaves of all SOURCEs as one checkpoint at TARGET, or with "
     "--average the mean of each float tensor, weighted and rounded once. "
     "Sources may have any formats. A name that two of them have is an "
     "error, unless --prefer or --prefix say otherwise. Only the pieces "
     "under way are held in memory, and the result is read back and compared.",
     kMergeExamples, Completion::kFile, "", false},
    {VerbId::kRescue, "rescue", "PATH OUT", 2, 2,
     "Save what is left of a damaged checkpoint",
     "Writes to OUT a clean, committed Orbax step that holds every tensor of "
     "PATH that is whole, and lists what is lost and why. PATH has any format, "
     "and may be a save that never ended; a database whose manifest or nodes "
     "are lost is put together again from its data files. A tensor counts as "
     "whole when each of its bytes is there and passes every check that the "
     "format has. PATH is never written to. The exit code is 0 when all is "
     "whole, and 1 when something is lost.",
     kRescueExamples, Completion::kFile, "", false},
    {VerbId::kCp, "cp", "SOURCE TARGET", 2, 2,
     "Copy a checkpoint, or any files, from anywhere to anywhere",
     "Copies the file or directory SOURCE to TARGET, the exact place; both "
     "may be paths or URLs of object stores (gs://, s3://), SOURCE also of a "
     "web server or a model hub (hf://). Bytes go through memory, bounded by "
     "--ram, and never "
     "through a temporary file; within one bucket the server copies. A "
     "checkpoint counts at TARGET only once it is whole: an object store "
     "gets its marker last, and on disk it gets its name last. An "
     "interrupted copy continues when you run the same command again; files "
     "that are at TARGET already and equal are left alone. Unfinished "
     "checkpoints are not copied.",
     kCpExamples, Completion::kFile, "", false},
    {VerbId::kView, "view", "SOURCE TARGET [PATTERN...]", 2, kAny,
     "Show a checkpoint of any format as Orbax's, without copying it",
     "Makes TARGET a checkpoint of Orbax's format whose chunks are ranges of "
     "SOURCE's files: safetensors, files of torch.save, npz, torch's "
     "distributed checkpoints, Megatron's zarr, Orbax's uncompressed ones. The "
     "files come in as links (in a bucket as copies that the server makes, "
     "with --link copy); no byte of a tensor is read or written. Only "
     "tensors that cannot be referred to (compressed, cast, elements that lie "
     "apart) are copied, and are listed with the reason. The source must stay "
     "as it is: a file that has changed is noticed whenever TARGET is opened. "
     "When SOURCE is safetensors, TARGET is a model, too. With --as "
     "safetensors TARGET is a model whose files are those of an Orbax "
     "checkpoint that was saved as both. PATTERN is as for ls.",
     kViewExamples, Completion::kFile, "", false},
    {VerbId::kMaterialize, "materialize", "VIEW [TARGET]", 1, 2,
     "Give a view bytes of its own",
     "Writes what VIEW refers to into a checkpoint of its own at TARGET, or "
     "without one in the view's place, which the new checkpoint takes once it "
     "is whole and has been compared. The view's sources stay as they are, and "
     "may go then.",
     kMaterializeExamples, Completion::kFile, "", false},
    {VerbId::kRecipes, "recipes", "[NAME]", 0, 1,
     "List the recipes that map one model's names to another's",
     "Prints the names of the recipes that come with holdfast, or the text of "
     "one. convert and view take them by --map.",
     kRecipesExamples, Completion::kNothing, "", false},
    {VerbId::kDoctor, "doctor", "URL", 1, 1,
     "Check that an object store can be used, and how fast it is",
     "Shows which credentials are used for URL and where they were found, "
     "the endpoint, region, latency and throughput, and how far the server's "
     "clock is from ours; then tries everything that holdfast needs below "
     "URL: listing, reading, writing, writing on a condition, uploads in "
     "parts, deleting. It removes what it writes. Secrets are never shown. "
     "Exit code 3 means that something does not work.",
     kDoctorExamples, Completion::kNothing, "", false},
    {VerbId::kWatch, "watch", "ROOT", 1, 1,
     "Show the saves that are under way, rank by rank",
     "Shows of every rank of each save to ROOT, or below it, which phase it "
     "is in, for how long, how fast, and when it should be done; and which "
     "ranks the others wait for. Saves that last less than a second (in an "
     "object store ten) are not seen. Where standard output is not a "
     "terminal, prints a line for each change.",
     kWatchExamples, Completion::kFile, "", false},
    {VerbId::kProveCrash, "prove-crash", "[-- COMMAND...]", 0, kAny,
     "Show what a power loss could cost a program that saves",
     "Runs COMMAND with a directory ({root} in its words, HOLDFAST_PROVE_ROOT "
     "in its environment) and records every change that it and its children "
     "make there. Then replays what a disk may hold after a power loss at each "
     "moment, under each kind of loss, and judges it: whether every checkpoint "
     "that is listed loads as it was saved, and none that was saved is gone. "
     "Each kind of failure is printed once, with the sync that would have "
     "prevented it. Exit code 1 when there are any, 3 when the record is not "
     "complete. Linux on x86-64 and aarch64; the command may not be setuid, "
     "nor use io_uring, which is refused to it.",
     kProveExamples, Completion::kNothing, "", false},
    {VerbId::kGoodput, "goodput", "[DIRECTORY]", 0, 1,
     "Show what share of its time a run trains",
     "Plays a run whose hosts keep its steps, with parity between them, "
     "failure "
     "by failure: what share of the time are steps that are not done again, "
     "and where the rest goes. With --budget, looks for the policies that are "
     "best and keep at most that much on a host. DIRECTORY is saved to once, "
     "to measure --local-rate. TIME is a number with s, m, h, d or w; rates "
     "are bytes a second.",
     kGoodputExamples, Completion::kFile, "", false},
    {VerbId::kHelp, "help", "[VERB]", 0, 1, "Print help",
     "Prints help for all verbs or for one.", kHelpExamples,
     Completion::kChoices, "", false},
    {VerbId::kCompletion, "completion", "SHELL", 1, 1,
     "Print a shell completion script",
     "Prints a completion script for bash, zsh or fish.", kCompletionExamples,
     Completion::kChoices, "bash|zsh|fish", true},
    {VerbId::kMan, "man", "", 0, 0, "Print the manual page in roff",
     "Prints the manual page, in the format that man(1) reads.", kManExamples,
     Completion::kNothing, "", true},
};
static_assert(std::size(kVerbs) == kVerbCount);

}  // namespace

std::span<const Verb> AllVerbs() { return kVerbs; }

const Verb& VerbOf(VerbId id) { return kVerbs[static_cast<size_t>(id)]; }

const Verb* FindVerb(std::string_view name) {
  for (const Verb& verb : kVerbs) {
    if (verb.name == name) return &verb;
  }
  return nullptr;
}

}  // namespace holdfast::cli
