#include "commands/version_text.h"

#include <openssl/crypto.h>

#include "comm/mpi_session.h"
#include "core/build_info.h"
#include "core/cpu/cpu_context.h"
#include "core/error.h"
#include "data/shard_description.h"
#include "kernels/kernel_libraries.h"

namespace flashbert {
namespace {

/// A processor that the kernels cannot use is an answer here, not a failure.
std::string processor_level() {
  try {
    return std::string(name_of(detect_isa()));
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace

std::string version_text() {
  std::string text = fmt::format("flashbert {}\n", version());
  for (const auto& [name, value] : build_info()) {
    if (name != "version" && !value.empty()) text += fmt::format("{:<12} {}\n", name, value);
  }
  for (const auto& [name, value] : kernel_libraries()) text += fmt::format("{:<12} {}\n", name, value);
  text += fmt::format("{:<12} {}\n", "HDF5", hdf5_version());
  text += fmt::format("{:<12} {}\n", "MPI", mpi_version());
  text += fmt::format("{:<12} {}\n", "OpenSSL", OpenSSL_version(OPENSSL_VERSION));
  text += fmt::format("{:<12} {}", "processor", processor_level());
  return text;
}

}  // namespace flashbert
