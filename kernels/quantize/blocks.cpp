#include "kernels/quantize/blocks.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <vector>

namespace forge {

const FourBitBook& nf4_book() { return kNf4Book; }
const FourBitBook& fp4_book() { return kFp4Book; }

namespace {

EightBitBook make_dynamic_book() {
  EightBitBook book{};
  size_t position = 128;  // 127 is zero; the negative values mirror the positive ones
  for (const float value : dynamic_values(1)) {
    book[position] = value;
    book[254 - position++] = -value;
  }
  book[255] = 1;
  return book;
}

// The nearest entry of the dynamic map for 65,536 equal steps of [-1, 1]. bitsandbytes quantises
// through such a table on a CPU, and being equal to it means being as coarse: a value is off by at
// most 1/65535 of absmax before rounding, and zero becomes 2e-5 of it.
constexpr int64_t kSteps = 65536;

std::vector<uint8_t> make_dynamic_table() {
  const EightBitBook& book = dynamic_book();
  std::vector<uint8_t> table(kSteps);
  size_t code = 0;
  for (int64_t i = 0; i < kSteps; ++i) {
    const float value = -1.0f + (2.0f * static_cast<float>(i)) / static_cast<float>(kSteps - 1);
    while (code < 255 && 0.5f * (book[code] + book[code + 1]) < value) ++code;
    table[static_cast<size_t>(i)] = static_cast<uint8_t>(code);
  }
  return table;
}

float largest_magnitude(const float* values, int64_t count) {
  float largest = 0;
  for (int64_t i = 0; i < count; ++i) largest = std::max(largest, std::fabs(values[i]));
  return largest;
}

float clamp_unit(float value) { return std::min(1.0f, std::max(-1.0f, value)); }

// Counts the limits below each value, which is the rank of the nearest entry. A function of its
// own, since this is the loop that is vectorised.
void count_limits(const FourBitLimits& table, const float* scaled, int64_t count, int32_t* below) {
  for (int64_t i = 0; i < count; ++i) below[i] = 0;
  for (float limit : table.limits)
    for (int64_t i = 0; i < count; ++i) below[i] += scaled[i] > limit;
}

uint16_t round_to_bf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
void store(float value, float* out) { *out = value; }
void store(float value, uint16_t* out) { *out = round_to_bf16(value); }

// A table of both values of every byte.
struct PairTable {
  float values[256][2];
};

PairTable pairs_of(const FourBitBook& book) {
  PairTable table;
  for (size_t byte = 0; byte < 256; ++byte) {
    table.values[byte][0] = book[byte >> 4];
    table.values[byte][1] = book[byte & 15];
  }
  return table;
}

}  // namespace

std::vector<float> dynamic_values(int parts) {
  std::vector<float> values;
  for (const float decade : {1e-6f, 1e-5f, 1e-4f, 1e-3f, 1e-2f, 1e-1f, 1.0f}) {
    const float step = (1.0f - 0.1f) / static_cast<float>(parts);
    // The first half counts from the start, the second from the end; each boundary is rounded once.
    const auto boundary = [&](int k) {
      return k < (parts + 1) / 2
                 ? static_cast<float>(static_cast<double>(step) * k + static_cast<double>(0.1f))
                 : static_cast<float>(1.0 - static_cast<double>(step) * (parts - k));
    };
    for (int k = 0; k < parts; ++k) values.push_back(decade * ((boundary(k) + boundary(k + 1)) / 2));
    parts *= 2;
  }
  return values;
}

const EightBitBook& dynamic_book() {
  static const EightBitBook book = make_dynamic_book();
  return book;
}

FourBitLimits four_bit_limits(const FourBitBook& book) {
  FourBitLimits table{};
  std::iota(table.ranked.begin(), table.ranked.end(), uint8_t{0});
  std::stable_sort(table.ranked.begin(), table.ranked.end(),
                   [&](uint8_t a, uint8_t b) { return book[a] < book[b]; });
  for (size_t i = 0; i < 15; ++i) table.limits[i] = (book[table.ranked[i]] + book[table.ranked[i + 1]]) / 2;
  return table;
}

void quantize_4bit(const FourBitBook& book, const float* values, int64_t count, int64_t block, uint8_t* codes,
                   float* absmax) {
  constexpr float kSmallest = 1e-38f;  // bitsandbytes' guard of the division
  const FourBitLimits table = four_bit_limits(book);
  std::vector<float> scaled(static_cast<size_t>(block));
  std::vector<int32_t> below(static_cast<size_t>(block));
  for (int64_t begin = 0; begin < count; begin += block, ++absmax) {
    const int64_t length = std::min(block, count - begin);
    const float* source = values + begin;
    *absmax = largest_magnitude(source, length);
    if (length == block) {
      const float factor = 1.0f / std::max(*absmax, kSmallest);
      for (int64_t i = 0; i < length; ++i) scaled[static_cast<size_t>(i)] = clamp_unit(source[i] * factor);
    } else {  // the short last block is divided, and its absmax is never zero
      *absmax = std::max(*absmax, kSmallest);
      for (int64_t i = 0; i < length; ++i) scaled[static_cast<size_t>(i)] = clamp_unit(source[i] / *absmax);
    }
    count_limits(table, scaled.data(), length, below.data());
    // An odd count ends with the code of zero.
    if (length % 2 != 0) {
      scaled[static_cast<size_t>(length)] = 0;
      count_limits(table, scaled.data() + length, 1, below.data() + length);
    }
    uint8_t* out = codes + begin / 2;
    for (int64_t i = 0; i < length; i += 2)
      *out++ = static_cast<uint8_t>(table.ranked[static_cast<size_t>(below[static_cast<size_t>(i)])] << 4 |
                                    table.ranked[static_cast<size_t>(below[static_cast<size_t>(i + 1)])]);
  }
}

void quantize_8bit(const float* values, int64_t count, int64_t block, uint8_t* codes, float* absmax) {
  static const std::vector<uint8_t> table = make_dynamic_table();
  for (int64_t begin = 0; begin < count; begin += block, ++absmax) {
    const int64_t end = std::min(count, begin + block);
    *absmax = largest_magnitude(values + begin, end - begin);
    if (*absmax == 0) {
      std::fill(codes + begin, codes + end, uint8_t{0});
      continue;
    }
    const float factor = 1.0f / *absmax;
    for (int64_t i = begin; i < end; ++i) {
      const float step =
          (clamp_unit(values[i] * factor) + 1.0f) * 0.5f * static_cast<float>(kSteps - 1) + 0.5f;
      codes[i] = table[static_cast<uint16_t>(step)];
    }
  }
}

template <class T>
void dequantize_4bit(const FourBitBook& book, const uint8_t* codes, const float* absmax, int64_t count,
                     int64_t block, T* out) {
  const PairTable table = pairs_of(book);
  for (int64_t begin = 0; begin < count; begin += block, ++absmax) {
    const int64_t length = std::min(block, count - begin);
    const uint8_t* bytes = codes + begin / 2;
    for (int64_t i = 0; i + 1 < length; i += 2) {
      const float* pair = table.values[bytes[i / 2]];
      store(pair[0] * *absmax, out + begin + i);
      store(pair[1] * *absmax, out + begin + i + 1);
    }
    if (length % 2 != 0) store(table.values[bytes[length / 2]][0] * *absmax, out + begin + length - 1);
  }
}

template <class T>
void dequantize_8bit(const uint8_t* codes, const float* absmax, int64_t count, int64_t block, T* out) {
  const EightBitBook& book = dynamic_book();
  for (int64_t begin = 0; begin < count; begin += block, ++absmax) {
    const int64_t end = std::min(count, begin + block);
    for (int64_t i = begin; i < end; ++i) store(book[codes[i]] * *absmax, out + i);
  }
}

template void dequantize_4bit(const FourBitBook&, const uint8_t*, const float*, int64_t, int64_t, float*);
template void dequantize_4bit(const FourBitBook&, const uint8_t*, const float*, int64_t, int64_t, uint16_t*);
template void dequantize_8bit(const uint8_t*, const float*, int64_t, int64_t, float*);
template void dequantize_8bit(const uint8_t*, const float*, int64_t, int64_t, uint16_t*);

}  // namespace forge
