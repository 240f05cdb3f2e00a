#include "train/decided_values.h"

#include <gtest/gtest.h>

#include <map>

namespace flashbert::testing {
namespace {

Backend backend_with(int threads, Dtype compute) {
  Backend backend;
  backend.context = make_context({.device = Device::kCpu, .threads = threads});
  backend.threads = threads;
  backend.compute = compute;
  return backend;
}

std::map<std::string, DecidedValue> by_key(const std::vector<DecidedValue>& decided) {
  std::map<std::string, DecidedValue> all;
  for (const DecidedValue& value : decided) all[value.key] = value;
  return all;
}

TEST(DecidedValues, OfARunThatLeftNothingOpenThereAreNone) {
  TrainSettings asked;
  asked.threads = 2;
  asked.device = "cpu";
  asked.precision = Precision::kF32;
  asked.seed = 9;
  asked.micro_batch = 4;
  asked.accum = 3;
  const BatchPlan plan{.split = {.micro_batch = 4, .accumulation = 3}, .engine = {}, .note = {}};
  EXPECT_TRUE(decided_values(asked, asked.seed, backend_with(2, Dtype::kF32), plan, 1).empty());
}

TEST(DecidedValues, WhatWasLeftOpenIsToldWithItsReason) {
  const BatchPlan plan{.split = {.micro_batch = 4, .accumulation = 3}, .engine = {}, .note = "fits"};
  const auto decided = by_key(decided_values({}, 77, backend_with(2, Dtype::kF32), plan, 1));
  EXPECT_EQ(decided.size(), 6U);
  EXPECT_EQ(decided.at("threads").value, "2");
  EXPECT_EQ(decided.at("device").value, "cpu");
  EXPECT_EQ(decided.at("precision").value, "f32");
  EXPECT_EQ(decided.at("seed").value, "77");
  EXPECT_EQ(decided.at("micro-batch").value, "4");
  EXPECT_EQ(decided.at("micro-batch").reason, "fits");
  EXPECT_EQ(decided.at("accum").value, "3");
  EXPECT_EQ(by_key(decided_backend({}, backend_with(2, Dtype::kBf16), 1)).count("precision"), 0U);
}

TEST(DecidedValues, OnSeveralRanksItIsSaidWhoseTheyAre) {
  BatchPlan plan{.split = {.micro_batch = 4, .accumulation = 3}, .engine = {}, .note = {}};
  TrainSettings asked;
  auto decided = by_key(decided_values(asked, 77, backend_with(2, Dtype::kF32), plan, 2));
  EXPECT_NE(decided.at("threads").reason.find("rank 0"), std::string::npos);
  EXPECT_NE(decided.at("micro-batch").reason.find("least"), std::string::npos);
  EXPECT_NE(decided.at("accum").reason.find("2 ranks"), std::string::npos);
  asked.accum = 3;
  decided = by_key(decided_values(asked, 77, backend_with(2, Dtype::kF32), plan, 2));
  EXPECT_NE(decided.at("micro-batch").reason.find("accum"), std::string::npos);
  EXPECT_EQ(decided.count("accum"), 0U);
}

}  // namespace
}  // namespace flashbert::testing
