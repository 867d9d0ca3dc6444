// The "K" block types: 256 elements in groups whose scales are themselves quantised.
#include "core/lib/io/dequantise.h"

namespace forge {
namespace {

constexpr int kBlock = 256, kGroup = 32;

// Eight 6-bit scales and eight 6-bit minima in 12 bytes: bytes 0-3 hold scales 0-3 and, in their
// two top bits, the top of scales 4-7; bytes 4-7 the same for minima; bytes 8-11 the low nibbles of
// scales (low) and minima (high) 4-7.
struct Scales {
  uint8_t scale[8], minimum[8];
  explicit Scales(const uint8_t* packed) {
    for (int i = 0; i < 4; ++i) {
      scale[i] = packed[i] & 63;
      minimum[i] = packed[i + 4] & 63;
      scale[i + 4] = static_cast<uint8_t>((packed[i + 8] & 15) | (packed[i] >> 6) << 4);
      minimum[i + 4] = static_cast<uint8_t>((packed[i + 8] >> 4) | (packed[i + 4] >> 6) << 4);
    }
  }
};

// d, dmin [2+2 bytes], scales [12], nibbles [128]: byte i of run r holds elements 64r + i and 64r +
// 32 + i. With a fifth bit: 32 bytes before the nibbles, where bit `group` of high[i] belongs to
// element 32 * group + i.
template <bool fifth_bit>
void dequantise_groups(const uint8_t* source, int64_t blocks, float* values) {
  constexpr int kBytes = fifth_bit ? 176 : 144;
  for (int64_t block = 0; block < blocks; ++block, source += kBytes, values += kBlock) {
    const float d = half_at(source), dmin = half_at(source + 2);
    const Scales scales(source + 4);
    const uint8_t* high = source + 16;
    for (int group = 0; group < 8; ++group) {
      const float scale = d * static_cast<float>(scales.scale[group]);
      const float minimum = dmin * static_cast<float>(scales.minimum[group]);
      const uint8_t* quants = source + kBytes - 128 + group / 2 * kGroup;
      const int shift = group % 2 * 4;
      float* out = values + group * kGroup;
      for (int i = 0; i < kGroup; ++i) {
        int quant = quants[i] >> shift & 15;
        if constexpr (fifth_bit) quant |= (high[i] >> group & 1) << 4;
        out[i] = scale * static_cast<float>(quant) - minimum;
      }
    }
  }
}

}  // namespace

void dequantise_q4_k(const uint8_t* source, int64_t blocks, float* values) {
  dequantise_groups<false>(source, blocks, values);
}

void dequantise_q5_k(const uint8_t* source, int64_t blocks, float* values) {
  dequantise_groups<true>(source, blocks, values);
}

// Nibbles [128], pairs of high bits [64], scales [16] of 8 bits, d. Half h of the block (128
// elements) uses nibbles 64h…, pairs 32h…; its run r of 32 elements takes bytes (r % 2) * 32 + i,
// the high nibble from run 2 on, and bits 2r of pair i.
void dequantise_q6_k(const uint8_t* source, int64_t blocks, float* values) {
  for (int64_t block = 0; block < blocks; ++block, source += 210, values += kBlock) {
    const int8_t* scales = reinterpret_cast<const int8_t*>(source + 192);
    const float d = half_at(source + 208);
    for (int run = 0; run < 8; ++run) {
      const int half = run / 4, part = run % 4;
      const uint8_t* low = source + half * 64 + part % 2 * 32;
      const uint8_t* high = source + 128 + half * 32;
      const int low_shift = part / 2 * 4, high_shift = part * 2;
      for (int group = 0; group < 2; ++group) {
        const float scale = d * static_cast<float>(scales[run * 2 + group]);
        float* out = values + run * 32 + group * 16;
        for (int i = 0; i < 16; ++i) {
          int k = group * 16 + i;
          int quant = (low[k] >> low_shift & 15) | (high[k] >> high_shift & 3) << 4;
          out[i] = scale * static_cast<float>(quant - 32);
        }
      }
    }
  }
}

}  // namespace forge
