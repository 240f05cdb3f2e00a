#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace flashbert {

/// Incremental cryptographic digest (OpenSSL): "sha256" or "md5". Used for data fingerprints and weight digests.
class Digest {
 public:
  enum class Algorithm { kSha256, kMd5 };
  explicit Digest(Algorithm algorithm);
  ~Digest();
  Digest(Digest&&) noexcept;
  Digest& operator=(Digest&&) noexcept;
  void update(const void* data, std::size_t bytes);
  void update(std::string_view text) { update(text.data(), text.size()); }
  /// Lower-case hexadecimal; the object may not be updated afterwards.
  std::string hex();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace flashbert
