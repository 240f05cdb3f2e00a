#pragma once

#include <filesystem>

namespace flashbert {

enum class ExistingResults { kRefuse, kOverwrite };

/// Refuses (ConfigError) a folder that holds results of a run, unless they may be overwritten; touches nothing.
void check_results_folder(const std::filesystem::path& out, ExistingResults existing);

/// Makes the results folder with its parents and proves that it can be written. Refuses results as check_results_folder(), or removes
/// exactly these. Throws EnvironmentError when it cannot be made or written, or when the disk is full.
void prepare_results_folder(const std::filesystem::path& out, ExistingResults existing);

/// Removes the results of a run and nothing else.
void remove_results(const std::filesystem::path& out);

/// Whether a path is another one or lies in that folder, symbolic links followed.
bool lies_in(const std::filesystem::path& path, const std::filesystem::path& place);

/// Whether the path lies in what remove_results() would remove.
bool is_result(const std::filesystem::path& out, const std::filesystem::path& path);

}  // namespace flashbert
