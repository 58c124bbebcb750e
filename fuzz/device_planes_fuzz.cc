// Compares the device's decoder of byte planes, in its host form, with the
// host's: a container that the device decodes is decoded by the host to the
// same bytes. The other way round, the device decodes what we encode from any
// bytes to these bytes, unless the plan leaves it to the host.
//
// Input: one byte, then a container or bytes to encode. The lowest bit of the
// first byte is 0 for a container, whose encoded size is corrected; the next
// bit then tells whether checksums are left out. If the lowest bit is 1, the
// upper five bits are the item size minus 1.
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "formats/codec/blosc_header.h"
#include "formats/codec/codec.h"
#include "formats/device/device_kernels.h"
#include "fuzz_util.h"
#include "twins/host_kernels.h"

namespace holdfast {
namespace {

constexpr size_t kDecodedBytesMax = 1 << 20;

// Returns nullopt if the container is for the host, or damaged.
std::optional<std::string> DecodeOnDevice(const std::string& container,
                                          size_t decoded_bytes,
                                          bool bytes_are_known) {
  DevicePlanesPlan plan(bytes_are_known);
  if (!plan.Add(container, 0, decoded_bytes, 0)) return std::nullopt;
  DeviceTwin twin;
  AddDeviceKernels(twin);
  const auto kernels = DeviceKernels::Load(twin, 0, "");
  FUZZ_CHECK_OK(kernels);
  std::string work(plan.work_bytes(), '\0');
  plan.WriteTables(work.data());
  DevicePlanesMemory memory;
  memory.encoded = twin.Allocate(0, container);
  memory.encoded_bytes = container.size();
  memory.work = twin.Allocate(0, work);
  memory.elements = twin.Allocate(0, std::string(decoded_bytes, '\0'));
  memory.elements_bytes = decoded_bytes;
  FUZZ_CHECK_OK((*kernels)->DecodePlanes(plan, memory, 0));
  twin.RunAll();
  FUZZ_CHECK(twin.violations().empty());
  std::vector<uint32_t> results(plan.result_count());
  const std::string words = twin.Read(memory.work + plan.results_at(),
                                      results.size() * sizeof(uint32_t));
  if (!words.empty()) std::memcpy(results.data(), words.data(), words.size());
  if (!plan.IsDecoded(0, results)) return std::nullopt;
  return twin.Read(memory.elements, decoded_bytes);
}

void CheckContainer(std::string_view given, bool bytes_are_known) {
  if (given.size() < kBloscHeaderBytes) return;
  std::string container(given);
  StoreBloscWord(container.size(), container.data() + 12);
  const size_t decoded_bytes = BloscWord(container, 4);
  if (decoded_bytes == 0 || decoded_bytes > kDecodedBytesMax) return;
  const auto ours = DecodeOnDevice(container, decoded_bytes, bytes_are_known);
  if (!ours) return;
  const auto codec = MakeBytesCodec(BloscParams{}, 1);
  FUZZ_CHECK_OK(codec);
  CodecContext context;
  context.set_bytes_are_known(bytes_are_known);
  std::string hosts(decoded_bytes, '\0');
  const Status status =
      (*codec)->Decode(container, {hosts.data(), hosts.size()}, context);
  // libzstd, which decodes items of one byte, compares all checksums.
  if (bytes_are_known && container[3] == 1 && !status.ok()) return;
  FUZZ_CHECK_OK(status);
  FUZZ_CHECK(*ours == hosts);
}

void CheckContent(std::string_view content, size_t item_bytes) {
  const auto codec = MakeBytesCodec(
      BloscParams{"zstd", 1, 1, 0, item_bytes, true}, item_bytes);
  FUZZ_CHECK_OK(codec);
  CodecContext context;
  std::string container((*codec)->EncodedBytesMax(content.size()), '\0');
  const auto size =
      (*codec)->Encode(content, {container.data(), container.size()}, context);
  FUZZ_CHECK_OK(size);
  container.resize(*size);
  DevicePlanesPlan plan(/*bytes_are_known=*/false);
  if (!plan.Add(container, 0, content.size(), 0)) return;
  const auto ours = DecodeOnDevice(container, content.size(), false);
  FUZZ_CHECK(ours.has_value());
  FUZZ_CHECK(*ours == content);
}

}  // namespace
}  // namespace holdfast

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  const std::string_view text = holdfast::FuzzText(data + 1, size - 1);
  if (data[0] & 1) {
    holdfast::CheckContent(text, 1 + data[0] / 8);
  } else {
    holdfast::CheckContainer(text, (data[0] & 2) != 0);
  }
  return 0;
}
