#pragma once
// Reads a GGUF's metadata as a ModelSpec. Key names: gguf.md of ggml and the conversion of
// llama.cpp.
#include <optional>
#include <string>

#include "core/lib/io/gguf_tensors.h"
#include "core/model/families/model_spec.h"
#include "core/model/families/settings.h"

namespace forge {

// Reads "llama.block_count" as integer("block_count").
class GgufSettings {
 public:
  GgufSettings(Settings& settings, std::string architecture)
      : settings_(settings), prefix_(std::move(architecture) + ".") {}
  int64_t integer(const std::string& key, int64_t lowest, int64_t highest,
                  std::optional<int64_t> fallback = {}) {
    return settings_.integer(prefix_ + key, lowest, highest, fallback);
  }
  double number(const std::string& key, double lowest, double highest, std::optional<double> fallback = {}) {
    return settings_.number(prefix_ + key, lowest, highest, fallback);
  }
  std::string text(const std::string& key, const std::string& fallback) {
    return settings_.text(prefix_ + key, fallback);
  }
  bool flag(const std::string& key, bool fallback) { return settings_.flag(prefix_ + key, fallback); }
  bool has(const std::string& key) const { return settings_.has(prefix_ + key); }
  const Json* find(const std::string& key) { return settings_.find(prefix_ + key); }
  void must_be(const std::string& key, const Json& value, const std::string& why) {
    settings_.must_be(prefix_ + key, value, why);
  }
  void unsupported(const std::string& key, const std::string& what) {
    settings_.unsupported(prefix_ + key, what);
  }

 private:
  Settings& settings_;
  std::string prefix_;
};

// Returns the spec. `metadata` has the file's scalar keys ("llama.block_count": 30), `file` its
// tensors under their Hugging Face names, `factors` the tensors that scale its rotary positions.
// Biases and a tied head are detected from the tensors. A key of the architecture that is not read
// is refused by name.
ModelSpec model_spec_from_gguf(const Json& metadata, const TensorFile& file, const GgufRopeFactors& factors, const std::string& name);

ModelSpec model_spec_of_gguf(const std::string& path);

}  // namespace forge
