#include "core/digest.h"

#include <openssl/evp.h>

#include <array>

#include "core/error.h"

namespace flashbert {

struct Digest::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  ~State() { EVP_MD_CTX_free(context); }
  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
};

Digest::Digest(Algorithm algorithm) : state_(std::make_unique<State>()) {
  check<EnvironmentError>(state_->context != nullptr &&
                              EVP_DigestInit_ex(state_->context, algorithm == Algorithm::kMd5 ? EVP_md5() : EVP_sha256(), nullptr) == 1,
                          "OpenSSL cannot start a {} digest; a FIPS-only configuration may forbid it",
                          algorithm == Algorithm::kMd5 ? "md5" : "sha256");
}
Digest::~Digest() = default;
Digest::Digest(Digest&&) noexcept = default;
Digest& Digest::operator=(Digest&&) noexcept = default;

void Digest::update(const void* data, std::size_t bytes) {
  check<EnvironmentError>(EVP_DigestUpdate(state_->context, data, bytes) == 1, "OpenSSL failed to update a digest");
}

std::string Digest::hex() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> raw{};
  unsigned size = 0;
  check<EnvironmentError>(EVP_DigestFinal_ex(state_->context, raw.data(), &size) == 1, "OpenSSL failed to finish a digest");
  std::string text;
  for (unsigned i = 0; i < size; ++i) text += fmt::format("{:02x}", raw[i]);
  return text;
}

}  // namespace flashbert
