#include "support/golden_ops.h"

#include <cstdint>
#include <cstring>
#include <fstream>

#include "core/error.h"

namespace flashbert::testing {
namespace {

template <class T>
std::vector<double> read_as(const ConstTensor& tensor) {
  std::vector<double> values;
  const auto* const bytes = static_cast<const std::byte*>(tensor.raw());
  for (std::int64_t i = 0; i < tensor.elements(); ++i) {
    T element;
    std::memcpy(&element, bytes + i * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
    values.push_back(static_cast<double>(element));
  }
  return values;
}

}  // namespace

GoldenOps::GoldenOps(const std::filesystem::path& folder) : file_(folder / "ops.safetensors") {
  const std::filesystem::path path = folder / "ops.json";
  std::ifstream stream(path);
  description_ = nlohmann::json::parse(stream, nullptr, false);
  check<InputError>(!description_.is_discarded(), "{} is missing or no JSON", path.string());
}

const nlohmann::json& GoldenOps::parameters(const std::string& name) const {
  for (const nlohmann::json& entry : description_.at("cases")) {
    if (entry.at("name") == name) return entry.at("params");
  }
  throw InputError(fmt::format("ops.json has no case {}", name));
}

std::vector<std::string> GoldenOps::cases_of(const std::string& op) const {
  std::vector<std::string> names;
  for (const nlohmann::json& entry : description_.at("cases")) {
    if (entry.at("op") == op) names.push_back(entry.at("name"));
  }
  return names;
}

std::vector<double> GoldenOps::values(const std::string& name, const std::string& tensor) const {
  const ConstTensor found = file_.tensor(name + "." + tensor);
  switch (found.dtype()) {
    case Dtype::kF64:
      return read_as<double>(found);
    case Dtype::kF32:
      return read_as<float>(found);
    case Dtype::kI64:
      return read_as<std::int64_t>(found);
    case Dtype::kI32:
      return read_as<std::int32_t>(found);
    case Dtype::kU8:
      return read_as<std::uint8_t>(found);
    default:
      throw InputError(fmt::format("{}.{} is {}", name, tensor, name_of(found.dtype())));
  }
}

std::vector<double> GoldenOps::log_sums(const std::string& name) const {
  const std::vector<double> by_row = values(name, "lse");
  const std::size_t heads = parameters(name).at("heads");
  std::vector<double> by_head;
  for (std::size_t head = 0; head < heads; ++head) {
    for (std::size_t i = head; i < by_row.size(); i += heads) by_head.push_back(by_row[i]);
  }
  return by_head;
}

std::vector<std::int32_t> GoldenOps::integers(const std::string& name, const std::string& tensor) const {
  std::vector<std::int32_t> integers;
  for (const double value : values(name, tensor)) integers.push_back(static_cast<std::int32_t>(value));
  return integers;
}

}  // namespace flashbert::testing
