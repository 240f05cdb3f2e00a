#pragma once

#include <algorithm>
#include <barrier>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "comm/peers.h"

namespace flashbert::testing {

/// Ranks as threads of one process, for tests of what runs on several ranks without starting MPI. Sums are taken in rank order.
class ThreadRanks {
 public:
  /// Consecutive ranks share a machine, so many at most.
  ThreadRanks(int size, int ranks_per_node) : size_(size), ranks_per_node_(ranks_per_node), world_(size) {
    for (int first = 0; first < size; first += ranks_per_node) nodes_.emplace_back(std::min(ranks_per_node, size - first));
    for (int place = 0; place < std::min(ranks_per_node, size); ++place) {
      across_nodes_.emplace_back((size - place + ranks_per_node - 1) / ranks_per_node);
    }
  }
  explicit ThreadRanks(int size) : ThreadRanks(size, size) {}

  /// f on every rank, each in a thread of its own; rethrows the first rank's error. A rank must not fail alone while others wait for it.
  void run(const std::function<void(Peers)>& f) {
    std::vector<std::thread> threads;
    std::vector<std::exception_ptr> errors(static_cast<std::size_t>(size_));
    for (int rank = 0; rank < size_; ++rank) {
      threads.emplace_back([&, rank] {
        OneRank ranks(*this, rank);
        OneCollectives collectives(*this, rank);
        try {
          f({.ranks = ranks, .collectives = collectives});
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
  /// Where the ranks of a group show each other their memory.
  class Meeting {
   public:
    explicit Meeting(int size) : places_(static_cast<std::size_t>(size)), barrier_(size) {}
    [[nodiscard]] int size() const { return static_cast<int>(places_.size()); }
    void wait() { barrier_.arrive_and_wait(); }
    /// Shows this rank's memory; returns when all have.
    void show(int rank, const void* data) {
      places_[static_cast<std::size_t>(rank)] = data;
      wait();
    }
    template <class T>
    [[nodiscard]] const T* of(int rank) const {
      return static_cast<const T*>(places_[static_cast<std::size_t>(rank)]);
    }
    /// values = operation over what all ranks show, in rank order; `values` may be what this rank shows.
    template <class T, class Operation>
    void combine(int rank, std::span<T> values, const Operation& operation) {
      show(rank, values.data());
      std::vector<T> result(of<T>(0), of<T>(0) + values.size());
      for (int other = 1; other < size(); ++other) {
        for (std::size_t i = 0; i < result.size(); ++i) result[i] = operation(result[i], of<T>(other)[i]);
      }
      wait();  // all have read before any writes
      std::copy(result.begin(), result.end(), values.begin());
      wait();
    }
    void broadcast(int rank, int root, void* data, std::size_t bytes) {
      show(rank, data);
      if (rank != root) std::memcpy(data, of<void>(root), bytes);
      wait();
    }

   private:
    std::vector<const void*> places_;
    std::barrier<> barrier_;
  };

  class OneRank final : public Ranks {
   public:
    OneRank(ThreadRanks& all, int rank) : all_(all), rank_(rank) {}
    [[nodiscard]] int rank() const override { return rank_; }
    [[nodiscard]] int size() const override { return all_.size_; }
    void all_reduce_sum(std::span<double> values) override { all_.world_.combine(rank_, values, std::plus<>()); }
    void all_reduce_sum(std::span<std::int64_t> values) override { all_.world_.combine(rank_, values, std::plus<>()); }
    void all_reduce_max(std::span<std::int64_t> values) override {
      all_.world_.combine(rank_, values, [](std::int64_t a, std::int64_t b) { return std::max(a, b); });
    }
    void broadcast(void* data, std::size_t bytes) override { all_.world_.broadcast(rank_, 0, data, bytes); }
    void barrier() override { all_.world_.wait(); }
    [[nodiscard]] int local_size() const override { return all_.nodes_[static_cast<std::size_t>(rank_ / all_.ranks_per_node_)].size(); }
    [[nodiscard]] int own_cores() const override { return 1; }
    [[nodiscard]] std::string gather_lines(const std::string& line) override {
      all_.world_.show(rank_, &line);
      std::string text;
      for (int rank = 0; rank < all_.size_ && rank_ == 0; ++rank) text += *all_.world_.of<std::string>(rank) + "\n";
      barrier();
      return text;
    }
    [[nodiscard]] std::string description() const override { return "threads"; }

   private:
    ThreadRanks& all_;
    int rank_;
  };

  class OneCollectives final : public Collectives {
   public:
    OneCollectives(ThreadRanks& all, int rank) : all_(all), rank_(rank) {}
    [[nodiscard]] int rank(Group group) const override {
      if (group == Group::kNode) return rank_ % all_.ranks_per_node_;
      return group == Group::kAcrossNodes ? rank_ / all_.ranks_per_node_ : rank_;
    }
    [[nodiscard]] int size(Group group) const override { return meeting(group).size(); }

   private:
    [[nodiscard]] Meeting& meeting(Group group) const {
      if (group == Group::kNode) return all_.nodes_[static_cast<std::size_t>(rank_ / all_.ranks_per_node_)];
      if (group == Group::kAcrossNodes) return all_.across_nodes_[static_cast<std::size_t>(rank_ % all_.ranks_per_node_)];
      return all_.world_;
    }
    void do_all_reduce(Tensor values, Group group) override {
      if (values.dtype() == Dtype::kF64) {
        meeting(group).combine(rank(group), std::span(values.data<double>(), static_cast<std::size_t>(values.elements())), std::plus<>());
      } else {
        values.dtype() == Dtype::kBf16 ? add<bf16>(values, 0, values, group) : add<float>(values, 0, values, group);
      }
    }
    void do_reduce_scatter(ConstTensor all, Tensor slice, Group group) override {
      const std::int64_t first = slice.elements() * rank(group);
      all.dtype() == Dtype::kBf16 ? add<bf16>(all, first, slice, group) : add<float>(all, first, slice, group);
    }
    /// to = the sum over the ranks, in their order, of the elements from `first` on, in f32.
    template <class T>
    void add(ConstTensor from, std::int64_t first, Tensor to, Group group) {
      Meeting& ranks = meeting(group);
      ranks.show(rank(group), from.data<T>());
      std::vector<float> sums(static_cast<std::size_t>(to.elements()), -0.0F);
      for (int other = 0; other < ranks.size(); ++other) {
        for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += to_float(ranks.of<T>(other)[first + static_cast<std::int64_t>(i)]);
      }
      ranks.wait();  // all have read before any writes
      for (std::size_t i = 0; i < sums.size(); ++i) {
        if constexpr (std::is_same_v<T, bf16>) {
          to.data<bf16>()[i] = to_bf16(sums[i]);
        } else {
          to.data<float>()[i] = sums[i];
        }
      }
      ranks.wait();
    }
    void do_all_gather(ConstTensor slice, Tensor all, Group group) override {
      Meeting& ranks = meeting(group);
      ranks.show(rank(group), slice.raw());
      auto* const to = static_cast<std::byte*>(all.raw());
      for (int other = 0; other < ranks.size(); ++other) {
        const auto* const from = ranks.of<std::byte>(other);
        std::byte* const place = to + other * slice.bytes();
        if (place != from) std::memcpy(place, from, static_cast<std::size_t>(slice.bytes()));
      }
      ranks.wait();
    }
    void do_broadcast(Tensor values, int root, Group group) override {
      meeting(group).broadcast(rank(group), root, values.raw(), static_cast<std::size_t>(values.bytes()));
    }
    ThreadRanks& all_;
    int rank_;
  };

  int size_, ranks_per_node_;
  Meeting world_;
  std::deque<Meeting> nodes_, across_nodes_;  // deque: a barrier does not move
};

}  // namespace flashbert::testing
