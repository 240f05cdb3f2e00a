#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace flashbert {

/// Comparisons of values in logs as the official checker makes them, in Python's sense.

/// A number, or a truth value as 1 or 0.
std::optional<double> number_of(const nlohmann::json& value);

/// Equal as in Python: 448 and 448.0 are, and NaN, being one object there, equals itself.
bool same_value(const nlohmann::json& a, const nlohmann::json& b);

/// Whether metadata holds a name: as an object's member, an array's element or a part of a text. Nothing where metadata is none of these.
bool holds_name(const nlohmann::json& metadata, std::string_view name);

/// A member of an object that is a number.
std::optional<double> number_at(const nlohmann::json& metadata, std::string_view name);

/// A text, or empty.
std::string text_of(const nlohmann::json& value);

/// For messages: JSON in ASCII, cut where it is long.
std::string shown(const nlohmann::json& value);

}  // namespace flashbert
