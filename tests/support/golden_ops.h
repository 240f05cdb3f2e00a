#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/safetensors.h"

namespace flashbert::testing {

/// The single operations in double that the shared folder holds (golden/ops).
class GoldenOps {
 public:
  /// Throws InputError when a file is missing or is not what it should be.
  explicit GoldenOps(const std::filesystem::path& shared);
  [[nodiscard]] const nlohmann::json& parameters(const std::string& name) const;
  /// Names of the cases of one op, in the order of the file.
  [[nodiscard]] std::vector<std::string> cases_of(const std::string& op) const;
  [[nodiscard]] std::vector<double> values(const std::string& name, const std::string& tensor) const;
  [[nodiscard]] std::vector<std::int32_t> integers(const std::string& name, const std::string& tensor) const;

 private:
  SafetensorsFile file_;
  nlohmann::json description_;
};

}  // namespace flashbert::testing
