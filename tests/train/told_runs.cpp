#include "told_run.h"

namespace flashbert::testing {

/// Rows of variable length, three layers, limits and points that no batch divides, the reference's forms, the closed division.
ToldRun deep_run() {
  ToldRun told;
  told.data = synth_data("--samples 150 --eval-samples 60 --vocab 300 --seq-len 48 --shards 2 --layout varlength");
  told.asked = {{"layers", 3},
                {"hidden", 40},
                {"heads", 5},
                {"intermediate", 56},
                {"vocab", 301},
                {"max-positions", 52},
                {"type-vocab", 3},
                {"hidden-dropout", 0.15},
                {"attention-dropout", 0.25},
                {"global-batch", 12},
                {"micro-batch", 4},
                {"accum", 3},
                {"max-predictions", 11},
                {"max-steps", 7},
                {"max-samples", 1000},
                {"target-accuracy", 0.97},
                {"eval-every-samples", 30},
                {"eval-samples", 37},
                {"eval-at-start", true},
                {"lr", 3e-3},
                {"lr-total-steps", 50},
                {"warmup-steps", 3},
                {"start-warmup-step", -1},
                {"lr-power", 2.0},
                {"beta1", 0.8},
                {"beta2", 0.95},
                {"epsilon", 1e-5},
                {"weight-decay", 0.03},
                {"clip-norm", 0.7},
                {"clip", "before-reduce"},
                {"loss-normalisation", "per-rank"},
                {"precision", "f32"},
                {"threads", 2},
                {"seed", 12345678901},
                {"save-every-steps", 2},
                {"save-at-end", true},
                {"keep", 3},
                {"submission-org", "first organisation"},
                {"submission-division", "closed"},
                {"submission-status", "cloud"},
                {"submission-platform", "one abacus"}};
  // Points after 30, 60 and 90 samples: the first whole batches are 36, 60 and 96, beyond the limit of 84.
  told.evaluated_at = {0, 36, 60, 84};
  told.saved_at = {4, 6, 7};  // of 2, 4, 6 and the end
  told.steps = 7;
  told.seq_len = 52;  // rows do not tell it
  told.predictions = 11;
  told.eval_samples = 37;
  told.accumulation = 3;
  return told;
}

/// Rows of one width, one layer, no value in common with the other run.
ToldRun flat_run() {
  ToldRun told;
  told.data = synth_data("--samples 64 --eval-samples 23 --vocab 200 --seq-len 32 --shards 1 --layout fixed");
  told.asked = {{"layers", 1},
                {"hidden", 32},
                {"heads", 2},
                {"intermediate", 24},
                {"vocab", 200},
                {"max-positions", 36},
                {"type-vocab", 2},
                {"hidden-dropout", 0.05},
                {"attention-dropout", 0.0},
                {"global-batch", 10},
                {"micro-batch", 5},
                {"accum", 2},
                {"max-predictions", 0},
                {"max-steps", 0},
                {"max-samples", 45},
                {"target-accuracy", 0.99},
                {"eval-every-samples", 20},
                {"eval-samples", 0},
                {"eval-at-start", false},
                {"lr", 7e-4},
                {"lr-total-steps", 9},
                {"warmup-steps", 0},
                {"start-warmup-step", 0},
                {"lr-power", 0.5},
                {"beta1", 0.7},
                {"beta2", 0.9},
                {"epsilon", 1e-4},
                {"weight-decay", 0.2},
                {"clip-norm", 5.0},
                {"clip", "after-reduce"},
                {"loss-normalisation", "global"},
                {"precision", "bf16"},
                {"threads", 1},
                {"seed", 77},
                {"save-every-steps", 0},
                {"save-at-end", true},
                {"keep", 1},
                {"submission-org", "second organisation"},
                {"submission-division", "open"},
                {"submission-status", "onprem"},
                {"submission-platform", "two slide rules"}};
  told.evaluated_at = {20, 40, 50};
  told.saved_at = {5};
  told.steps = 5;  // the first multiple of 10 that is at least 45
  told.seq_len = 32;
  told.predictions = 5;  // round-half-even(0.15 x 32)
  told.eval_samples = 23;
  told.accumulation = 2;
  return told;
}

}  // namespace flashbert::testing
