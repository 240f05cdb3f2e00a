#include "report/record_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>

namespace flashbert {
namespace {

using Json = nlohmann::json;

/// What the official parser strips from the end of a line, in Latin-1.
bool is_space(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte == ' ' || (byte >= 0x09 && byte <= 0x0d) || (byte >= 0x1c && byte <= 0x1f) || byte == 0x85 || byte == 0xa0;
}

std::string_view without_end_space(std::string_view text) {
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

std::string utf8_of_latin1(std::string_view text) {
  std::string result;
  result.reserve(text.size() + 8);
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80) {
      result += c;
    } else {
      result += static_cast<char>(0xc0 | (byte >> 6));
      result += static_cast<char>(0x80 | (byte & 0x3f));
    }
  }
  return result;
}

/// Marks a word of JSON-as-written-by-others until it is a number; no other text begins with a control character.
constexpr std::string_view kWordMark = "\\u0001word:";
constexpr std::string_view kParsedMark = "\u0001word:";

/// The word that stands at a place outside of strings for a number that no strict parser takes, and how long it is in the text.
struct NumberWord {
  std::string_view word;
  std::size_t length = 0;
};
NumberWord number_word(std::string_view text) {
  for (const std::string_view word : {"NaN", "-Infinity", "Infinity"}) {
    if (text.starts_with(word)) return {word, word.size()};
  }
  if (text.empty() || std::string_view("-0123456789").find(text.front()) == std::string_view::npos) return {};
  const std::size_t length = std::min(text.find_first_not_of("+-.eE0123456789"), text.size());
  double value = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + length, value);
  if (error != std::errc::result_out_of_range || end != text.data() + length) return {{}, length};
  return {text.front() == '-' ? "-Infinity" : "Infinity", length};
}

/// NaN, Infinity and numbers too large for a double become marked strings outside of strings, since no strict parser takes them.
std::string with_marked_words(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size();) {
    std::size_t taken = 1;
    if (text[i] == '"') {
      while (i + taken < text.size() && text[i + taken] != '"') taken += text[i + taken] == '\\' ? 2 : 1;
      taken = std::min(taken + 1, text.size() - i);
      result += text.substr(i, taken);
    } else if (const NumberWord number = number_word(text.substr(i)); !number.word.empty()) {
      taken = number.length;
      result += fmt::format("\"{}{}\"", kWordMark, number.word);
    } else {
      taken = std::max<std::size_t>(number.length, 1);
      result += text.substr(i, taken);
    }
    i += taken;
  }
  return result;
}

void restore_words(Json& json) {
  if (json.is_structured()) {
    for (Json& child : json) restore_words(child);
    return;
  }
  if (!json.is_string()) return;
  const auto& text = json.get_ref<const std::string&>();
  if (!text.starts_with(kParsedMark)) return;
  const std::string word = text.substr(kParsedMark.size());
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  json = word == "NaN" ? std::numeric_limits<double>::quiet_NaN() : word.starts_with("-") ? -kInfinity : kInfinity;
}

/// Discarded where the text is no JSON.
Json parse_json(std::string_view text) {
  Json json = Json::parse(text, nullptr, false);
  if (!json.is_discarded()) return json;
  const std::string latin1 = utf8_of_latin1(text);
  json = Json::parse(latin1, nullptr, false);
  if (!json.is_discarded()) return json;
  json = Json::parse(with_marked_words(latin1), nullptr, false);
  if (!json.is_discarded()) restore_words(json);
  return json;
}

/// Milliseconds, or nothing where the official parser stops: numbers, truth values and texts that hold one number.
std::optional<double> time_of(const Json& json) {
  if (json.is_number()) return json.get<double>();
  if (json.is_boolean()) return json.get<bool>() ? 1.0 : 0.0;
  if (!json.is_string()) return std::nullopt;
  const auto& text = json.get_ref<const std::string&>();
  double value = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

ParsedRecord refused(std::string error) { return {.record = {}, .error = std::move(error)}; }

}  // namespace

Mentions mentions_of(std::string_view text) {
  const auto holds = [&](std::string_view word) { return text.find(word) != std::string_view::npos; };
  return {.global_batch_size = holds("global_batch_size"),
          .benchmark = holds("submission_benchmark"),
          .evaluation = holds("eval_accuracy") || holds("eval_error"),
          .train_samples = holds("train_samples"),
          .run_stop = holds("run_stop")};
}

ParsedRecord parse_record(std::string_view text) {
  text = without_end_space(text);
  if (text.empty()) return refused("nothing stands behind the mark; write the JSON object on the same line");
  Json json = parse_json(text);
  if (json.is_discarded()) return refused("this is no whole JSON object; was the line cut or mixed with another rank's output?");
  if (!json.is_object()) return refused(fmt::format("a record is a JSON object, this is {}", json.type_name()));
  for (const char* const name : {"time_ms", "key", "value", "metadata"}) {
    if (!json.contains(name)) return refused(fmt::format("the record has no {}; the official checker crashes on it", name));
  }
  const std::optional<double> time = time_of(json["time_ms"]);
  if (!time) return refused(fmt::format("time_ms is {}, a number of milliseconds is wanted", json["time_ms"].dump(-1, ' ', true)));
  ParsedRecord parsed;
  parsed.record.time_ms = *time;
  if (json["key"].is_string()) parsed.record.key = json["key"].get<std::string>();
  parsed.record.value = std::move(json["value"]);
  parsed.record.metadata = std::move(json["metadata"]);
  parsed.record.mentions = mentions_of(text);
  return parsed;
}

}  // namespace flashbert
