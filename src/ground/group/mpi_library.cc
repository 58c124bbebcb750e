#include <dlfcn.h>

#include <array>
#include <climits>
#include <cstdlib>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "ground/base/status_macros.h"
#include "ground/group/mpi_transport.h"
#include "holdfast/mpi.h"

namespace holdfast {
namespace {

constexpr const char* kLibrary = "libholdfast_mpi.so";
constexpr const char* kLibraryVariable = "HOLDFAST_MPI_LIBRARY";

// Returns the folder of the file that contains this code (the program or
// libholdfast.so), or "" if it cannot be found.
std::string OwnFolder() {
  Dl_info info = {};
  std::array<char, PATH_MAX> resolved = {};
  if (dladdr(reinterpret_cast<const void*>(&StartedByMpi), &info) == 0 ||
      info.dli_fname == nullptr ||
      realpath(info.dli_fname, resolved.data()) == nullptr) {
    return "";
  }
  const std::string file = resolved.data();
  return file.substr(0, file.rfind('/'));
}

std::vector<std::string> Candidates() {
  const char* asked = std::getenv(kLibraryVariable);
  if (asked != nullptr && *asked != '\0') return {asked};
  std::vector<std::string> files;
  const std::string folder = OwnFolder();
  if (!folder.empty()) {
    files = {folder + "/" + kLibrary, folder + "/../lib/" + kLibrary,
             folder + "/../" HOLDFAST_LIBRARY_FOLDER "/" + kLibrary};
  }
  files.push_back(kLibrary);
  return files;
}

using CallsFunction = const HoldfastMpiCalls* (*)();

Result<CallsFunction> FindCalls() {
  // The program may be linked with the library itself.
  if (void* symbol = dlsym(RTLD_DEFAULT, "holdfast_mpi_calls")) {
    return reinterpret_cast<CallsFunction>(symbol);
  }
  std::string tried;
  for (const std::string& file : Candidates()) {
    // RTLD_GLOBAL, because MPI loads its own plug-ins, which search all
    // libraries for its symbols.
    void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (library == nullptr) {
      const char* why = dlerror();
      tried += (tried.empty() ? "" : "; ") +
               std::string(why != nullptr ? why : file.c_str());
      continue;
    }
    if (void* symbol = dlsym(library, "holdfast_mpi_calls")) {
      return reinterpret_cast<CallsFunction>(symbol);
    }
    return FailedPreconditionError(file + ": is not a holdfast library");
  }
  return FailedPreconditionError(
      std::string(kLibrary) +
      " cannot be loaded; build holdfast with -DHOLDFAST_WITH_MPI=ON, or name "
      "the file in " +
      kLibraryVariable + " (" + tried + ")");
}

Result<const HoldfastMpiCalls*> LoadCalls() {
  HF_ASSIGN_OR_RETURN(const CallsFunction function, FindCalls());
  const HoldfastMpiCalls* calls = function();
  if (calls->version != kHoldfastMpiVersion) {
    return FailedPreconditionError(std::string(kLibrary) +
                                   " is of another version (got " +
                                   std::to_string(calls->version) + ", want " +
                                   std::to_string(kHoldfastMpiVersion) + ")");
  }
  return calls;
}

Result<std::shared_ptr<ProcessTransport>> OpenMpi(const MpiOptions& options) {
  HF_ASSIGN_OR_RETURN(const HoldfastMpiCalls* calls, LoadCalls());
  HoldfastMpiWorld world = {};
  std::array<char, 512> error = {};
  const int* communicator =
      options.communicator ? &*options.communicator : nullptr;
  if (calls->open(communicator, kMpiTag, &world, error.data(), error.size()) <
      0) {
    return FailedPreconditionError(std::string("MPI: ") + error.data());
  }
  return MakeMpiTransport(*calls, world);
}

// Returns the value of the first of the variables `names` that is set to a
// number.
std::optional<long> NumberFromEnvironment(
    std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const char* text = std::getenv(name);
    if (text == nullptr || *text == '\0') continue;
    char* end = nullptr;
    const long value = std::strtol(text, &end, 10);
    if (*end == '\0') return value;
  }
  return std::nullopt;
}

}  // namespace

Result<std::shared_ptr<ProcessTransport>> MpiTransport(
    const MpiOptions& options) {
  // One transport per communicator: two would take each other's messages. The
  // map is never destroyed, because transports may be requested while the
  // process exits.
  static std::mutex mutex;
  static auto* transports =
      new std::map<std::optional<int>, std::shared_ptr<ProcessTransport>>;
  const std::lock_guard lock(mutex);
  const auto found = transports->find(options.communicator);
  if (found != transports->end()) return found->second;
  HF_ASSIGN_OR_RETURN(auto transport, OpenMpi(options));
  transports->emplace(options.communicator, transport);
  return transport;
}

bool StartedByMpi() {
  // Open MPI sets the first; MPICH and its relatives set the second, also under
  // srun.
  const std::optional<long> size =
      NumberFromEnvironment({"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"});
  if (size) return *size > 1;
  // srun with PMIx sets only the rank.
  return NumberFromEnvironment({"PMIX_RANK"}).has_value();
}

}  // namespace holdfast
