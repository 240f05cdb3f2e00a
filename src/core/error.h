#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace flashbert {

/// Exit codes of the program; main is the only place that ends the process with one.
enum class ExitCode : int {
  kGood = 0,         ///< done and good
  kBadVerdict = 1,   ///< ran, but the verdict is bad: target missed, NaN, log not compliant, check found errors
  kWrongUse = 2,     ///< wrong use or configuration; results already in --out
  kBadInput = 3,     ///< wrong, missing or empty input file or folder
  kEnvironment = 4,  ///< device, library, MPI, disk
  kPeerFailed = 5,   ///< a peer failed
  kSignal = 6,       ///< ended by a signal, saved or not
};

/// Base of everything flashbert throws for wrong input or environment. The message holds the value, the limit, the place
/// and the next action.
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  [[nodiscard]] ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

struct ConfigError : Error {
  explicit ConfigError(const std::string& m) : Error(ExitCode::kWrongUse, m) {}
};
struct InputError : Error {
  explicit InputError(const std::string& m) : Error(ExitCode::kBadInput, m) {}
};
struct EnvironmentError : Error {
  explicit EnvironmentError(const std::string& m) : Error(ExitCode::kEnvironment, m) {}
};
struct PeerError : Error {
  explicit PeerError(const std::string& m) : Error(ExitCode::kPeerFailed, m) {}
};
/// Tensor shapes or strides that an op's contract does not allow.
struct ShapeError : Error {
  explicit ShapeError(const std::string& m) : Error(ExitCode::kWrongUse, m) {}
};
/// Element types that an op's contract does not allow.
struct DtypeError : Error {
  explicit DtypeError(const std::string& m) : Error(ExitCode::kWrongUse, m) {}
};

/// A promise between parts of the program that one of them broke: nothing a user can mend.
struct BrokenPromise : std::logic_error {
  explicit BrokenPromise(const std::string& m) : std::logic_error(m) {}
};

/// Throws E with the formatted message when the condition is false: check<InputError>(n > 0, "{} holds no rows", path).
template <class E, class... Args>
void check(bool condition, fmt::format_string<Args...> format, Args&&... args) {
  if (!condition) throw E(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace flashbert
