#include "report/system_info.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace flashbert::testing {
namespace {

TEST(SystemInfo, TellsTheMachineAndTheLibrariesHandedIn) {
  const nlohmann::json json = nlohmann::json::parse(system_json({{"compiler", "a compiler"}, {"hdf5", "1.10.8"}}));
  for (const char* const key : {"host", "processor", "operating_system", "kernel"})
    EXPECT_FALSE(json.at(key).get<std::string>().empty()) << key;
  EXPECT_GE(json.at("sockets"), 1);
  EXPECT_GE(json.at("cores"), 1);
  EXPECT_GT(json.at("memory_bytes"), 0);
  const nlohmann::json want = {{"compiler", "a compiler"}, {"hdf5", "1.10.8"}};
  EXPECT_EQ(json.at("software"), want);
}

TEST(SystemInfo, NoLibrariesAreAnEmptyObject) { EXPECT_TRUE(nlohmann::json::parse(system_json({})).at("software").is_object()); }

}  // namespace
}  // namespace flashbert::testing
