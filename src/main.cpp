#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iostream>
#include <memory>
#include <new>
#include <system_error>
#include <thread>

#include "comm/mpi_session.h"
#include "comm/peers.h"
#include "commands/command_line.h"
#include "core/error.h"
#include "core/log.h"

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

/// One line for one error of the job. Wrong options fail alike on all ranks: the root speaks at once and its abort ends the others while
/// they wait here. A rank that lives on after the wait failed alone, so it speaks itself; ranks that only know of it wait longer.
ExitCode report(const char* message, const flashbert::Ranks& ranks, ExitCode code) {
  constexpr auto kRootSpeaksFirst = std::chrono::seconds(1);
  constexpr auto kFailedRankSpeaks = std::chrono::seconds(5);
  if (code == ExitCode::kPeerFailed) {
    std::this_thread::sleep_for(kFailedRankSpeaks);
  } else if (!ranks.root()) {
    std::this_thread::sleep_for(kRootSpeaksFirst);
  }
  spdlog::error("{}", message);
  return code;
}

/// Output that did not arrive is a failure, unless its reader went away.
ExitCode flushed(ExitCode code) {
  errno = 0;
  std::cout.flush();
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0 && std::cout.good()) return code;
  if (errno == EPIPE) return code;
  spdlog::error("cannot write to standard output: {}; what was printed is not complete",
                errno == 0 ? "an earlier write failed" : std::strerror(errno));
  return ExitCode::kEnvironment;
}

ExitCode run(int argc, char** argv, flashbert::Peers peers) {
  try {
    return flushed(flashbert::run_command_line(argc, argv, peers));
  } catch (const flashbert::Error& error) {
    return report(error.what(), peers.ranks, error.code());
  } catch (const std::bad_alloc&) {
    return report("out of memory; use a smaller micro-batch or model (flashbert train --dry-run prints the plan)", peers.ranks,
                  ExitCode::kEnvironment);
  } catch (const std::system_error& error) {
    if (error.code().value() == EPIPE) return ExitCode::kGood;  // the reader of a listing has seen enough
    return report(error.what(), peers.ranks, ExitCode::kEnvironment);
  } catch (const std::exception& error) {
    return report(error.what(), peers.ranks, ExitCode::kEnvironment);
  }
}

}  // namespace

int main(int argc, char** argv) {
  limit_spinning(argv);
  static_cast<void>(std::signal(SIGPIPE, SIG_IGN));  // a reader of the output that went away (| head) must not end a training
  try {
    flashbert::configure_log(0, "info");  // to standard error from the first line on; the rank is not known yet
    flashbert::MpiSession session(&argc, &argv);
    const std::unique_ptr<flashbert::Ranks> ranks = flashbert::make_ranks(session);
    const std::unique_ptr<flashbert::Collectives> collectives = flashbert::make_collectives(session);
    const ExitCode code = run(argc, argv, {.ranks = *ranks, .collectives = *collectives});
    const bool verdict = code == ExitCode::kGood || code == ExitCode::kBadVerdict || code == ExitCode::kSignal;
    if (!verdict && ranks->size() > 1) session.abort(static_cast<int>(code));
    return static_cast<int>(code);
  } catch (const flashbert::Error& error) {
    spdlog::error("{}", error.what());
    return static_cast<int>(error.code());
  } catch (const std::exception& error) {
    spdlog::error("{}", error.what());
    return static_cast<int>(ExitCode::kEnvironment);
  }
}
