#pragma once

#include <filesystem>

#include "model/parameters.h"

namespace flashbert {

/// Reads the names and shapes only and throws the InputErrors that load_checkpoint would.
void check_checkpoint(const std::filesystem::path& path, const ParameterTable& table);

/// Fills the masters of all parameters from a checkpoint and refreshes the copies. Names are Hugging Face's; LayerNorm gamma / beta are
/// accepted for weight / bias; the vocabulary may be padded to a multiple of 8 or 64 in the file; position_ids and the tied decoder
/// are ignored. Every parameter must be found with its shape (missing and unknown tensors are all listed in the InputError).
void load_checkpoint(const std::filesystem::path& path, Parameters& parameters, Ops& ops);

}  // namespace flashbert
