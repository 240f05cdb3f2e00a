#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

// The folders of src/ may include each other in one direction only (docs/architecture.md), and no source file may grow past a size that
// one reads at a sitting. Compilers see neither.

namespace flashbert {
namespace {

namespace fs = std::filesystem;

struct SourceFile {
  std::string name;  ///< from the folder scanned, with '/': "kernels/cpu/linear/linear.cpp"
  std::string text;
};

/// What each folder of src/ may include; "main" is src/main.cpp. Every folder may include itself.
const std::map<std::string, std::set<std::string>, std::less<>>& allowed_folders() {
  static const std::map<std::string, std::set<std::string>, std::less<>> allowed = {
      {"core", {}},
      {"formats", {"core"}},
      {"kernels", {"core"}},
      {"comm", {"core"}},
      {"data", {"core"}},
      {"report", {"core"}},
      {"model", {"core", "kernels"}},
      {"train", {"core", "kernels", "model", "comm", "data", "report", "formats"}},
      {"bench", {"core", "kernels", "model", "comm", "data", "train"}},
      {"commands", {"core", "kernels", "model", "comm", "data", "report", "formats", "train", "bench"}},
      {"main", {"core", "comm", "commands"}},
  };
  return allowed;
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

void skip_spaces(std::string_view& text) { text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size())); }

/// The path of a quoted include, or empty: `#include "core/error.h"` with any spaces that the language allows.
std::string_view quoted_include(std::string_view line) {
  for (const std::string_view part : {"#", "include", "\""}) {
    skip_spaces(line);
    if (!line.starts_with(part)) return {};
    line.remove_prefix(part.size());
  }
  return line.substr(0, line.find('"'));
}

/// The first part of a path; "main" for the one file that lies in no folder.
std::string folder_of(std::string_view name) {
  const std::size_t slash = name.find('/');
  if (slash != std::string_view::npos) return std::string(name.substr(0, slash));
  return name == "main.cpp" ? "main" : "";
}

/// "kernels/ops.cpp:12 includes model/pass.h" for every include against the direction, and for every file or include of no known folder.
std::vector<std::string> violations(const SourceFile& file) {
  const auto allowed = allowed_folders().find(folder_of(file.name));
  if (allowed == allowed_folders().end()) return {file.name + " lies in no known folder"};
  std::vector<std::string> found;
  int number = 0;
  for (const std::string_view line : lines_of(file.text)) {
    ++number;
    const std::string_view target = quoted_include(line);
    if (target.empty()) continue;
    const std::string folder = folder_of(target);
    if (folder == allowed->first || allowed->second.contains(folder)) continue;
    found.push_back(file.name + ":" + std::to_string(number) + " includes " + std::string(target));
  }
  return found;
}

/// A rule about text: no file of src/ but those of the folders named may hold it.
struct Reserved {
  std::string_view text;
  std::set<std::string> owners;  ///< beginnings of file names
  std::string_view why;
};

const std::vector<Reserved>& reserved_texts() {
  static const std::vector<Reserved> reserved = {
      {".data<", {"core/", "kernels/", "comm/mpi_collectives.cpp"}, "only a backend looks inside tensors; Context::read and write copy"},
      {"synchronize(", {"core/", "kernels/"}, "only start-up and tools wait for the device, by Context::read and write"},
      {"#include \"kernels/cpu/",
       {"kernels/cpu/", "kernels/make_ops.cpp", "kernels/device_peak.cpp", "kernels/kernel_libraries.cpp"},
       "factories alone know the backends"},
      {"#include \"core/cpu/",
       {"core/", "kernels/cpu/", "kernels/make_ops.cpp", "commands/version_text.cpp"},
       "the CPU context is for CPU kernels"},
      {"#include <mpi.h>", {"comm/"}, "MPI belongs to comm"},
      {"#include <hdf5.h>", {"data/hdf5_file.h"}, "HDF5 belongs to one file"},
      {"#include <dnnl", {"kernels/cpu/linear/onednn"}, "oneDNN belongs to one file"},
  };
  return reserved;
}

std::vector<std::string> trespasses(const SourceFile& file) {
  std::vector<std::string> found;
  for (const Reserved& rule : reserved_texts()) {
    const bool owner =
        std::any_of(rule.owners.begin(), rule.owners.end(), [&](const std::string& begin) { return file.name.starts_with(begin); });
    int number = 0;
    for (const std::string_view line : lines_of(file.text)) {
      ++number;
      if (!owner && line.find(rule.text) != std::string_view::npos) {
        found.push_back(file.name + ":" + std::to_string(number) + " has '" + std::string(rule.text) + "': " + std::string(rule.why));
      }
    }
  }
  return found;
}

/// The C++ and CUDA files under a folder of the source tree, sorted by name.
std::vector<SourceFile> read_sources(const fs::path& folder) {
  static const std::set<std::string> kEndings = {".h", ".cpp", ".cu", ".cuh"};
  std::vector<SourceFile> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file() || !kEndings.contains(entry.path().extension().string())) continue;
    std::ifstream stream(entry.path(), std::ios::binary);
    files.push_back({fs::relative(entry.path(), folder).generic_string(), std::string(std::istreambuf_iterator<char>(stream), {})});
  }
  std::sort(files.begin(), files.end(), [](const SourceFile& a, const SourceFile& b) { return a.name < b.name; });
  return files;
}

