#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "formats/safetensors.h"

namespace flashbert::testing {

/// Single operations in double: tests/golden/ops, and larger ones in the shared folder (golden/ops).
class GoldenOps {
 public:
  /// Throws InputError when a file is missing or is not what it should be.
  explicit GoldenOps(const std::filesystem::path& folder);
  [[nodiscard]] const nlohmann::json& parameters(const std::string& name) const;
  /// Names of the cases of one op, in the order of the file.
  [[nodiscard]] std::vector<std::string> cases_of(const std::string& op) const;
  [[nodiscard]] std::vector<double> values(const std::string& name, const std::string& tensor) const;
  /// The log-sum-exp of an attention case as operations keep it, (A, T); files have (T, A).
  [[nodiscard]] std::vector<double> log_sums(const std::string& name) const;
  [[nodiscard]] std::vector<std::int32_t> integers(const std::string& name, const std::string& tensor) const;
  /// Rates of schedules around their edges.
  [[nodiscard]] const nlohmann::json& learning_rates() const { return description_.at("learning_rate"); }

 private:
  SafetensorsFile file_;
  nlohmann::json description_;
};

}  // namespace flashbert::testing
