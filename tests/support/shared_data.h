#pragma once

#include <cstdlib>
#include <filesystem>
#include <optional>

namespace flashbert::testing {

/// The folder of shared test data: $FLASHBERT_SHARED, else ../shared beside the source tree; absent = tests that need it skip.
inline std::optional<std::filesystem::path> shared_data() {
  const char* const variable = std::getenv("FLASHBERT_SHARED");
  const std::filesystem::path folder = variable != nullptr && *variable != '\0'
                                           ? std::filesystem::path(variable)
                                           : std::filesystem::path(FLASHBERT_SOURCE_DIR) / ".." / "shared";
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored)) return std::nullopt;
  return folder;
}

/// Goldens that are small enough to stand in the repository.
inline std::filesystem::path repository_goldens() { return std::filesystem::path(FLASHBERT_SOURCE_DIR) / "tests" / "golden"; }

}  // namespace flashbert::testing

/// Binds `name` to the shared folder or skips the test with the reason.
#define FLASHBERT_SHARED_OR_SKIP(name)                                                                         \
  const auto name##_folder = ::flashbert::testing::shared_data();                                              \
  if (!name##_folder) GTEST_SKIP() << "no shared test data: set FLASHBERT_SHARED to the folder that holds it"; \
  const std::filesystem::path& name = *name##_folder
