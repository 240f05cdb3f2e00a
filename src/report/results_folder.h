#pragma once

#include <filesystem>
#include <string_view>

namespace flashbert {

enum class ExistingResults { kRefuse, kOverwrite };

/// Makes the results folder with its parents and proves that it can be written. Refuses (ConfigError) a folder that holds results of a
/// run, or removes exactly these. Throws EnvironmentError when it cannot be made or written, or when the disk is full.
void prepare_results_folder(const std::filesystem::path& out, ExistingResults existing);

/// Writes under a temporary name, flushes to disk, renames: a file under its final name is whole. Throws EnvironmentError.
void write_text_atomically(const std::filesystem::path& path, std::string_view text);

}  // namespace flashbert
