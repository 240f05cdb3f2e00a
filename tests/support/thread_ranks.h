#pragma once

#include <algorithm>
#include <barrier>
#include <cstring>
#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "comm/communicator.h"

namespace flashbert::testing {

/// Ranks as threads of one process, for tests of what runs on several ranks without starting MPI. Sums are taken in rank order.
class ThreadRanks {
 public:
  explicit ThreadRanks(int size) : size_(size), barrier_(size), places_(static_cast<std::size_t>(size)) {}

  /// f on every rank, each in a thread of its own; rethrows the first rank's error. A rank must not fail alone while others wait for it.
  void run(const std::function<void(Communicator&)>& f) {
    std::vector<std::thread> threads;
    std::vector<std::exception_ptr> errors(static_cast<std::size_t>(size_));
    for (int rank = 0; rank < size_; ++rank) {
      threads.emplace_back([&, rank] {
        Rank own(*this, rank);
        try {
          f(own);
        } catch (...) {
          errors[static_cast<std::size_t>(rank)] = std::current_exception();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const std::exception_ptr& error : errors) {
      if (error) std::rethrow_exception(error);
    }
  }

 private:
  class Rank final : public Communicator {
   public:
    Rank(ThreadRanks& all, int rank) : all_(all), rank_(rank) {}
    [[nodiscard]] int rank() const override { return rank_; }
    [[nodiscard]] int size() const override { return all_.size_; }
    void all_reduce_sum(std::span<float> values) override { combine(values, std::plus<>()); }
    void all_reduce_sum(std::span<double> values) override { combine(values, std::plus<>()); }
    void all_reduce_sum(std::span<std::int64_t> values) override { combine(values, std::plus<>()); }
    void all_reduce_max(std::span<std::int64_t> values) override {
      combine(values, [](std::int64_t a, std::int64_t b) { return std::max(a, b); });
    }
    void broadcast(void* data, std::size_t bytes) override {
      publish(data);
      if (rank_ != 0) std::memcpy(data, all_.places_[0], bytes);
      barrier();
    }
    void barrier() override { all_.barrier_.arrive_and_wait(); }
    [[nodiscard]] int local_size() const override { return all_.size_; }
    [[nodiscard]] int own_cores() const override { return 1; }
    [[nodiscard]] std::string gather_lines(const std::string& line) override {
      publish(const_cast<std::string*>(&line));
      std::string text;
      for (int rank = 0; rank < all_.size_ && rank_ == 0; ++rank) {
        text += *static_cast<const std::string*>(all_.places_[static_cast<std::size_t>(rank)]) + "\n";
      }
      barrier();
      return text;
    }
    [[nodiscard]] std::string description() const override { return "threads"; }

   private:
    void publish(void* data) {
      all_.places_[static_cast<std::size_t>(rank_)] = data;
      barrier();
    }
    template <class T, class Operation>
    void combine(std::span<T> values, const Operation& operation) {
      publish(values.data());
      std::vector<T> result(values.size());
      for (std::size_t i = 0; i < values.size(); ++i) {
        result[i] = static_cast<T*>(all_.places_[0])[i];
        for (std::size_t r = 1; r < all_.places_.size(); ++r) result[i] = operation(result[i], static_cast<T*>(all_.places_[r])[i]);
      }
      barrier();  // all have read before any writes
      std::copy(result.begin(), result.end(), values.begin());
      barrier();
    }
    ThreadRanks& all_;
    int rank_;
  };

  int size_;
  std::barrier<> barrier_;
  std::vector<void*> places_;
};

}  // namespace flashbert::testing
