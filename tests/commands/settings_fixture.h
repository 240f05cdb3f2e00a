#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "commands/setting_sources.h"
#include "core/error.h"

namespace flashbert::testing {

/// A folder for files of settings, removed after each test.
class SettingsFixture : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("flashbert_settings_" + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name) << text;
    return folder_ / name;
  }
  /// The message of the ConfigError that these sources cause.
  static std::string refusal(const SettingSources& sources) {
    try {
      static_cast<void>(resolve_settings(sources));
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  }
  std::string file_refusal(const std::string& text) {
    return refusal({.command_line = {}, .config_file = write("bad.toml", text), .environment = {}});
  }

  std::filesystem::path folder_;
};

}  // namespace flashbert::testing
