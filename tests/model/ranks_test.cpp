#include <gtest/gtest.h>

#include <cmath>
#include <mutex>

#include "model_fixture.h"
#include "support/thread_ranks.h"
#include "train/golden_tolerance.h"

namespace flashbert::testing {
namespace {

const std::vector<std::size_t> kLengths = {37, 5, 1, 18, 33, 9, 12, 26, 3, 30, 14, 8};
constexpr std::uint64_t kSeed = 17;

struct RanksCase {
  int ranks;
  std::size_t micro_batch;
  ClipOrder clip;
  LossNormalisation normalisation;
};
void PrintTo(const RanksCase& c, std::ostream* out) {
  *out << c.ranks << " ranks, micro-batch " << c.micro_batch << (c.clip == ClipOrder::kAfterReduce ? ", clip after" : ", clip before")
       << (c.normalisation == LossNormalisation::kGlobal ? ", global" : ", per rank");
}

double length(const NamedValues& gradients) {
  double squares = 0.0;
  for (const auto& [name, values] : gradients) {
    for (const double value : values) squares += value * value;
  }
  return std::sqrt(squares);
}

/// What the definitions of both losses and both clip orders say, micro-batch by micro-batch ("replica").
struct Wanted {
  double mlm = 0.0, nsp = 0.0, norm = 0.0;
  double clip_norm = 0.0;  ///< between the norms of the replicas' gradients, so that some are clipped and some are not
  NamedValues gradients;

