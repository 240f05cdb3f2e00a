#pragma once

#include <cstdint>
#include <string>

#include "model/bert_config.h"

namespace flashbert {

enum class Precision { kF32, kBf16 };
enum class ClipOrder { kAfterReduce, kBeforeReduce };
enum class LossNormalisation { kGlobal, kPerRank };

/// LAMB and its schedule; names and meaning as in docs/benchmark-rules.md.
struct OptimizerSettings {
  double lr = 4.25e-4;
  std::int64_t lr_total_steps = 6700;
  std::int64_t warmup_steps = 0;
  std::int64_t start_warmup_step = 0;  ///< may be negative
  double lr_power = 1.0;
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-6, weight_decay = 0.01;
  double clip_norm = 1.0;
};

/// Log fields; required for the closed division only.
struct SubmissionSettings {
  std::string org, division = "open", status, platform;
};

/// Everything `train` and `eval` obey, one member a key of configs/README.md (with '_' for '-').
struct TrainSettings {
  std::string train_data, eval_data;
  std::string init = "random";  ///< or a checkpoint
  std::string resume;           ///< refused in this version unless empty
  std::string out;
  bool overwrite = false;
  bool dry_run = false;
  BertConfig model;
  std::int64_t global_batch = 448;
  std::int64_t micro_batch = 0;      ///< 0 = chosen and logged
  std::int64_t accum = 0;            ///< derived; checked if given
  std::int64_t max_predictions = 0;  ///< most masked positions of a sample; 0 = what the files tell, else 16 % of the length
  std::int64_t max_steps = 0, max_samples = 0;
  double target_accuracy = 0.720;
  std::int64_t eval_every_samples = 0;  ///< 0 = the MLPerf rule
  std::int64_t eval_samples = 0;        ///< 0 = all
  bool eval_at_start = false;
  OptimizerSettings optimizer;
  ClipOrder clip = ClipOrder::kAfterReduce;
  LossNormalisation loss_normalisation = LossNormalisation::kGlobal;
  Precision precision = Precision::kBf16;
  std::string device = "auto";
  std::int64_t threads = 0;
  std::uint64_t seed = 0;  ///< 0 = from system entropy, logged
  std::int64_t save_every_steps = 0;
  bool save_at_end = false;
  std::int64_t keep = 2;
  std::string trace_samples;
  SubmissionSettings submission;
  bool tensorboard = false;
};

}  // namespace flashbert