/// Files are meant to have about 400 lines at most.
constexpr std::size_t kMostLines = 420;

std::vector<std::string> too_long(const std::vector<SourceFile>& files) {
  std::vector<std::string> found;
  for (const SourceFile& file : files) {
    const std::size_t lines = lines_of(file.text).size();
    if (lines > kMostLines) found.push_back(file.name + " has " + std::to_string(lines) + " lines");
  }
  return found;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

const fs::path kRoot = FLASHBERT_SOURCE_DIR;

TEST(Layers, IncludesFollowTheDirection) {
  std::set<std::string> seen;
  std::vector<std::string> found;
  for (const SourceFile& file : read_sources(kRoot / "src")) {
    seen.insert(folder_of(file.name));
    for (const std::string& violation : violations(file)) found.push_back(violation);
  }
  EXPECT_TRUE(found.empty()) << joined(found) << "see docs/architecture.md for who may include whom";
  for (const auto& [folder, allowed] : allowed_folders()) EXPECT_TRUE(seen.contains(folder)) << "no source file of " << folder;
}

TEST(Layers, WhatBelongsToAFolderStaysThere) {
  std::vector<std::string> found;
  for (const SourceFile& file : read_sources(kRoot / "src")) {
    for (const std::string& trespass : trespasses(file)) found.push_back(trespass);
  }
  EXPECT_TRUE(found.empty()) << joined(found);
}

TEST(Layers, EveryTrespassIsFound) {
  for (const Reserved& rule : reserved_texts()) {
    const std::string text = "int x;\n  " + std::string(rule.text) + "float>();\n";
    EXPECT_EQ(trespasses({"train/planted.cpp", text}).size(), 1U) << rule.text;
    for (const std::string& owner : rule.owners) EXPECT_TRUE(trespasses({owner + "planted.cpp", text}).empty()) << owner;
  }
}

TEST(Layers, EveryForbiddenIncludeIsFound) {
  for (const auto& [folder, allowed] : allowed_folders()) {
    const std::string name = folder == "main" ? "main.cpp" : folder + "/planted.cpp";
    for (const auto& [target, unused] : allowed_folders()) {
      if (target == "main") continue;
      const std::size_t expected = target == folder || allowed.contains(target) ? 0 : 1;
      const auto found = violations({name, "#pragma once\n#include \"" + target + "/planted.h\"\n"});
      EXPECT_EQ(found.size(), expected) << name << " includes " << target;
    }
  }
}

TEST(Layers, ViolationNamesFileLineAndHeader) {
  const SourceFile file{"kernels/cpu/planted.cpp", "#include <vector>\n\n#include \"core/error.h\"\n #  include\t\"model/pass.h\"\n"};
  EXPECT_EQ(violations(file), std::vector<std::string>{"kernels/cpu/planted.cpp:4 includes model/pass.h"});
}

TEST(Layers, IncludeWithoutAFolderIsFound) {
  EXPECT_EQ(violations({"data/planted.cpp", "#include \"loader.h\"\n"}).size(), 1U);
  EXPECT_EQ(violations({"data/planted.cpp", "#include \"../train/engine.h\"\n"}).size(), 1U);
  EXPECT_EQ(violations({"data/planted.cpp", "#include \"support/compare.h\""}).size(), 1U);
}

TEST(Layers, FileInNoKnownFolderIsFound) {
  EXPECT_EQ(violations({"helpers/planted.cpp", ""}).size(), 1U);
  EXPECT_EQ(violations({"planted.cpp", ""}).size(), 1U);
}

TEST(Layers, CommentsAndSystemHeadersAreNoIncludes) {
  EXPECT_TRUE(violations({"core/planted.cpp", "// #include \"train/engine.h\"\n#include <train/engine.h>\n"}).empty());
}

TEST(FileLength, NoSourceFileIsLongerThanTheLimit) {
  for (const char* const folder : {"src", "tests"}) {
    const auto files = read_sources(kRoot / folder);
    EXPECT_FALSE(files.empty()) << folder;
    const auto found = too_long(files);
    EXPECT_TRUE(found.empty()) << folder << ", more than " << kMostLines << " lines:\n" << joined(found) << "one idea a file: split it";
  }
}

TEST(FileLength, LimitItselfIsAllowedAndOneLineMoreIsFound) {
  const std::string longest(kMostLines, '\n');
  EXPECT_TRUE(too_long({{"core/planted.h", longest}}).empty());
  EXPECT_EQ(too_long({{"core/planted.h", longest + "\n"}}), std::vector<std::string>{"core/planted.h has 421 lines"});
  EXPECT_EQ(too_long({{"core/planted.h", longest + "last line without an end"}}).size(), 1U);
}

}  // namespace
}  // namespace flashbert
