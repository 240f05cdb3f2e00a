#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace flashbert {

class MpiSession;

/// The ranks of a run, and what they settle: a few numbers in host memory, texts, waiting for each other. Tensors go by Collectives.
/// What is called "all" below is collective: every rank calls the same in the same order with as many values; it returns when the result is
/// there, and throws PeerError with the rank and the call when MPI fails. The order of sums is fixed by the number of ranks.
class Ranks {
 public:
  virtual ~Ranks() = default;
  Ranks() = default;
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;
  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;
  [[nodiscard]] bool root() const { return rank() == 0; }
  /// Ranks on this machine, and the cores this one may use without taking another's: those it is bound to, or its even share where ranks
  /// of the machine are bound to the same.
  [[nodiscard]] virtual int local_size() const = 0;
  [[nodiscard]] virtual int own_cores() const = 0;
  /// "self" or the MPI library's version line.
  [[nodiscard]] virtual std::string description() const = 0;

  /// In place on all: each value becomes the sum, or the largest, over the ranks.
  virtual void all_reduce_sum(std::span<double> values) = 0;
  virtual void all_reduce_sum(std::span<std::int64_t> values) = 0;
  virtual void all_reduce_max(std::span<std::int64_t> values) = 0;
  /// The root's bytes to all; below 2 GiB.
  virtual void broadcast(void* data, std::size_t bytes) = 0;
  /// All wait until all are here.
  virtual void barrier() = 0;
  /// All ranks' texts, a line end after each, in rank order, on the root; empty elsewhere.
  [[nodiscard]] virtual std::string gather_lines(const std::string& line) = 0;
};

/// A rank alone, without MPI.
std::unique_ptr<Ranks> make_self_ranks();

/// The ranks of an active session, else a rank alone. Collective over the world.
std::unique_ptr<Ranks> make_ranks(const MpiSession& session);

}  // namespace flashbert
