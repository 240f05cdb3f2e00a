#pragma once

#include <filesystem>
#include <span>

namespace flashbert {

/// Makes the folder and its parents. Throws EnvironmentError with the system's reason.
void make_folder(const std::filesystem::path& folder);

/// Writes the bytes under a temporary name in the same folder, flushes them to disk and renames, so that a file under `path` is always
/// whole. Throws EnvironmentError with path, bytes needed, bytes free and the system's reason; the temporary file is removed then.
void write_whole_file(const std::filesystem::path& path, std::span<const char> content);

}  // namespace flashbert
