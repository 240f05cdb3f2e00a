#pragma once

#include <hdf5.h>

#include <map>
#include <stdexcept>
#include <utility>

#include "program_support.h"

namespace flashbert::testing {

/// A run with a value of its own for every key: what it was asked to do and what it left behind.
struct ToldRun {
  nlohmann::json asked;                    ///< by key, '-' between words
  std::vector<std::int64_t> evaluated_at;  ///< samples trained before each evaluation, by hand
  std::vector<std::int64_t> saved_at;      ///< steps of the saves that are left, by hand
  std::int64_t steps = 0;                  ///< by hand
  std::int64_t seq_len = 0, predictions = 0, eval_samples = 0, accumulation = 0;
  std::filesystem::path data;
  TrainedRun run;
  double begin_ms = 0.0, end_ms = 0.0;  ///< wall clock around the process

  template <class T>
  [[nodiscard]] T key(const std::string& name) const {
    return asked.at(name).get<T>();
  }
  [[nodiscard]] std::int64_t batch() const { return key<std::int64_t>("global-batch"); }
};

/// Tokens and masked positions of a sample.
struct RowCounts {
  std::int64_t tokens = 0, masked = 0;
};

/// Counts of every row of a shard, by HDF5 alone.
inline std::vector<RowCounts> shard_rows(const std::filesystem::path& path) {
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  if (file < 0) throw std::runtime_error("cannot open " + path.string());
  // Fixed rows tell tokens by input_mask and masked positions by labels that are not 0; rows of variable length by their lengths.
  const bool fixed = H5Lexists(file, "input_mask", H5P_DEFAULT) > 0;
  const auto counts = [&](const char* name) {
    const hid_t set = H5Dopen(file, name, H5P_DEFAULT);
    const hid_t space = H5Dget_space(set);
    hsize_t extent[2] = {0, 0};
    H5Sget_simple_extent_dims(space, extent, nullptr);
    std::vector<std::int64_t> result(extent[0], 0);
    if (fixed) {
      std::vector<int> values(extent[0] * extent[1]);
      H5Dread(set, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data());
      for (std::size_t i = 0; i < values.size(); ++i) result[i / extent[1]] += values[i] != 0 ? 1 : 0;
    } else {
      std::vector<hvl_t> rows(extent[0]);
      const hid_t type = H5Tvlen_create(H5T_NATIVE_INT);
      H5Dread(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, rows.data());
      for (std::size_t i = 0; i < rows.size(); ++i) result[i] = static_cast<std::int64_t>(rows[i].len);
      H5Dvlen_reclaim(type, space, H5P_DEFAULT, rows.data());
      H5Tclose(type);
    }
    H5Sclose(space);
    H5Dclose(set);
    return result;
  };
  const auto tokens = counts(fixed ? "input_mask" : "input_ids");
  const auto masked = counts(fixed ? "masked_lm_ids" : "masked_lm_positions");
  H5Fclose(file);
  std::vector<RowCounts> rows(tokens.size());
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = {tokens[i], masked[i]};
  return rows;
}

/// Parameters in the documented order as {Hugging Face's name, TensorFlow's name}, written out for any number of layers.
inline std::vector<std::pair<std::string, std::string>> parameter_names(std::int64_t layers) {
  std::vector<std::pair<std::string, std::string>> names;
  const auto dense = [&](const std::string& here, const std::string& there) {
    names.emplace_back(here + ".weight", there + "/kernel");
    names.emplace_back(here + ".bias", there + "/bias");
  };
  const auto norm = [&](const std::string& here, const std::string& there) {
    names.emplace_back(here + ".LayerNorm.weight", there + "/LayerNorm/gamma");
    names.emplace_back(here + ".LayerNorm.bias", there + "/LayerNorm/beta");
  };
  for (const std::string table : {"word", "position", "token_type"}) {
    names.emplace_back("bert.embeddings." + table + "_embeddings.weight", "bert/embeddings/" + table + "_embeddings");
  }
  norm("bert.embeddings", "bert/embeddings");
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    const std::string here = "bert.encoder.layer." + std::to_string(layer);
    const std::string there = "bert/encoder/layer_" + std::to_string(layer);
    for (const std::string part : {"query", "key", "value"}) dense(here + ".attention.self." + part, there + "/attention/self/" + part);
    dense(here + ".attention.output.dense", there + "/attention/output/dense");
    norm(here + ".attention.output", there + "/attention/output");
    dense(here + ".intermediate.dense", there + "/intermediate/dense");
    dense(here + ".output.dense", there + "/output/dense");
    norm(here + ".output", there + "/output");
  }
  dense("bert.pooler.dense", "bert/pooler/dense");
  names.emplace_back("cls.predictions.bias", "cls/predictions/output_bias");
  dense("cls.predictions.transform.dense", "cls/predictions/transform/dense");
  norm("cls.predictions.transform", "cls/predictions/transform");
  names.emplace_back("cls.seq_relationship.weight", "cls/seq_relationship/output_weights");
  names.emplace_back("cls.seq_relationship.bias", "cls/seq_relationship/output_bias");
  return names;
}

/// The two runs (told_runs.cpp); they are not started.
ToldRun deep_run();
ToldRun flat_run();

}  // namespace flashbert::testing
