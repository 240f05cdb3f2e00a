#include "report/log_values.h"

#include <algorithm>
#include <cmath>

namespace flashbert {

using Json = nlohmann::json;

std::optional<double> number_of(const Json& value) {
  if (value.is_boolean()) return value.get<bool>() ? 1.0 : 0.0;
  if (value.is_number()) return value.get<double>();
  return std::nullopt;
}

bool same_value(const Json& a, const Json& b) {
  const auto x = number_of(a), y = number_of(b);
  if (x && y) return *x == *y || (std::isnan(*x) && std::isnan(*y));
  return a == b;
}

bool holds_name(const Json& metadata, std::string_view name) {
  if (metadata.is_object()) return metadata.contains(name);
  if (metadata.is_array()) return std::any_of(metadata.begin(), metadata.end(), [&](const Json& item) { return item == name; });
  if (metadata.is_string()) return metadata.get_ref<const std::string&>().find(name) != std::string::npos;
  return false;
}

std::optional<double> number_at(const Json& metadata, std::string_view name) {
  if (!metadata.is_object() || !metadata.contains(name)) return std::nullopt;
  return number_of(metadata[name]);
}

std::string text_of(const Json& value) { return value.is_string() ? value.get<std::string>() : std::string(); }

std::string shown(const Json& value) {
  constexpr std::size_t kLongest = 60;
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (value.is_number_float() && std::isnan(value.get<double>())) text = "NaN";
  return text.size() <= kLongest ? text : text.substr(0, kLongest) + "...";
}

}  // namespace flashbert
