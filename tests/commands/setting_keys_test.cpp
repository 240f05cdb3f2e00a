#include "commands/setting_keys.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "core/error.h"

namespace flashbert {
namespace {

TEST(SettingKeys, NamesAreOneToOneInAllForms) {
  std::set<std::string> names;
  for (const KeySpec& key : train_keys()) {
    EXPECT_TRUE(names.insert(key.name).second) << key.name;
    EXPECT_EQ(key.name.find('_'), std::string::npos) << key.name;
    EXPECT_FALSE(key.help.empty()) << key.name;
  }
  EXPECT_EQ(toml_name("lr-total-steps"), "lr_total_steps");
  EXPECT_EQ(option_name("lr_total_steps"), "lr-total-steps");
  EXPECT_EQ(environment_name("lr-total-steps"), "FLASHBERT_LR_TOTAL_STEPS");
}

TEST(SettingKeys, TheModelsSizesReachAsFarAsTheModelAllows) {
  const auto accepts = [](const char* key, std::int64_t value) {
    TrainSettings settings;
    try {
      find_key(key)->set(settings, value);
    } catch (const ConfigError&) {
      return false;
    }
    return true;
  };
  EXPECT_TRUE(accepts("layers", BertConfig::kLayers.most));
  EXPECT_FALSE(accepts("layers", BertConfig::kLayers.most + 1));
  EXPECT_TRUE(accepts("max-positions", BertConfig::kPositions.most));
  EXPECT_FALSE(accepts("max-positions", BertConfig::kPositions.most + 1));
  EXPECT_FALSE(accepts("intermediate", BertConfig::kIntermediate.least - 1));
  EXPECT_EQ(find_key("max_positions"), nullptr);
}

}  // namespace
}  // namespace flashbert
