#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/dtype.h"

namespace flashbert::testing {

/// A tensor as a safetensors file holds it, values as doubles.
struct PlainTensor {
  std::string dtype = "F32";  ///< F32, F64, BF16 or I64
  std::vector<std::int64_t> shape;
  std::vector<double> values;
};
struct PlainSafetensors {
  std::map<std::string, PlainTensor> tensors;
  std::map<std::string, std::string> metadata;
};

namespace plain {

template <class T>
void append(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
}
template <class T>
T take(const std::string& bytes, std::size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(value));
  return value;
}

}  // namespace plain

/// The format's letter, written here and not by the program: length of the header (u64, little endian), header, data.
inline void write_plain(const std::filesystem::path& path, const PlainSafetensors& file) {
  nlohmann::json header = nlohmann::json::object();
  if (!file.metadata.empty()) header["__metadata__"] = file.metadata;
  std::string data;
  for (const auto& [name, tensor] : file.tensors) {
    const std::size_t begin = data.size();
    for (const double value : tensor.values) {
      if (tensor.dtype == "F64") plain::append(data, value);
      if (tensor.dtype == "F32") plain::append(data, static_cast<float>(value));
      if (tensor.dtype == "I64") plain::append(data, static_cast<std::int64_t>(value));
      if (tensor.dtype == "BF16") {
        // The upper half of an f32; tests give values that have no lower one.
        const auto wide = static_cast<float>(value);
        std::uint32_t bits = 0;
        std::memcpy(&bits, &wide, sizeof(bits));
        plain::append(data, static_cast<std::uint16_t>(bits >> 16));
      }
    }
    header[name] = {{"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {begin, data.size()}}};
  }
  const std::string text = header.dump();
  std::string bytes;
  plain::append(bytes, static_cast<std::uint64_t>(text.size()));
  std::ofstream(path, std::ios::binary) << bytes << text << data;
}

inline PlainSafetensors read_plain(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(stream), {}};
  const auto size = plain::take<std::uint64_t>(bytes, 0);
  const auto header = nlohmann::json::parse(bytes.substr(8, size));
  PlainSafetensors file;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") {
      file.metadata = entry.get<std::map<std::string, std::string>>();
      continue;
    }
    PlainTensor tensor{.dtype = entry["dtype"], .shape = entry["shape"], .values = {}};
    const auto begin = entry["data_offsets"][0].get<std::size_t>();
    const auto end = entry["data_offsets"][1].get<std::size_t>();
    for (std::size_t at = begin; at < end; at += sizeof(float)) {
      tensor.values.push_back(static_cast<double>(plain::take<float>(bytes, 8 + size + at)));
    }
    file.tensors[name] = std::move(tensor);
  }
  return file;
}

}  // namespace flashbert::testing
