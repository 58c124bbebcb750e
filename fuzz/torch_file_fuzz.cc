// ReadTorchFile: the value of a readable file is still equal after writing and
// reading. A bare pickle is tried as the data.pkl of an archive, because
// mutations would almost never match its CRC.
#include "formats/zip/zip_writer.h"
#include "fuzz_util.h"
#include "holdfast/tools/torch_file.h"

namespace {

void Try(std::string_view file) {
  const auto value = holdfast::ReadTorchFile(file);
  if (!value.ok()) return;
  const std::string json = holdfast::PickleValueToJson(*value);
  const auto text = holdfast::WriteTorchFile(*value);
  FUZZ_CHECK_OK(text);
  const auto again = holdfast::ReadTorchFile(*text);
  FUZZ_CHECK_OK(again);
  FUZZ_CHECK(holdfast::PickleValueToJson(*again) == json);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text = holdfast::FuzzText(data, size);
  Try(text);
  holdfast::pickle::ZipWriter zip;
  zip.Add("a/data.pkl", text);
  zip.Add("a/data/0", std::string(64, 'x'));
  zip.Finish("a");
  Try(zip.TakeBytes());
  return 0;
}