  Wanted(const std::vector<OwnedSample>& samples, const NamedValues& weights, const RanksCase& c) {
    const std::size_t replicas = samples.size() / c.micro_batch;
    std::vector<NamedValues> parts;
    std::vector<double> norms;  // of each replica's own gradient: what it adds times the number of replicas
    for (std::size_t r = 0; r < replicas; ++r) {
      const auto first = samples.begin() + static_cast<std::ptrdiff_t>(r * c.micro_batch);
      const std::vector<OwnedSample> part(first, first + static_cast<std::ptrdiff_t>(c.micro_batch));
      const bool global = c.normalisation == LossNormalisation::kGlobal;
      const double count = static_cast<double>(replicas);
      const double mlm_scale =
          global ? 1.0 / static_cast<double>(masked_of(samples)) : 1.0 / ((static_cast<double>(masked_of(part)) + 1e-5) * count);
      const double nsp_scale = global ? 1.0 / static_cast<double>(samples.size()) : 1.0 / (static_cast<double>(part.size()) * count);
      const ReferenceLoss loss =
          ReferenceBert(kShape, weights)
              .run(reference_batch(part), {.training = true, .seed = kSeed, .mlm_scale = mlm_scale, .nsp_scale = nsp_scale});
      mlm += mlm_scale * loss.mlm_nll;
      nsp += nsp_scale * loss.nsp_nll;
      parts.push_back(loss.gradients);
      norms.push_back(count * length(loss.gradients));
    }
    clip_norm = std::sqrt(*std::min_element(norms.begin(), norms.end()) * *std::max_element(norms.begin(), norms.end()));
    for (std::size_t r = 0; r < replicas; ++r) {
      const double factor = c.clip == ClipOrder::kBeforeReduce ? std::min(1.0, clip_norm / norms[r]) : 1.0;
      for (const auto& [name, values] : parts[r]) {
        Values& sum = gradients[name];
        sum.resize(values.size(), 0.0);
        for (std::size_t i = 0; i < values.size(); ++i) sum[i] += factor * values[i];
      }
    }
    norm = length(gradients);
  }
};

class ModelOverRanks : public ::testing::TestWithParam<RanksCase> {};

TEST_P(ModelOverRanks, LossesNormAndGradientsAreThoseOfTheDefinition) {
  const RanksCase& c = GetParam();
  const auto samples = random_samples(kLengths, 51, 240);
  const NamedValues weights = random_weights(ParameterTable(config_of(kShape)), 52);
  const Wanted want(samples, weights, c);
  double tokens = 0.0;
  for (const std::size_t n : kLengths) tokens += static_cast<double>(n);
  const GoldenTolerance tolerance = golden_tolerance(config_of(kShape), tokens, unit_roundoff(Dtype::kF32), 1);
  const std::size_t own = samples.size() / static_cast<std::size_t>(c.ranks);
  std::mutex one_at_a_time;
  ThreadRanks ranks(c.ranks);
  std::vector<std::string> digests;
  ranks.run([&](Peers peers) {
    ModelFixture model({.global_batch = samples.size(),
                        .micro_batch = c.micro_batch,
                        .seed = kSeed,
                        .optimizer = {.clip_norm = want.clip_norm},
                        .clip = c.clip,
                        .normalisation = c.normalisation},
                       peers);
    model.set(weights);
    const auto first = samples.begin() + static_cast<std::ptrdiff_t>(own) * peers.ranks.rank();
    const StepResult got = model.step({first, first + static_cast<std::ptrdiff_t>(own)}, masked_of(samples));
    const std::lock_guard lock(one_at_a_time);
    SCOPED_TRACE(peers.ranks.rank());
    EXPECT_NEAR(got.mlm_loss, want.mlm, tolerance.loss * want.mlm);
    EXPECT_NEAR(got.nsp_loss, want.nsp, tolerance.loss * want.nsp);
    EXPECT_EQ(got.loss, got.mlm_loss + got.nsp_loss);
    EXPECT_NEAR(got.gradient_norm, want.norm, tolerance.gradient * want.norm);
    double errors = 0.0;
    for (std::size_t i = 0; i < model.table().parameters().size(); ++i) {
      const Values gradient = model.gradient(i);
      const Values& wanted = want.gradients.at(model.table().parameters()[i].name);
      for (std::size_t k = 0; k < wanted.size(); ++k) errors += (gradient[k] - wanted[k]) * (gradient[k] - wanted[k]);
    }
    EXPECT_LE(std::sqrt(errors), tolerance.gradient * want.norm);
    digests.push_back(model.engine().weight_digest());
  });
  for (const std::string& digest : digests) EXPECT_EQ(digest, digests.front());
}

constexpr auto kAfter = ClipOrder::kAfterReduce;
constexpr auto kBefore = ClipOrder::kBeforeReduce;
constexpr auto kGlobal = LossNormalisation::kGlobal;
constexpr auto kPerRank = LossNormalisation::kPerRank;
INSTANTIATE_TEST_SUITE_P(
    Cases, ModelOverRanks,
    ::testing::Values(RanksCase{1, 12, kAfter, kGlobal}, RanksCase{2, 6, kAfter, kGlobal}, RanksCase{3, 2, kAfter, kGlobal},
                      RanksCase{4, 3, kAfter, kGlobal}, RanksCase{1, 4, kAfter, kPerRank}, RanksCase{2, 3, kAfter, kPerRank},
                      RanksCase{1, 3, kBefore, kGlobal}, RanksCase{2, 3, kBefore, kGlobal}, RanksCase{2, 6, kBefore, kPerRank},
                      RanksCase{4, 3, kBefore, kPerRank}, RanksCase{3, 2, kBefore, kPerRank}),
    [](const auto& test) {
      return fmt::format("ranks{}_micro{}_{}_{}", test.param.ranks, test.param.micro_batch, test.param.clip == kAfter ? "after" : "before",
                         test.param.normalisation == kGlobal ? "global" : "per_rank");
    });

TEST(ModelAcrossRanks, EvaluationCountsEverySampleOnceAlsoAfterATrainingStep) {
  const NamedValues weights = random_weights(ParameterTable(config_of(kShape)), 52);
  auto samples = random_samples(kLengths, 53, 0);
  label_with_guesses(samples, weights);
  const ReferenceLoss want = ReferenceBert(kShape, weights).run(reference_batch(samples), {.training = false});
  ASSERT_GE(want.mlm_correct, masked_of(samples) / 2);
  ASSERT_GT(want.smallest_lead, 1e-4);  // far above the rounding of an f32 logit
  ASSERT_NE(want.mlm_correct, want.nsp_correct);
  for (const int size : {1, 2, 3, 5}) {
    for (const std::size_t micro : {5U, 2U}) {
      ThreadRanks ranks(size);
      ranks.run([&](Peers peers) {
        ModelFixture model({.global_batch = micro * static_cast<std::size_t>(size), .micro_batch = micro, .seed = kSeed}, peers);
        // What a training step leaves in the counters must not be counted again.
        static_cast<void>(model.step({samples.begin(), samples.begin() + static_cast<std::ptrdiff_t>(micro)}, 10));
        model.set(weights);
        const auto share = [&](int rank) { return samples.begin() + static_cast<std::ptrdiff_t>(samples.size()) * rank / size; };
        for (int twice = 0; twice < 2; ++twice) {
          const EvaluationResult got = model.evaluate({share(peers.ranks.rank()), share(peers.ranks.rank() + 1)});
          EXPECT_EQ(got.correct, want.mlm_correct);
          EXPECT_EQ(got.masked, masked_of(samples));
          EXPECT_EQ(got.samples, 12);
          EXPECT_EQ(got.accuracy, static_cast<double>(want.mlm_correct) / static_cast<double>(masked_of(samples)));
          EXPECT_EQ(got.nsp_accuracy, static_cast<double>(want.nsp_correct) / 12.0);
        }
      });
    }
  }
}

TEST(ModelAcrossRanks, ChecksumsTellAnyChangeOfAnyWeight) {
  const NamedValues weights = random_weights(ParameterTable(config_of(kShape)), 52);
  ModelFixture model({.global_batch = 1, .micro_batch = 1});
  model.set(weights);
  const std::uint64_t sum = model.engine().weight_checksum();
  EXPECT_EQ(model.engine().weight_checksum(), sum);
  Parameters& parameters = model.engine().model().parameters();
  for (std::size_t i = 0; i < model.table().parameters().size(); ++i) {
    const Tensor master = parameters.parameter_master(i);
    auto* const bits = reinterpret_cast<std::uint32_t*>(master.data<float>());
    for (const std::int64_t at : {std::int64_t{0}, master.elements() - 1}) {
      for (const std::uint32_t change : {1U, 0x80000000U}) {
        bits[at] ^= change;
        EXPECT_NE(model.engine().weight_checksum() >> 1, sum >> 1) << model.table().parameters()[i].name << " " << at << " " << change;
        bits[at] ^= change;
      }
    }
    if (master.elements() < 2) continue;
    std::swap(bits[0], bits[1]);
    if (bits[0] != bits[1]) {
      EXPECT_NE(model.engine().weight_checksum() >> 1, sum >> 1) << model.table().parameters()[i].name << " swapped";
    }
    std::swap(bits[0], bits[1]);
  }
  EXPECT_EQ(model.engine().weight_checksum(), sum);
}

}  // namespace
}  // namespace flashbert::testing
