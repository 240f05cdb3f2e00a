#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <regex>
#include <set>
#include <string>
#include <vector>

// Sources that are compiled with flags of an instruction set must leave no function behind that the linker could share with code for lesser
// processors: an inline function of a header, compiled there, may be the copy that everybody calls. So these sources include nothing but
// intrinsics, C's plain headers, each other, and headers of constants, plain structs and declarations.

namespace flashbert {
namespace {

namespace fs = std::filesystem;

const fs::path kSources = fs::path(FLASHBERT_SOURCE_DIR) / "src";

std::string text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Whether a file has instruction-set flags, or is included by such files for its vector code: everything in it is in an unnamed namespace.
bool is_narrow(const std::string& name) {
  static const std::regex kNames(R"(.*(_avx[0-9a-z_]*\.cpp|_per_level\.cpp|_impl\.h|/simd\.h))");
  return std::regex_match(name, kNames);
}

/// Headers without any function body that narrow sources may include.
const std::set<std::string>& plain_headers() {
  static const std::set<std::string> headers = {
      "core/element_type.h",         "core/philox_constants.h",   "kernels/formula_constants.h", "kernels/cpu/attention/kernels.h",
      "kernels/cpu/linear/blocks.h", "kernels/cpu/linear/pack.h", "kernels/cpu/peak/bursts.h",   "kernels/cpu/rows/kernels.h",
  };
  return headers;
}

/// What a narrow source or a plain header includes and may not: "<algorithm>", "core/dtype.h".
std::vector<std::string> forbidden_includes(const std::string& text) {
  static const std::set<std::string> kSystem = {"<immintrin.h>", "<cstddef>", "<cstdint>", "<cstring>"};
  static const std::regex kInclude(R"((?:^|\n)[ \t]*#[ \t]*include[ \t]*(<[^>\n]*>|"[^"\n]*"))");
  std::vector<std::string> found;
  for (std::sregex_iterator match(text.begin(), text.end(), kInclude); match != std::sregex_iterator(); ++match) {
    const std::string target = (*match)[1];
    if (target.front() == '<') {
      if (!kSystem.contains(target)) found.push_back(target);
      continue;
    }
    const std::string header = target.substr(1, target.size() - 2);
    if (!is_narrow(header) && !plain_headers().contains(header)) found.push_back(header);
  }
  return found;
}

/// Whether a header holds the body of a function (constexpr ones and members are inline): a parameter list before a brace.
bool has_function_body(const std::string& text) {
  const std::string code = std::regex_replace(text, std::regex("//[^\n]*"), "");
  return std::regex_search(code, std::regex(R"(\)\s*(const|noexcept|override|\s)*\{)"));
}

std::vector<std::string> files_of(const std::function<bool(const std::string&)>& wanted) {
  std::vector<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(kSources)) {
    const std::string name = fs::relative(entry.path(), kSources).generic_string();
    if (entry.is_regular_file() && wanted(name)) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

TEST(NarrowSources, IncludeNothingWithInlineFunctions) {
  const std::vector<std::string> names = files_of(is_narrow);
  EXPECT_GE(names.size(), 10U);
  for (const std::string& name : names) {
    for (const std::string& target : forbidden_includes(text_of(kSources / name))) ADD_FAILURE() << name << " includes " << target;
  }
}

TEST(NarrowSources, PlainHeadersHoldNoFunctionAndIncludeOnlyEachOther) {
  for (const std::string& name : plain_headers()) {
    const std::string text = text_of(kSources / name);
    EXPECT_FALSE(text.empty()) << name << " is not there";
    EXPECT_FALSE(has_function_body(text)) << name << " holds a function";
    for (const std::string& target : forbidden_includes(text)) ADD_FAILURE() << name << " includes " << target;
  }
}

TEST(NarrowSources, TheirVectorCodeIsInUnnamedNamespaces) {
  for (const std::string& name : files_of([](const std::string& file) { return is_narrow(file) && file.ends_with(".h"); })) {
    EXPECT_TRUE(std::regex_search(text_of(kSources / name), std::regex("\nnamespace \\{\n"))) << name;
  }
}

TEST(NarrowSources, AreKnownByTheirNames) {
  for (const char* const name : {"kernels/cpu/linear/pack_avx2.cpp", "kernels/cpu/peak/peak_avx512_bf16.cpp", "kernels/cpu/rows/x_impl.h",
                                 "kernels/cpu/rows/kernels_per_level.cpp", "kernels/cpu/simd/simd.h"}) {
    EXPECT_TRUE(is_narrow(name)) << name;
  }
  for (const char* const name : {"kernels/cpu/linear/pack.cpp", "kernels/cpu/linear/pack.h", "kernels/cpu/peak/peak.cpp"}) {
    EXPECT_FALSE(is_narrow(name)) << name;
  }
}

TEST(NarrowSources, EveryForbiddenIncludeIsFound) {
  EXPECT_EQ(forbidden_includes("#include <immintrin.h>\n#include <algorithm>\n"), std::vector<std::string>{"<algorithm>"});
  EXPECT_EQ(forbidden_includes(" # include \"core/dtype.h\"\n"), std::vector<std::string>{"core/dtype.h"});
  EXPECT_TRUE(forbidden_includes("// #include <array>\n#include <cstring>\n#include \"kernels/cpu/rows/norm_impl.h\"\n").empty());
}

TEST(NarrowSources, EveryFunctionBodyIsFound) {
  EXPECT_TRUE(has_function_body("constexpr int twice(int x) { return 2 * x; }\n"));
  EXPECT_TRUE(has_function_body("struct A {\n  int size() const {\n    return 1;\n  }\n};\n"));
  EXPECT_FALSE(has_function_body("// f(x) { }\nstruct A {\n  int x = 0;\n};\nvoid f(const A& a);\nextern const A kA;\n"));
}

}  // namespace
}  // namespace flashbert
