// Options that are refused, and the settings that valid options result in.
#include "orbax/pytree/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "orbax/pytree/base_restore.h"
#include "orbax/pytree/pytree_test_util.h"
#include "orbax/pytree/save_item.h"

namespace holdfast {
namespace {

std::string SettingsRefusal(PyTreeCheckpointHandlerOptions options) {
  const auto handler = PyTreeCheckpointHandler::Make(std::move(options));
  EXPECT_EQ(handler.status().code(), StatusCode::kInvalidArgument);
  return std::string(handler.status().message());
}

TEST(Settings, DefaultsAreTheEngines) {
  const auto settings = MakePyTreeSettings({});
  ASSERT_TRUE(settings.ok());
  EXPECT_EQ(settings->aggregate_file, "checkpoint");
  EXPECT_FALSE(settings->save_bytes_max);
  EXPECT_FALSE(settings->restore_bytes_max);
  EXPECT_FALSE(TransferBytesMax(*settings));
  EXPECT_EQ(settings->options.type_handler_registry,
            GlobalTypeHandlerRegistry());
  EXPECT_EQ(RunWithin({}).memory_bytes, RunOptions().memory_bytes);
}

TEST(Settings, GbAre10To9Bytes) {
  const auto settings =
      MakePyTreeSettings({.save_concurrent_gb = 1,
                          .restore_concurrent_gb = 0.5,
                          .save_device_host_concurrent_gb = ConcurrentGb(2.0)});
  ASSERT_TRUE(settings.ok());
  EXPECT_EQ(settings->save_bytes_max, 1000000000);
  EXPECT_EQ(settings->restore_bytes_max, 500000000);
  EXPECT_EQ(TransferBytesMax(*settings), 2000000000);
}

TEST(Settings, BoundsMustBePositive) {
  EXPECT_EQ(SettingsRefusal({.save_concurrent_gb = 0}),
            "Must provide positive `concurrent_bytes`. Found: 0");
  EXPECT_EQ(SettingsRefusal({.restore_concurrent_gb = -1}),
            "Must provide positive `concurrent_bytes`. Found: -1000000000");
  EXPECT_EQ(
      SettingsRefusal({.save_device_host_concurrent_gb = ConcurrentGb(0.0)}),
      "Must provide positive `concurrent_bytes`. Found: 0");
}

TEST(Settings, AutoNeedsALimit) {
  const ConcurrentGb word = std::string("auto");
  EXPECT_EQ(SettingsRefusal({.save_device_host_concurrent_gb = word}),
            "max_save_device_host_concurrent_bytes must be provided if "
            "save_device_host_concurrent_bytes is \"auto\"");
  EXPECT_EQ(SettingsRefusal({.save_device_host_concurrent_gb =
                                 ConcurrentGb(std::string("much"))}),
            "save_device_host_concurrent_gb must be a number or \"auto\" (got "
            "\"much\")");
  const auto settings =
      MakePyTreeSettings({.save_device_host_concurrent_gb = word,
                          .memory_limit_options = MemoryLimitOptions{1e-3}});
  ASSERT_TRUE(settings.ok());
  EXPECT_LE(*TransferBytesMax(*settings), 1000000);
}

TEST(Settings, ThisProcessIsTheOnlyOne) {
  EXPECT_EQ(SettingsRefusal({.multiprocessing_options = {.primary_host = 1}}),
            "multiprocessing_options.primary_host: this process is the only "
            "one (got 1, want 0 or none)");
  EXPECT_EQ(
      SettingsRefusal({.multiprocessing_options = {.active_processes =
                                                       std::set<int>{1, 2}}}),
      "multiprocessing_options.active_processes: this process is the "
      "only one, and this one is not among them (want 0)");
  EXPECT_TRUE(
      PyTreeCheckpointHandler::Make(
          {.multiprocessing_options = {std::nullopt, std::set<int>{0}, "x"}})
          .ok());
}

TEST(Settings, TheSaveBoundReachesTheEngine) {
  const auto settings = MakePyTreeSettings({.save_concurrent_gb = 2e-3});
  ASSERT_TRUE(settings.ok());
  const auto prepared = PrepareSave(*settings, "/nowhere",
                                    {.item = Tree::Dict({{"a", Tree(1)}})});
  ASSERT_TRUE(prepared.ok()) << prepared.status().ToString();
  EXPECT_EQ((*prepared)->options.run.memory_bytes, 2000000u);
}

TEST(Settings, TheRestoreBoundReachesTheEngine) {
  const auto settings = MakePyTreeSettings({.restore_concurrent_gb = 1e-4});
  ASSERT_TRUE(settings.ok());
  const ReadContext context = MakeReadContext(*settings, "/nowhere", nullptr);
  EXPECT_EQ(context.run.memory_bytes, 100000u);
  const auto info = CommonRestoreInfo(*settings, "/nowhere", nullptr);
  ASSERT_TRUE(info.ok());
  EXPECT_EQ(info->byte_limiter->bytes_max(), 100000);
}

}  // namespace
}  // namespace holdfast
