#include "core/model/rope_tables.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/model/families/config_spec.h"

namespace forge {
namespace {

// transformers computes in fp32; the base's power is taken there in the same precision.
std::vector<double> plain(double theta, int64_t dim) {
  std::vector<double> inverse(static_cast<size_t>(dim / 2));
  for (size_t i = 0; i < inverse.size(); ++i) {
    float exponent = static_cast<float>(2 * i) / static_cast<float>(dim);
    inverse[i] = 1.0f / std::pow(static_cast<float>(theta), exponent);
  }
  return inverse;
}

void apply_llama3(const RopeSpec& rope, std::vector<double>& inverse) {
  double original = static_cast<double>(rope.original_max_position_embeddings);
  double low_wavelength = original / rope.low_freq_factor, high_wavelength = original / rope.high_freq_factor;
  for (double& f : inverse) {
    double wavelength = 2 * std::numbers::pi / f;
    if (wavelength < high_wavelength) continue;
    if (wavelength > low_wavelength) {
      f /= rope.factor;
      continue;
    }
    double smooth = (original / wavelength - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor);
    f = (1 - smooth) * f / rope.factor + smooth * f;
  }
}

// YaRN (Peng et al., 2023): high frequencies are kept, low ones interpolated, with a ramp in
// between.
void apply_yarn(const RopeSpec& rope, int64_t dim, std::vector<double>& inverse) {
  double original = static_cast<double>(rope.original_max_position_embeddings);
  auto correction = [&](double rotations) {
    return static_cast<double>(dim) * std::log(original / (rotations * 2 * std::numbers::pi)) /
           (2 * std::log(rope.theta));
  };
  double low = correction(rope.beta_fast), high = correction(rope.beta_slow);
  if (rope.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(dim - 1));
  if (low == high) high += 0.001;
  for (size_t i = 0; i < inverse.size(); ++i) {
    double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    inverse[i] = inverse[i] / rope.factor * ramp + inverse[i] * (1 - ramp);
  }
}

// LongRoPE (Ding et al., 2024): each frequency has a factor of its own.
void apply_longrope(const RopeSpec& rope, int64_t sequence_length, std::vector<double>& inverse) {
  const auto& factors =
      sequence_length > rope.original_max_position_embeddings ? rope.long_factors : rope.short_factors;
  const auto dim = static_cast<float>(2 * inverse.size());
  for (size_t i = 0; i < inverse.size(); ++i)
    inverse[i] = 1.0f / (static_cast<float>(factors[i]) *
                         std::pow(static_cast<float>(rope.theta), static_cast<float>(2 * i) / dim));
}

// Proportional: as many of a whole head's frequencies turn as the factor says, and the others rest.
void apply_proportional(const RopeSpec& rope, int64_t dim, std::vector<double>& inverse) {
  const auto turned = static_cast<size_t>(rope.partial_rotary_factor * static_cast<double>(dim) / 2);
  for (size_t i = 0; i < inverse.size(); ++i)
    inverse[i] = i < turned ? inverse[i] / rope.factor : 0;
}

// Returns the radians per position [dim / 2]. `sequence_length` matters to dynamic NTK,
// whose base grows with sequences past the trained length, and to LongRoPE, which has other factors
// past it.
std::vector<double> rope_frequencies(const ModelSpec& spec, const RopeSpec& rope, int64_t dim, int64_t sequence_length) {
  double theta = rope.theta;
  if (rope.type == RopeType::dynamic) {
    // transformers uses the model's maximum length, whatever original length the file states.
    double longest = static_cast<double>(std::max(sequence_length, spec.max_position_embeddings));
    double trained = static_cast<double>(spec.max_position_embeddings);
    double d = static_cast<double>(dim);
    theta *= std::pow(rope.factor * longest / trained - (rope.factor - 1), d / (d - 2));
  }
  std::vector<double> inverse = plain(theta, dim);
  if (rope.type == RopeType::linear)
    for (double& f : inverse) f /= rope.factor;
  if (rope.type == RopeType::llama3) apply_llama3(rope, inverse);
  if (rope.type == RopeType::yarn) apply_yarn(rope, dim, inverse);
  if (rope.type == RopeType::longrope) apply_longrope(rope, sequence_length, inverse);
  if (rope.type == RopeType::proportional) apply_proportional(rope, dim, inverse);
  return inverse;
}

}  // namespace

RopeTables rope_tables(const ModelSpec& spec, const RopeSpec& rope, int64_t rotary_dim, const std::vector<int32_t>& positions,
                       const std::vector<int32_t>& cu_seqlens) {
  int64_t half = rotary_dim / 2, tokens = static_cast<int64_t>(positions.size());
  at::Tensor cos = at::empty({tokens, half}, at::kFloat), sin = at::empty({tokens, half}, at::kFloat);
  std::vector<double> frequencies = rope_frequencies(spec, rope, rotary_dim, 0);
  const double factor = rope_attention_factor(rope);  // YaRN's and LongRoPE's
  const bool by_length = rope.type == RopeType::dynamic || rope.type == RopeType::longrope;
  for (size_t s = 0; s + 1 < cu_seqlens.size(); ++s) {
    int64_t end = cu_seqlens[s + 1];
    if (end == cu_seqlens[s]) continue;
    if (by_length) frequencies = rope_frequencies(spec, rope, rotary_dim, positions[end - 1] + 1);
    for (int64_t t = cu_seqlens[s]; t < end; ++t) {
      float* c = cos.data_ptr<float>() + t * half;
      float* n = sin.data_ptr<float>() + t * half;
      for (int64_t i = 0; i < half; ++i) {
        // The angle is rounded to fp32 before cos and sin, as transformers does: at position 4,000
        // that is visible.
        float angle = static_cast<float>(positions[t]) * static_cast<float>(frequencies[i]);
        c[i] = static_cast<float>(std::cos(angle) * factor);
        n[i] = static_cast<float>(std::sin(angle) * factor);
      }
    }
  }
  return {cos, sin};
}

RopeTables grown_tables(const ModelSpec& spec, const RopeTables& tables, const std::vector<int32_t>& positions) {
  at::Tensor factors = at::empty({static_cast<int64_t>(positions.size()), 1}, at::kFloat);
  for (size_t t = 0; t < positions.size(); ++t) {
    const auto periods = static_cast<float>((positions[t] + spec.growth_of_unturned) / spec.query_growth_period);
    factors.data_ptr<float>()[t] = 1 + static_cast<float>(spec.query_growth) * std::log(1 + periods);
  }
  if (spec.grows_apart()) {
    const at::Tensor cos = factors.expand({factors.size(0), spec.grown_dim() / 2}).contiguous();
    return {cos, at::zeros_like(cos)};
  }
  return {tables.cos * factors, tables.sin * factors};
}

}  // namespace forge
