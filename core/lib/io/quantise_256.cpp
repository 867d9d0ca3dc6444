// The "K" block types: 256 elements in groups whose scales are themselves quantised. Scales are
// searched on a grid around the plain one, and the one with the smallest weighted squared error is
// kept.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "core/lib/io/dequantise.h"
#include "core/lib/io/encode.h"
#include "core/lib/io/quantise.h"

namespace forge {
namespace {

constexpr int kBlock = 256, kGroup = 32, kGroups = 8;
constexpr float kNothing = 1e-15f;  // groups below it count as zero

// Returns the nearest integer, ties to even, of a value below 2^22: by the bits of its sum with 1.5
// · 2^23, like ggml.
int nearest(float value) {
  return (std::bit_cast<int32_t>(value + 12582912.0f) & 0x007fffff) - 0x00400000;
}

// Grid on which the scale of a group with a minimum is searched: (start + step · i + levels) /
// range for i = 0 … steps.
struct Search {
  int levels;
  float start, step;
  int steps;
};

// Returns Σ weight · (scale · code + low − x)² over one group.
float squared_error(const float* x, const float* weights, const uint8_t* codes, float scale, float low) {
  float error = 0;
  for (int i = 0; i < kGroup; ++i) {
    const float off = scale * codes[i] + low - x[i];
    error += weights[i] * (off * off);
  }
  return error;
}

// Fits x ≈ scale · code - minimum over one group (ggml: make_qkx2_quants). Returns the scale; codes
// are in 0 … levels, minimum >= 0.
float fit_with_minimum(const float* x, const Search& search, uint8_t* codes, float* minimum) {
  float weights[kGroup], sum_squares = 0;
  for (int i = 0; i < kGroup; ++i) sum_squares += x[i] * x[i];
  const float typical = std::sqrt(sum_squares / kGroup);
  for (int i = 0; i < kGroup; ++i) weights[i] = typical + std::fabs(x[i]);

  float low = x[0], high = x[0], sum_w = weights[0], sum_x = weights[0] * x[0];
  for (int i = 1; i < kGroup; ++i) {
    low = std::min(low, x[i]);
    high = std::max(high, x[i]);
    sum_w += weights[i];
    sum_x += weights[i] * x[i];
  }
  low = std::min(low, 0.0f);
  if (high == low) {
    std::fill(codes, codes + kGroup, uint8_t{0});
    *minimum = -low;
    return 0;
  }
  const auto levels = static_cast<float>(search.levels);
  const float first = levels / (high - low);
  for (int i = 0; i < kGroup; ++i)
    codes[i] = static_cast<uint8_t>(std::clamp(nearest(first * (x[i] - low)), 0, search.levels));
  float scale = 1 / first, least_error = squared_error(x, weights, codes, scale, low);
  for (int step = 0; step <= search.steps; ++step) {
    // `low` is the best so far: the grid moves with it.
    const float inverse = (search.start + search.step * static_cast<float>(step) + levels) / (high - low);
    uint8_t tried[kGroup];
    float sum_l = 0, sum_l2 = 0, sum_xl = 0;
    for (int i = 0; i < kGroup; ++i) {
      const int code = std::clamp(nearest(inverse * (x[i] - low)), 0, search.levels);
      const auto l = static_cast<float>(code);
      tried[i] = static_cast<uint8_t>(code);
      sum_l += weights[i] * l;
      sum_l2 += weights[i] * l * l;
      sum_xl += weights[i] * l * x[i];
    }
    const float determinant = sum_w * sum_l2 - sum_l * sum_l;
    if (determinant <= 0) continue;
    float this_scale = (sum_w * sum_xl - sum_x * sum_l) / determinant;
    float this_low = (sum_l2 * sum_x - sum_l * sum_xl) / determinant;
    if (this_low > 0) {
      this_low = 0;
      this_scale = sum_xl / sum_l2;
    }
    const float error = squared_error(x, weights, tried, this_scale, this_low);
    if (error >= least_error) continue;
    std::copy(tried, tried + kGroup, codes);
    least_error = error;
    scale = this_scale;
    low = this_low;
  }
  *minimum = -low;
  return scale;
}

struct Groups {
  float d, dmin;               // as stored: rounded to half precision
  uint8_t packed[12] = {};     // see Scales in dequantise_256.cpp
  uint8_t codes[kBlock];
};

void pack_scale(int group, int scale, int minimum, uint8_t (&packed)[12]) {
  if (group < 4) {
    packed[group] = static_cast<uint8_t>(scale);
    packed[group + 4] = static_cast<uint8_t>(minimum);
    return;
  }
  packed[group + 4] = static_cast<uint8_t>((scale & 15) | (minimum & 15) << 4);
  packed[group - 4] = static_cast<uint8_t>(packed[group - 4] | scale >> 4 << 6);
  packed[group] = static_cast<uint8_t>(packed[group] | minimum >> 4 << 6);
}

// Quantises what q4_k and q5_k share: eight groups, their scales and minima in 6 bits, and the
// codes anew with the rounded ones.
Groups quantise_groups(const float* x, const Search& search) {
  Groups result;
  float scales[kGroups], minima[kGroups], largest_scale = 0, largest_minimum = 0;
  for (int group = 0; group < kGroups; ++group) {
    scales[group] = fit_with_minimum(x + kGroup * group, search, result.codes + kGroup * group, &minima[group]);
    largest_scale = std::max(largest_scale, scales[group]);
    largest_minimum = std::max(largest_minimum, minima[group]);
  }
  const float scale_steps = largest_scale > 0 ? 63.0f / largest_scale : 0;
  const float minimum_steps = largest_minimum > 0 ? 63.0f / largest_minimum : 0;
  result.d = half_to_float(half_of(largest_scale / 63.0f));
  result.dmin = half_to_float(half_of(largest_minimum / 63.0f));
  for (int group = 0; group < kGroups; ++group) {
    const int scale = std::min(63, nearest(scale_steps * scales[group]));
    const int minimum = std::min(63, nearest(minimum_steps * minima[group]));
    pack_scale(group, scale, minimum, result.packed);
    const float d = result.d * static_cast<float>(scale), m = result.dmin * static_cast<float>(minimum);
    if (d == 0) continue;
    for (int i = kGroup * group; i < kGroup * (group + 1); ++i)
      result.codes[i] = static_cast<uint8_t>(std::clamp(nearest((x[i] + m) / d), 0, search.levels));
  }
  return result;
}

// Writes the head of a block at its beginning, and the low four bits of the codes at `nibbles`.
void put_groups(const Groups& groups, uint8_t* destination, uint8_t* nibbles) {
  put_half(groups.d, destination);
  put_half(groups.dmin, destination + 2);
  std::memcpy(destination + 4, groups.packed, sizeof groups.packed);
  for (int run = 0; run < kBlock; run += 2 * kGroup)
    for (int i = 0; i < kGroup; ++i)
      *nibbles++ =
          static_cast<uint8_t>((groups.codes[run + i] & 15) | (groups.codes[run + kGroup + i] & 15) << 4);
}

// Fits x ≈ scale · (code - 32) over 16 values, squared errors weighted by x² (ggml: make_qx_quants
// with rmse_type 1).
float fit_symmetric(const float* x, uint8_t* codes) {
  constexpr int kCount = 16, kLevels = 32;
  const float most = extreme(x, kCount);
  if (std::fabs(most) < kNothing) {
    std::fill(codes, codes + kCount, uint8_t{0});
    return 0;
  }
  float scale = 0, best = 0;
  // The plain scale is tried first, then the grid around it.
  const auto attempt = [&](float inverse, bool plain) {
    int tried[kCount];
    float sum_xl = 0, sum_l2 = 0;
    for (int i = 0; i < kCount; ++i) {
      tried[i] = std::clamp(nearest(inverse * x[i]), -kLevels, kLevels - 1);
      const float weight = x[i] * x[i], l = static_cast<float>(tried[i]);
      sum_xl += weight * x[i] * l;
      sum_l2 += weight * l * l;
    }
    if (!plain && !(sum_l2 > 0 && sum_xl * sum_xl > best * sum_l2)) return;
    for (int i = 0; i < kCount; ++i) codes[i] = static_cast<uint8_t>(tried[i] + kLevels);
    scale = sum_l2 != 0 ? sum_xl / sum_l2 : 0;
    best = scale * sum_xl;
  };
  attempt(-kLevels / most, true);
  for (int step = -9; step <= 9; ++step)
    if (step != 0) attempt(-(kLevels + 0.1f * static_cast<float>(step)) / most, false);
  return scale;
}

}  // namespace

void quantise_q4_k(const float* values, int64_t blocks, uint8_t* destination) {
  for (int64_t block = 0; block < blocks; ++block, values += kBlock, destination += 144) {
    put_groups(quantise_groups(values, {15, -1.0f, 0.1f, 20}), destination, destination + 16);
  }
}

void quantise_q5_k(const float* values, int64_t blocks, uint8_t* destination) {
  for (int64_t block = 0; block < blocks; ++block, values += kBlock, destination += 176) {
    const Groups groups = quantise_groups(values, {31, -0.5f, 0.1f, 15});
    put_groups(groups, destination, destination + 48);
    uint8_t* high = destination + 16;
    std::memset(high, 0, kGroup);
    for (int group = 0; group < kGroups; ++group)
      for (int i = 0; i < kGroup; ++i)
        high[i] = static_cast<uint8_t>(high[i] | (groups.codes[kGroup * group + i] >> 4) << group);
  }
}

void quantise_q6_k(const float* values, int64_t blocks, uint8_t* destination) {
  constexpr int kSmall = 16;
  for (int64_t block = 0; block < blocks; ++block, values += kBlock, destination += 210) {
    uint8_t codes[kBlock];
    float scales[kSmall];
    for (int group = 0; group < kSmall; ++group)
      scales[group] = fit_symmetric(values + kSmall * group, codes + kSmall * group);
    const float most = extreme(scales, kSmall);
    std::memset(destination, 0, 210);
    if (std::fabs(most) < kNothing) continue;
    const float inverse = -128.0f / most;
    put_half(1 / inverse, destination + 208);
    const float stored = half_at(destination + 208);
    for (int group = 0; group < kSmall; ++group) {
      const int scale = std::min(127, nearest(inverse * scales[group]));
      destination[192 + group] = static_cast<uint8_t>(static_cast<int8_t>(scale));
      const float d = stored * static_cast<float>(scale);
      if (d == 0) continue;
      for (int i = kSmall * group; i < kSmall * (group + 1); ++i)
        codes[i] = static_cast<uint8_t>(std::clamp(nearest(values[i] / d), -32, 31) + 32);
    }
    for (int half = 0; half < 2; ++half) {
      const uint8_t* c = codes + 128 * half;
      uint8_t* low = destination + 64 * half;
      uint8_t* high = destination + 128 + 32 * half;
      for (int i = 0; i < 32; ++i) {
        low[i] = static_cast<uint8_t>((c[i] & 15) | (c[i + 64] & 15) << 4);
        low[i + 32] = static_cast<uint8_t>((c[i + 32] & 15) | (c[i + 96] & 15) << 4);
        high[i] = static_cast<uint8_t>(c[i] >> 4 | c[i + 32] >> 4 << 2 | c[i + 64] >> 4 << 4 | c[i + 96] >> 4 << 6);
      }
    }
  }
}

}  // namespace forge
