// Run by the fault tests against servers: reads, writes and lists through a
// Store on a bucket, with waits so short that many faults fit into a test.
//
//   bucket_client VERB URL [FILE]
//     put      FILE to the object URL; large ones in parts
//     create   the same, only where nothing is yet
//     get      the object URL to FILE
//     list     all objects below URL, one a line: "BYTES KEY"
//     delete   the object URL
//
// The last line is JSON: status, message, counters. Exit status 0 when the
// status is OK. HOLDFAST_TEST_BACKOFF_MS, _BACKOFF_MAX_MS, _STALL_MS,
// _DEADLINE_MS, _ATTEMPTS and _HEDGE change the client's options.
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "ground/base/status_macros.h"
#include "stores/cloud/bucket_store.h"
#include "stores/place/bucket_registry.h"

namespace holdfast {
namespace {

int64_t NumberOf(const char* name, int64_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::atoll(text) : otherwise;
}

RemoteOptions OptionsOfTest() {
  using std::chrono::milliseconds;
  RemoteOptions options;
  HttpOptions& http = options.http;
  http.backoff_first = milliseconds(NumberOf("HOLDFAST_TEST_BACKOFF_MS", 5));
  http.backoff_max =
      milliseconds(NumberOf("HOLDFAST_TEST_BACKOFF_MAX_MS", 1000));
  http.stall_deadline =
      milliseconds(NumberOf("HOLDFAST_TEST_STALL_MS", 30'000));
  http.request_deadline =
      milliseconds(NumberOf("HOLDFAST_TEST_DEADLINE_MS", 60'000));
  http.attempt_count_max = static_cast<int>(
      NumberOf("HOLDFAST_TEST_ATTEMPTS", http.attempt_count_max));
  http.hedge = NumberOf("HOLDFAST_TEST_HEDGE", 0) != 0;
  http.log = [](std::string_view line) { std::cerr << line << "\n"; };
  return options;
}

Status PutFile(BucketStore& store, const std::string& key, const char* file,
               bool must_create) {
  std::ifstream in(file, std::ios::binary);
  std::stringstream content;
  content << in.rdbuf();
  const std::string bytes = content.str();
  WriteOptions options;
  options.must_create = must_create;
  return store.Write(key, bytes, options);
}

Status GetFile(BucketStore& store, const std::string& key, const char* file) {
  HF_ASSIGN_OR_RETURN(const Bytes bytes, store.Read(key));
  std::ofstream(file, std::ios::binary) << bytes.view();
  return {};
}

Status RunVerb(const std::string& verb, const std::string& url,
               const char* file) {
  HF_ASSIGN_OR_RETURN(const BucketPlace place,
                      BucketRegistry::Default().Find(url));
  const size_t slash = place.key.rfind('/');
  const bool is_list = verb == "list";
  const std::string root =
      is_list ? place.key
              : place.key.substr(0, slash == std::string::npos ? 0 : slash);
  const std::string key = place.key.substr(slash + 1);
  BucketStore store(place.bucket, root);
  if (is_list) {
    return store.List("", [](std::string_view name, const ObjectInfo& info) {
      std::cout << info.byte_count << " " << name << "\n";
      return Status();
    });
  }
  if (verb == "put") return PutFile(store, key, file, false);
  if (verb == "create") return PutFile(store, key, file, true);
  if (verb == "get") return GetFile(store, key, file);
  if (verb == "delete") return store.Delete(key);
  return InvalidArgumentError("no verb " + verb);
}

int RunProgram(int argc, char** argv) {
  if (argc < 3) return 2;
  BucketRegistry::Default().SetOptions(OptionsOfTest());
  const Status status = RunVerb(argv[1], argv[2], argc > 3 ? argv[3] : "");
  const HttpCounters counters = TotalHttpCounters();
  const nlohmann::json told = {{"status", StatusCodeName(status.code())},
                               {"message", status.message()},
                               {"requests", counters.requests},
                               {"attempts", counters.attempts},
                               {"retries", counters.retries},
                               {"throttled", counters.throttled},
                               {"hedges", counters.hedges},
                               {"connections", counters.connections},
                               {"sent_bytes", counters.sent_bytes},
                               {"received_bytes", counters.received_bytes}};
  std::cout << told.dump() << "\n";
  return status.ok() ? 0 : 1;
}

}  // namespace
}  // namespace holdfast

int main(int argc, char** argv) { return holdfast::RunProgram(argc, argv); }
