#include "engine/commit/known_formats.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <initializer_list>

#include "engine/format/directory_names.h"
#include "formats/pickle/legacy_file.h"
#include "formats/zip/zip_format.h"
#include "ground/base/coding.h"
#include "ground/base/status_macros.h"
#include "ground/base/utf8.h"
#include "stores/place/directory_ops.h"

namespace holdfast {
namespace {

using Names = std::initializer_list<std::string_view>;

constexpr size_t kNamesInWords = 3;
// Limits the directories that are searched below a directory, and the names
// that are examined. Each may cost a request to a server.
constexpr size_t kLookedIntoMax = 32;
constexpr size_t kLookedAtMax = 4096;
// The maximum length of a text shown in a message.
constexpr size_t kShownBytes = 60;
constexpr size_t kSafetensorsStartBytes = 9;  // a length and '{'

// Returns whether the name fits a pattern that may have a '*' at its start, its
// end or both.
bool Fits(std::string_view name, std::string_view glob) {
  if (glob.empty()) return false;
  const bool is_open_front = glob.front() == '*';
  const bool is_open_end = glob.back() == '*';
  if (is_open_front) glob.remove_prefix(1);
  if (is_open_end) glob.remove_suffix(1);
  if (is_open_front && is_open_end) return name.find(glob) != name.npos;
  if (is_open_front) return name.size() > glob.size() && name.ends_with(glob);
  return is_open_end ? name.starts_with(glob) : name == glob;
}

bool FitsAny(std::string_view name, const KnownFormat::Signs& globs) {
  return std::ranges::any_of(
      globs, [&](std::string_view glob) { return Fits(name, glob); });
}

bool EndsWithAny(std::string_view name, Names suffixes) {
  return std::ranges::any_of(suffixes, [&](std::string_view suffix) {
    return name.size() > suffix.size() && name.ends_with(suffix);
  });
}

bool IsAny(std::string_view name, Names names) {
  return std::ranges::find(names, name) != names.end();
}

bool StartsWithAny(const FileStart& start, Names magics) {
  return std::ranges::any_of(magics, [&](std::string_view magic) {
    return start.bytes.starts_with(magic);
  });
}

// Returns the file's start in lower case, without leading white space.
std::string PlainStart(const FileStart& start) {
  std::string text = start.bytes;
  if (text.starts_with("\xef\xbb\xbf")) text.erase(0, 3);
  const size_t begin = text.find_first_not_of(" \t\r\n");
  text.erase(0, std::min(begin, text.size()));
  for (char& c : text) {
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return text;
}

bool LooksLikeSafetensors(const FileStart& start) {
  if (start.bytes.size() < kSafetensorsStartBytes) return false;
  const auto length = LoadLittle<uint64_t>(start.bytes.data());
  return length >> 32 == 0 && start.bytes[kSafetensorsStartBytes - 1] == '{';
}

// Returns the name of a zip archive's first member; "" for any other file.
std::string_view FirstMember(const FileStart& start) {
  const std::string_view bytes = start.bytes;
  if (!bytes.starts_with("PK\x03\x04") || bytes.size() < pickle::kLocalBytes) {
    return "";
  }
  return bytes.substr(pickle::kLocalBytes,
                      LoadLittle<uint16_t>(bytes.data() + 26));
}

// Returns whether the file is a torch.save archive, in which all members are in
// one folder. Which member comes first depends on the program that wrote or
// repacked it.
bool IsTorchArchive(const FileStart& start) {
  const std::string_view member = FirstMember(start);
  const size_t slash = member.find('/');
  if (slash == member.npos || member.ends_with(".npy")) return false;
  const std::string_view name = member.substr(slash + 1);
  return name.starts_with("data/") || name.starts_with("code/") ||
         name.starts_with(".") ||
         IsAny(name, {"", "data", "data.pkl", "version", "byteorder",
                      "constants.pkl"});
}

bool IsNpz(const FileStart& start) {
  const bool is_zip = StartsWithAny(start, {"PK\x03\x04", "PK\x05\x06"});
  const std::string_view member = FirstMember(start);
  return (is_zip && start.name.ends_with(".npz")) || member.ends_with(".npy") ||
         member == "holdfast.tree.json";
}

// Returns whether the file begins with a map whose first key is a string. Any
// other map is probably not a tree.
bool IsMsgpackTree(const FileStart& start) {
  const std::string& bytes = start.bytes;
  if (bytes.size() < 4) return false;
  const auto at = [&](size_t i) {
    return static_cast<unsigned char>(bytes[i]);
  };
  const size_t key = at(0) == 0xde ? 3 : at(0) == 0xdf ? 5 : 1;
  const bool is_map = key > 1 || (at(0) > 0x80 && at(0) <= 0x8f);
  if (!is_map || key >= bytes.size()) return false;
  return (at(key) > 0xa0 && at(key) < 0xc0) || at(key) == 0xd9;
}

bool IsPickle(const FileStart& start) {
  return start.bytes.size() > 2 && start.bytes[0] == '\x80' &&
         start.bytes[1] >= 2 && start.bytes[1] <= 5;
}

bool IsZeros(const FileStart& start) {
  return !start.bytes.empty() &&
         start.bytes.find_first_not_of('\0') == std::string::npos;
}

bool IsText(const FileStart& start) {
  std::string_view text = start.bytes;
  // A character may be cut off at the end.
  for (int i = 0; i < 3 && !IsValidUtf8(text); ++i) text.remove_suffix(1);
  return !text.empty() && IsValidUtf8(text) &&
         std::ranges::none_of(text, [](char c) {
           return static_cast<unsigned char>(c) < ' ' && c != '\n' &&
                  c != '\r' && c != '\t';
         });
}

bool IsTorchFileName(std::string_view name) {
  return EndsWithAny(name, {".pt", ".pth", ".ckpt", ".bin"});
}

bool IsMsgpackName(std::string_view name) {
  return EndsWithAny(name, {".msgpack"}) || name.starts_with("checkpoint_");
}

// Returns "/" if the names show that the directory is a checkpoint, "/NAME" if
// a file in it is one, and "" otherwise.
std::string CheckpointIn(const DirectorySight& sight) {
  for (const std::string_view mark :
       {kTreeMetadataFile, kCheckpointMetadataFile, kManifestFile,
        std::string_view(".zarray"), std::string_view("zarr.json"),
        std::string_view(".metadata")}) {
    if (sight.Has(mark)) return "/";
  }
  if (sight.Has("data.pkl")) return "/";
  for (const std::string& name : sight.names()) {
    if (name.ends_with(".safetensors")) return "/";
  }
  for (const std::string& name : sight.names()) {
    if (IsTorchFileName(name) || name.ends_with(".npz")) return "/" + name;
  }
  return "";
}

std::vector<std::string> NamesIn(const Place& directory) {
  const auto names = ListDirectory(directory);
  return names.ok() ? *names : std::vector<std::string>();
}

// Returns the first few checkpoints up to three levels below, as a phrase.
std::string CheckpointsBelow(const DirectorySight& sight) {
  constexpr int kLevels = 3;
  std::vector<std::string> todo = sight.names();
  std::vector<std::string> found;
  size_t looked_into = 0;
  size_t looked_at = 0;
  const size_t looked_at_max =
      sight.place().is_remote() ? kLookedIntoMax : kLookedAtMax;
  for (int level = 0; level < kLevels; ++level) {
    std::vector<std::string> deeper;
    for (const std::string& path : todo) {
      if (looked_into == kLookedIntoMax || looked_at == looked_at_max) break;
      ++looked_at;
      const Place place = sight.place() / path;
      const Result<bool> is_directory = LeadsToDirectory(place);
      if (!is_directory.ok() || !*is_directory) continue;
      ++looked_into;
      const DirectorySight below(place, NamesIn(place));
      const std::string what = CheckpointIn(below);
      if (!what.empty()) {
        found.push_back(path + (what == "/" ? "" : what));
        continue;
      }
      for (const std::string& name : below.names()) {
        deeper.push_back(path + "/" + name);
      }
    }
    todo = std::move(deeper);
  }
  const DirectorySight all(sight.place(), std::move(found));
  return all.Those([](std::string_view) { return true; });
}

// The order matters: more specific rows come first. Formats that holdfast reads
// are found by their readers; the signs here serve to recognize files with
// wrong names.
constexpr KnownFormat kKnownFormats[] = {
    {.id = "orbax", .words = "Orbax's checkpoints"},
    {.id = "ocdbt", .words = "OCDBT databases"},
    {.id = "zarr", .words = "zarr arrays"},
    {.id = "safetensors",
     .words = "safetensors",
     .is_sure = true,
     .is_file = LooksLikeSafetensors},
    {.id = "torch",
     .words = "torch.save files",
     .is_sure = true,
     .is_file =
         [](const FileStart& start) {
           return IsTorchArchive(start) ||
                  start.bytes.starts_with(pickle::kLegacyMagic);
         }},
    {.id = "npz",
     .words = "numpy npz files",
     .is_sure = true,
     .is_file = IsNpz},
    {.id = "dcp", .words = "torch's distributed checkpoints (DCP)"},
    {.id = "megatron", .words = "Megatron's torch_dist and zarr"},

    {.id = "git-lfs",
     .words = "a Git LFS pointer in place of a file that was not fetched",
     .way_on = "fetch the file itself with `git lfs pull`",
     .is_sure = true,
     .starts = {"version https://git-lfs", "version https://hawser"}},
    {.id = "xet",
     .words = "a Xet pointer in place of a file that was not fetched",
     .way_on = "fetch the file itself with `git xet` or `hf download`",
     .is_sure = true,
     .starts = {"# xet version"}},
    {.id = "git-annex",
     .words = "a git-annex pointer in place of a file that was not fetched",
     .way_on = "fetch the file itself with `git annex get`",
     .is_sure = true,
     .starts = {"/annex/objects/"}},
    {.id = "dvc",
     .words = "a DVC pointer in place of a file that was not fetched",
     .way_on = "fetch the file itself with `dvc pull`",
     .is_sure = true,
     .is_file =
         [](const FileStart& start) {
           return EndsWithAny(start.name, {".dvc"}) &&
                  start.bytes.find("outs:") != std::string::npos;
         }},
    {.id = "html",
     .words = "a web page (HTML), not the requested file",
     .way_on = "download the file again from its own URL, signed in if that "
               "is needed",
     .is_sure = true,
     .is_file =
         [](const FileStart& start) {
           const std::string text = PlainStart(start);
           return text.starts_with("<!doctype html") ||
                  text.starts_with("<html") || text.starts_with("<head");
         }},
    {.id = "xml",
     .words = "an XML text, which servers send instead of a file that they "
              "refuse",
     .way_on = "read it, and download the file again",
     .is_sure = true,
     .is_file =
         [](const FileStart& start) {
           return PlainStart(start).starts_with("<?xml") ||
                  PlainStart(start).starts_with("<error>");
         }},
    {.id = "dcp-without-metadata",
     .words = "the data files of a torch distributed checkpoint (%), without "
              ".metadata, which says what is in them",
     .way_on = "copy .metadata from where the checkpoint was saved (`cp dir/*` "
               "and some tools leave out names that begin with a dot); a save "
               "that was killed never wrote it",
     .entries = {"*.distcp"},
     .lacks = ".metadata"},
    {.id = "ocdbt-parts",
     .words = "the parts of an item that several processes wrote (%), without "
              "the manifest.ocdbt that is made from them when a save ends",
     .way_on = "`holdfast rescue` combines them in a new directory",
     .entries = {"ocdbt.process_*"},
     .lacks = kManifestFile},
    {.id = "unpacked-torch",
     .words = "an unpacked torch.save file (data.pkl and its data are "
              "separate files in it)",
     .way_on = "give the file itself, or pack it again: in the directory above "
               "it `zip -0 -r NAME.pt NAME`",
     .names_in =
         [](const DirectorySight& sight) {
           const bool is_torch = sight.Has("data.pkl") &&
                                 (sight.Has("data") || sight.Has("version") ||
                                  sight.Has("byteorder"));
           return std::string(is_torch ? "data.pkl" : "");
         }},
    {.id = "deepspeed",
     .words = "a DeepSpeed checkpoint (%)",
     .way_on = "give the path of a file in it (…_model_states.pt); parameters "
               "that ZeRO has divided are put together by DeepSpeed's "
               "zero_to_fp32.py",
     .entries = {"*_model_states.pt", "*_optim_states.pt"}},
    {.id = "deepspeed-root",
     .words = "a directory of DeepSpeed's steps (%)",
     .way_on = "give the path of a file in one of them (…_model_states.pt); "
               "parameters that ZeRO has divided are put together by "
               "DeepSpeed's zero_to_fp32.py",
     .entries = {"global_step*"}},
    {.id = "hub-cache",
     .words = "a repository in the Hugging Face hub's cache",
     .way_on = "give the path of one of its snapshots: snapshots/…",
     .names_in =
         [](const DirectorySight& sight) {
           const bool is_cache = sight.Has("snapshots") &&
                                 (sight.Has("refs") || sight.Has("blobs"));
           return std::string(is_cache ? "snapshots" : "");
         }},
    {.id = "hub-cache-root",
     .words = "the Hugging Face hub's cache (%)",
     .way_on = "give the path of a snapshot in it, models--…/snapshots/…, or "
               "the address hf://OWNER/NAME",
     .entries = {"models--*", "datasets--*"}},
    {.id = "tensorflow-model",
     .words = "a TensorFlow SavedModel or graph",
     .way_on = "load it with tf.saved_model.load, and save its variables with "
               "numpy.savez",
     .is_sure = true,
     .file_names = {"*.pb", "*.pbtxt"},
     .entries = {"saved_model.pb", "saved_model.pbtxt"}},
    {.id = "tensorflow-checkpoint",
     .words = "a TensorFlow checkpoint",
     .way_on = "read it with tf.train.load_checkpoint, and save its variables "
               "with numpy.savez",
     .is_sure = true,
     .starts = {"model_checkpoint_path:"},
     .file_names = {"*.data-0*"},
     .entries = {"*.data-0*"}},
    {.id = "torch-files",
     .words = "a directory with files that torch.save may have written (%)",
     .way_on = "give the path of one of them",
     .names_in =
         [](const DirectorySight& sight) {
           std::string files = sight.Those(IsTorchFileName);
           if (files.empty()) return files;
           const std::string below = CheckpointsBelow(sight);
           return below.empty() ? files : files + ", " + below;
         }},
    {.id = "checkpoints-below",
     .words = "a directory above checkpoints",
     .way_on = "give the path of one of them: %",
     .names_in = CheckpointsBelow},
    {.id = "tar",
     .words = "a tar archive (a .nemo file is one, and so are files of torch "
              "before 0.1.10)",
     .way_on = "unpack it (tar -xf) and give the path of the checkpoint in it",
     .is_sure = true,
     .is_file =
         [](const FileStart& start) {
           return start.bytes.size() > 262 &&
                  start.bytes.compare(257, 5, "ustar") == 0;
         }},
    {.id = "gzip",
     .words = "compressed with gzip",
     .way_on = "unpack it (gunzip; tar -xzf of a .tar.gz) and give the path of "
               "what comes out",
     .is_sure = true,
     .starts = {"\x1f\x8b"}},
    {.id = "zstd",
     .words = "compressed with zstd",
     .way_on = "unpack it (zstd -d; tar --zstd -xf of a .tar.zst) and give the "
               "path of what comes out",
     .is_sure = true,
     .starts = {"\x28\xb5\x2f\xfd"}},
    {.id = "xz",
     .words = "compressed with xz",
     .way_on = "unpack it (xz -d; tar -xJf of a .tar.xz) and give the path of "
               "what comes out",
     .is_sure = true,
     .starts = {"\xfd"
                "7zXZ"}},
    {.id = "bzip2",
     .words = "compressed with bzip2",
     .way_on = "unpack it (bunzip2; tar -xjf of a .tar.bz2) and give the path "
               "of what comes out",
     .is_sure = true,
     .is_file =
         [](const FileStart& start) {
           return start.bytes.starts_with("BZh") && start.bytes.size() > 4 &&
                  start.bytes[4] == '1';
         }},
    {.id = "lz4",
     .words = "compressed with lz4",
     .way_on = "unpack it (lz4 -d) and give the path of what comes out",
     .is_sure = true,
     .starts = {"\x04\x22\x4d\x18"}},
    {.id = "7z",
     .words = "a 7z or RAR archive",
     .way_on = "unpack it (7z x) and give the path of the checkpoint in it",
     .is_sure = true,
     .starts = {"7z\xbc\xaf\x27\x1c", "Rar!\x1a\x07"}},
    {.id = "keras",
     .words = "a Keras zip archive (.keras)",
     .way_on = "load it with keras.saving.load_model, and save its weights "
               "with numpy.savez",
     .is_sure = true,
     .is_file =
         [](const FileStart& start) {
           return !FirstMember(start).empty() &&
                  (start.name.ends_with(".keras") ||
                   IsAny(FirstMember(start),
                         {"metadata.json", "model.weights.h5"}));
         }},
    {.id = "zip",
     .words = "a zip archive, but neither torch.save's nor numpy's",
     .way_on = "unpack it (unzip) and give the path of the checkpoint in it",
     .starts = {"PK\x03\x04", "PK\x05\x06", "PK\x07\x08"}},
    {.id = "hdf5",
     .words = "an HDF5 file, as Keras (.h5) and MATLAB write",
     .way_on = "read its arrays with h5py, and save them with numpy.savez",
     .is_sure = true,
     .starts = {"\x89HDF\r\n\x1a\n"},
     .entries = {"*.h5", "*.hdf5", "*.keras"}},
    {.id = "gguf",
     .words = "a GGUF or GGML file (llama.cpp)",
     .way_on = "give the safetensors that it was made from, or read it with "
               "the gguf package",
     .is_sure = true,
     .starts = {"GGUF", "FUGG", "lmgg", "fmgg", "tjgg", "algg"},
     .entries = {"*.gguf"}},
    {.id = "npy",
     .words = "a single numpy array (.npy)",
     .way_on = "put it into an npz file: numpy.savez(\"x.npz\", "
               "x=numpy.load(PATH))",
     .is_sure = true,
     .starts = {"\x93NUMPY"}},
    {.id = "tflite",
     .words = "a TensorFlow Lite model",
     .way_on = "give the checkpoint that it was exported from",
     .is_sure = true,
     .is_file =
         [](const FileStart& start) {
           return start.bytes.size() >= 8 &&
                  start.bytes.compare(4, 4, "TFL3") == 0;
         }},
    {.id = "executorch",
     .words = "an ExecuTorch program",
     .way_on = "give the checkpoint that it was exported from",
     .is_sure = true,
     .is_file =
         [](const FileStart& start) {
           return start.bytes.size() >= 8 &&
                  start.bytes.compare(4, 2, "ET") == 0 &&
                  EndsWithAny(start.name, {".pte", ".ptd"});
         }},
    {.id = "matlab",
     .words = "a MATLAB file",
     .way_on = "read its arrays with scipy.io.loadmat, and save them with "
               "numpy.savez",
     .is_sure = true,
     .starts = {"MATLAB "}},
    {.id = "parquet",
     .words = "a Parquet or Arrow table, which holds data, not weights",
     .way_on = "give the path of the model's checkpoint",
     .is_sure = true,
     .starts = {"PAR1", "ARROW1", "FEA1"},
     .entries = {"*.parquet", "*.arrow", "*.feather"}},
    {.id = "sqlite",
     .words = "an SQLite database",
     .way_on = "give the path of the checkpoint",
     .is_sure = true,
     .starts = {"SQLite format 3"}},
    {.id = "mxnet",
     .words = "an MXNet parameter file",
     .way_on = "load it with mxnet.nd.load, and save its arrays with "
               "numpy.savez",
     .is_sure = true,
     .starts = {std::string_view("\x12\x01\0\0\0\0\0\0", 8)}},
    {.id = "onnx",
     .words = "an ONNX model",
     .way_on = "give the checkpoint that it was exported from, or save its "
               "initializers with numpy.savez",
     .is_sure = true,
     .is_file =
         [](const FileStart& start) {
           return EndsWithAny(start.name, {".onnx"}) &&
                  start.bytes.starts_with('\x08');
         },
     .entries = {"*.onnx"}},
    {.id = "pickle",
     .words = "a Python pickle (pickle, joblib, cloudpickle), but not "
              "torch.save's",
     .way_on = "load it where it was written, and save its arrays with "
               "numpy.savez or torch.save",
     .is_file = IsPickle,
     .entries = {"*.pkl", "*.pickle", "*.joblib", "*.p"}},
    {.id = "joblib",
     .words = "a compressed joblib file",
     .way_on = "load it with joblib.load, and save its arrays with numpy.savez",
     .file_names = {"*.joblib", "*.z"}},
    {.id = "flax-msgpack",
     .words = "a msgpack file, as flax writes",
     .way_on = "copy it to a file named `checkpoint` in a directory of its "
               "own, and give the path of that directory",
     .is_sure = true,
     .is_file = IsMsgpackTree,
     .names_in =
         [](const DirectorySight& sight) {
           return sight.Those([&](std::string_view name) {
             if (!IsMsgpackName(name)) return false;
             const Result<PathKind> kind = GetPathKind(sight.place() / name);
             return kind.ok() && *kind == PathKind::kFile;
           });
         }},
    {.id = "dcp-file",
     .words = "one data file of a torch distributed checkpoint",
     .way_on = "give the path of the directory that it is in",
     .is_sure = true,
     .file_names = {"*.distcp"}},
    {.id = "orbax-file",
     .words = "one file of a checkpoint that is a directory",
     .way_on = "give the path of the directory",
     .is_sure = true,
     .file_names = {kTreeMetadataFile, kCheckpointMetadataFile, kShardingFile,
                    kStringsFile, kCommitMarkerFile, kV1MarkerFile, kDigestFile,
                    kFingerprintsFile, kRootMetadataFile, ".zgroup", ".zattrs",
                    ".zmetadata"}},
    {.id = "npz-files",
     .words = "a directory with numpy files (%)",
     .way_on = "give the path of one npz file",
     .entries = {"*.npz", "*.npy"}},
    {.id = "archives",
     .words = "a directory with archives (%)",
     .way_on = "unpack them, and give the path of the checkpoint in them",
     .entries = {"*.tar", "*.nemo", "*.zip", "*.gz", "*.tgz", "*.zst", "*.xz",
                 "*.bz2", "*.7z", "*.rar", "*.lz4"}},
    {.id = "partial",
     .words = "an unfinished download",
     .way_on = "let it finish, or download the file again",
     .file_names = {"*.incomplete", "*.aria2", "*.part", "*.partial",
                    "*.crdownload", "*.download"},
     .entries = {"*.incomplete", "*.aria2", "*.part", "*.partial",
                 "*.crdownload", "*.download"}},
    {.id = "configuration",
     .words = "a model's configuration (%) without its weights",
     .way_on = "fetch the weights as well (*.safetensors or *.bin)",
     .entries = {"config.json", "adapter_config.json", "model_index.json",
                 "generation_config.json", "tokenizer.json",
                 "tokenizer_config.json", "params.json", "model_config.yaml"}},
    {.id = "empty-directory",
     .words = "an empty directory",
     .way_on = "check whether the save or copy that made it finished",
     .names_in =
         [](const DirectorySight& sight) {
           return std::string(sight.names().empty() ? "-" : "");
         }},
    {.id = "empty-file",
     .words = "an empty file",
     .way_on = "save or fetch it again; a full disk leaves such files",
     .is_file =
         [](const FileStart& start) {
           return start.byte_count == 0 && start.bytes.empty();
         }},
    {.id = "zeros",
     .words = "zeros at its start: space was reserved for a file that was "
              "never written",
     .way_on = "save or fetch it again",
     .is_file = IsZeros},
    {.id = "json",
     .words = "a JSON text",
     .way_on = "give the path of the checkpoint that it describes, or of its "
               "directory",
     .is_file =
         [](const FileStart& start) {
           const std::string text = PlainStart(start);
           return IsText(start) &&
                  (text.starts_with('{') || text.starts_with('['));
         }},
    {.id = "text",
     .words = "a text that begins with \"%\"",
     .way_on = "read it; if a server sent it instead of a file, fetch the "
               "file again",
     .is_file = IsText},
};

std::string Filled(std::string_view text, const std::string& found) {
  std::string filled(text);
  const size_t at = filled.find('%');
  if (at != std::string::npos) filled.replace(at, 1, found);
  return filled;
}

std::string TextOf(const KnownFormat& row, const std::string& found) {
  return "it is " + Filled(row.words, found) + "; " + Filled(row.way_on, found);
}

// Returns the message for a directory. If the row has signs of a file, its
// words describe files in the directory.
std::string TextOfDirectory(const KnownFormat& row, const std::string& found) {
  if (!row.has_file_sign()) return TextOf(row, found);
  return "it holds " + found + ", " + std::string(row.words) + "; " +
         std::string(row.way_on);
}

std::string ShownText(const FileStart& start) {
  std::string text = start.bytes.substr(0, kShownBytes);
  text = text.substr(0, text.find_first_of("\r\n"));
  while (!IsValidUtf8(text)) text.pop_back();
  return text;
}

const KnownFormat& RowOfPartialDownloads() {
  return *std::ranges::find(kKnownFormats, "partial", &KnownFormat::id);
}

}  // namespace

bool KnownFormat::IsFile(const FileStart& start) const {
  if (FitsAny(start.name, file_names)) return true;
  for (const std::string_view sign : starts) {
    if (!sign.empty() && start.bytes.starts_with(sign)) return true;
  }
  return is_file != nullptr && is_file(start);
}

std::string KnownFormat::NamesIn(const DirectorySight& sight) const {
  if (names_in != nullptr) return names_in(sight);
  if (!lacks.empty() && sight.Has(lacks)) return "";
  return sight.Those(
      [&](std::string_view name) { return FitsAny(name, entries); });
}

bool DirectorySight::Has(std::string_view name) const {
  return std::ranges::binary_search(names_, name);
}

std::string DirectorySight::Those(
    const std::function<bool(std::string_view name)>& is) const {
  std::string text;
  size_t count = 0;
  for (const std::string& name : names_) {
    if (!is(name) || ++count > kNamesInWords) continue;
    text += (count == 1 ? "" : ", ") + name;
  }
  if (count <= kNamesInWords) return text;
  return text + " and " + std::to_string(count - kNamesInWords) + " more";
}

std::span<const KnownFormat> KnownFormats() { return kKnownFormats; }

Result<FileStart> StartOfFile(Store& store, std::string_view key,
                              std::string_view name) {
  HF_ASSIGN_OR_RETURN(const ObjectInfo info, store.Stat(key));
  HF_ASSIGN_OR_RETURN(
      const Bytes bytes,
      store.Read(key, {0, std::min(info.byte_count, kFileStartBytes)}));
  return FileStart{std::string(name), bytes.ToString(), info.byte_count};
}

const KnownFormat* FormatOfStart(const FileStart& start) {
  for (const KnownFormat& row : KnownFormats()) {
    if (row.IsFile(start)) return &row;
  }
  return nullptr;
}

std::string FormatsThatAreRead() {
  std::vector<std::string_view> all;
  for (const KnownFormat& row : KnownFormats()) {
    if (row.is_read()) all.push_back(row.words);
  }
  std::string text;
  for (size_t i = 0; i < all.size(); ++i) {
    if (i > 0) text += i + 1 == all.size() ? " and " : ", ";
    text += all[i];
  }
  return text;
}

std::string WhatFileIs(const Place& file) {
  // Links are followed, because model hubs create them.
  Place real = file;
  if (!file.is_remote()) {
    std::error_code error;
    real = Place(std::filesystem::canonical(file.path(), error).string());
    if (error) {
      const auto target = std::filesystem::read_symlink(file.path(), error);
      if (error) return "";
      return "it is a link to " + target.string() +
             ", which does not exist; give the path that it should lead to";
    }
    if (!std::filesystem::is_regular_file(real.path(), error)) {
      return "it is neither a file nor a directory; give the path of one";
    }
  }
  const Result<FileStart> start =
      StartOfFile(*real.parent().OpenStore(), real.name(), file.name());
  if (!start.ok()) return std::string(start.status().message());
  const KnownFormat* const row = FormatOfStart(*start);
  if (row == nullptr || row->is_read()) {
    return "its first bytes are not those of any format known here; "
           "holdfast reads " +
           FormatsThatAreRead();
  }
  return TextOf(*row, ShownText(*start));
}

std::string WhatDirectoryIs(const Place& directory) {
  const DirectorySight sight(directory, NamesIn(directory));
  for (const KnownFormat& row : KnownFormats()) {
    if (!row.has_directory_sign()) continue;
    const std::string found = row.NamesIn(sight);
    if (!found.empty()) return TextOfDirectory(row, found);
  }
  return "it holds " + sight.Those([](std::string_view) { return true; }) +
         "; looked for _METADATA, checkpoint, manifest.ocdbt, .zarray, "
         "zarr.json, item directories holding them, and step directories; "
         "holdfast reads " +
         FormatsThatAreRead();
}

std::string TextOfSign(std::string_view id, const Place& directory,
                       const std::vector<std::string>& sorted_names) {
  const DirectorySight sight(directory, sorted_names);
  for (const KnownFormat& row : KnownFormats()) {
    if (row.id != id) continue;
    const std::string found = row.NamesIn(sight);
    return found.empty() ? "" : TextOfDirectory(row, found);
  }
  return "";
}

Status CheckPartsAreMerged(const Place& directory,
                           const std::vector<std::string>& sorted_names) {
  const std::string parts = TextOfSign("ocdbt-parts", directory, sorted_names);
  if (parts.empty()) return Status();
  return FailedPreconditionError("Checkpoint at " + directory.path() +
                                 " cannot be read: " + parts);
}

Status WithWhatFileIs(const Status& status, Store& store, std::string_view key,
                      std::string_view read_as) {
  const std::string path = store.Describe(key);
  const Result<FileStart> start =
      StartOfFile(store, key, path.substr(path.rfind('/') + 1));
  const KnownFormat* const row = start.ok() ? FormatOfStart(*start) : nullptr;
  const auto with = [&](const std::string& what) {
    return Status(status.code(), std::string(status.message()) + "; " + what);
  };
  if (row == nullptr) return status;
  if (row->id == read_as || (row->is_read() && read_as.empty())) {
    const KnownFormat& partial = RowOfPartialDownloads();
    return partial.IsFile(*start) ? with(TextOf(partial, "")) : status;
  }
  return with(row->is_read() ? "it is one of the " + std::string(row->words) +
                                   "; give the path of the file itself, or a "
                                   "name that says so"
                             : TextOf(*row, ShownText(*start)));
}

}  // namespace holdfast
