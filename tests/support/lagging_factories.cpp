// Linked before the program's own factories: the same program on a lagging device. FLASHBERT_LAG: latest (default), or random:SEED.
#include <cstdlib>
#include <string>

#include "support/lagging_device.h"

namespace flashbert {

std::unique_ptr<Context> make_context(const ContextOptions& options) {
  const char* const given = std::getenv("FLASHBERT_LAG");
  const std::string lag = given == nullptr ? "latest" : given;
  if (lag == "latest") return std::make_unique<testing::LaggingContext>(testing::Lag::kLatest, options.threads);
  const std::string word = "random:";
  check<ConfigError>(lag.starts_with(word), "FLASHBERT_LAG is '{}'; choose latest or random:SEED", lag);
  return std::make_unique<testing::LaggingContext>(testing::Lag::kRandom, options.threads, std::stoull(lag.substr(word.size())));
}

std::unique_ptr<Ops> make_ops(Context& context) { return testing::make_lagging_ops(dynamic_cast<testing::LaggingContext&>(context)); }

}  // namespace flashbert
