#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <memory>
#include <new>

#include "comm/communicator.h"
#include "commands/command_line.h"
#include "core/error.h"

namespace {

using flashbert::ExitCode;

/// A spinning OpenMP barrier that meets a busy core costs several times the step; a short spin loses nothing when alone. The OpenMP runtime
/// reads the variable when it is loaded, so the program starts itself again once, unless somebody has made a choice.
void limit_spinning(char** argv) {
  for (const char* const name : {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY", "FLASHBERT_KEEP_OMP"}) {
    if (std::getenv(name) != nullptr) return;
  }
  setenv("GOMP_SPINCOUNT", "2000", 1);
  execv("/proc/self/exe", argv);  // returns only where it is not possible: then the run is slower under load, not wrong
}

/// One line for one error; a peer's waiting collective is ended by the abort in main.
ExitCode report(const std::exception& error, bool root, ExitCode code) {
  if (root || code != ExitCode::kWrongUse) spdlog::error("{}", error.what());
  return code;
}

ExitCode run(int argc, char** argv, flashbert::Communicator& communicator) {
  try {
    return flashbert::run_command_line(argc, argv, communicator);
  } catch (const flashbert::Error& error) {
    return report(error, communicator.root(), error.code());
  } catch (const std::bad_alloc&) {
    spdlog::error("out of memory; use a smaller micro-batch or model (flashbert train --dry-run prints the plan)");
    return ExitCode::kEnvironment;
  } catch (const std::exception& error) {
    return report(error, true, ExitCode::kEnvironment);
  }
}

}  // namespace

int main(int argc, char** argv) {
  limit_spinning(argv);
  try {
    flashbert::MpiSession session(&argc, &argv);
    const std::unique_ptr<flashbert::Communicator> communicator = flashbert::make_communicator(session);
    const ExitCode code = run(argc, argv, *communicator);
    const bool verdict = code == ExitCode::kGood || code == ExitCode::kBadVerdict || code == ExitCode::kSignal;
    if (!verdict && communicator->size() > 1) session.abort(static_cast<int>(code));
    return static_cast<int>(code);
  } catch (const flashbert::Error& error) {
    spdlog::error("{}", error.what());
    return static_cast<int>(error.code());
  } catch (const std::exception& error) {
    spdlog::error("{}", error.what());
    return static_cast<int>(ExitCode::kEnvironment);
  }
}
