// ScanForNodes and RepairDatabase: a scan of any file finds nodes with valid
// checksums, in order, none of them inside another. A database rebuilt from
// these nodes can be read.
#include "formats/ocdbt/database.h"
#include "fuzz_util.h"
#include "ground/base/coding.h"
#include "ground/base/crc32c.h"
#include "stores/storage/memory_store.h"
#include "tools/rescue/database_repair.h"
#include "tools/rescue/node_scan.h"

namespace holdfast {
namespace {

std::vector<ScannedNode> CheckScan(std::string_view file) {
  MemoryStore store;
  store.Put("d/x", Bytes(std::string(file)));
  const auto nodes = ScanForNodes(store, "d/x", file.size());
  FUZZ_CHECK_OK(nodes);
  uint64_t end = 0;
  for (const ScannedNode& node : *nodes) {
    FUZZ_CHECK(node.offset >= end);
    FUZZ_CHECK(node.byte_count >= 16);
    FUZZ_CHECK(node.byte_count <= file.size() - node.offset);
    end = node.offset + node.byte_count;
    const std::string_view object = file.substr(node.offset, node.byte_count);
    FUZZ_CHECK(Crc32c(object.substr(0, object.size() - 4)) ==
               LoadLittle<uint32_t>(&object[object.size() - 4]));
  }
  return *nodes;
}

void CheckRepair(std::string_view file) {
  MemoryStore store;
  store.Put("d/x", Bytes(std::string(file)));
  const auto repaired = RepairDatabase({&store, &store, {}});
  if (!repaired.ok()) {
    FUZZ_CHECK(repaired.status().code() == StatusCode::kResourceExhausted);
    return;
  }
  FUZZ_CHECK(repaired->has_value());
  if ((*repaired)->files == nullptr) return;
  const auto database = ocdbt::Database::Open((*repaired)->files.get(), "", {});
  FUZZ_CHECK_OK(database);
  uint64_t key_count = 0;
  FUZZ_CHECK_OK((*database)->ForEach(
      "", "", "", [&](std::string_view, const ocdbt::ValueRef&) {
        ++key_count;
        return Status();
      }));
  FUZZ_CHECK(key_count == (*repaired)->key_count);
}

}  // namespace
}  // namespace holdfast

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes = holdfast::FuzzText(data, size);
  holdfast::CheckScan(bytes);
  holdfast::CheckRepair(bytes);
  // The same bytes as a node, whatever they contain, after a value.
  const std::string node = holdfast::RepairedEnvelope(bytes);
  const std::string file = "value" + node;
  holdfast::CheckScan(file);
  holdfast::CheckRepair(file);
  return 0;
}
