#include "holdfast/tools/torch_file.h"

#include <memory>
#include <string>

#include "formats/pickle/program.h"
#include "formats/pickle/torch_document.h"
#include "formats/pickle/values.h"
#include "ground/base/status_macros.h"

namespace holdfast {
Result<PickleValue> ReadPickle(std::string_view bytes) {
  HF_ASSIGN_OR_RETURN(const pickle::Program program, pickle::RunPickle(bytes));
  if (program.byte_count != bytes.size()) {
    return DataLossError(
        "pickle: " + std::to_string(bytes.size() - program.byte_count) +
        " bytes follow its STOP");
  }
  pickle::ValueOptions options;
  options.source_bytes = bytes.size();
  return pickle::ValueOf(program, program.root, options);
}

Result<PickleValue> ReadTorchFile(std::string_view bytes) {
  HF_ASSIGN_OR_RETURN(const auto document,
                      pickle::TorchDocument::Open(
                          std::make_shared<const pickle::MemorySource>(bytes)));
  const pickle::Program& program = document->program();
  if (!program.refusals.empty()) return program.refusals.front();
  return document->ValueAt(program.root);
}

}  // namespace holdfast
