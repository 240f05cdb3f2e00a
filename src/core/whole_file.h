#pragma once

#include <filesystem>
#include <string_view>

namespace flashbert {

/// Makes the folder and its parents. Throws EnvironmentError with the system's reason.
void make_folder(const std::filesystem::path& folder);

/// Writes the bytes under a temporary, hidden name in the same folder, flushes them to disk and renames, so that a file under `path` is
/// always whole and its former content lives until then. Throws EnvironmentError with path, bytes needed, bytes free and the system's
/// reason; the temporary file is removed then.
void write_whole_file(const std::filesystem::path& path, std::string_view content);

/// Writes all bytes to an open file. Returns 0 or the errno of what failed.
[[nodiscard]] int write_bytes(int descriptor, std::string_view content);

}  // namespace flashbert
