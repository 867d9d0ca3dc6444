// Thirty-two values of a row in blocks, in registers. Included by <op>_cpu.cpp within FORGE_ISA
// (kernels/cpu/each_isa.h), and compiled without fused multiply-add: one rounding a product and a
// sum, so that values have the bits that gguf-py's quants.dequantize and bitsandbytes give them.
// Layouts of GGUF's types: ggml-common.h of llama.cpp; each block has a half-precision scale d (and
// minimum m).
//
//   q4_0, q5_0, q8_0   x = d * (q - bias)           32 values, bias 8, 16, 0
//   q4_1, q5_1         x = d * q + m                32 values
//   q4_k, q5_k         x = (d*sc) * q - (dmin*mn)   256 values, 8 chunks with 6-bit sc, mn
//   q6_k               x = (d*sc) * (q - 32)        256 values, 16 halves of chunks with 8-bit sc
//   by book            x = book[q] * absmax         absmax in fp32, or nested: (map[c] * scale) + mean
//
// A reader of a row:   Chunks<BlockCoding::q8_0> row(blocks, number);   row.read(k / 32, values);
//
// Values stay fp32 until they are multiplied, also if the model computes in bf16: rounding them
// first took longer than the product (one row, weights out of memory, two cores of an Intel Xeon
// without AMX: q8_0 8.8 · 10⁹ weights a second with rounding, 12.7 without; bf16 as it is 7.9). In
// fp32 x is not quantised, unlike in llama.cpp, so that a text's tokens are those of the decoded
// model, bit for bit.
namespace forge::FORGE_ISA {

using SixteenBytes = uint8_t __attribute__((vector_size(16)));

FORGE_INLINE Sixteen floats(const SixteenCodes& codes) { return __builtin_convertvector(codes, Sixteen); }

FORGE_INLINE F16 bits_at(const uint8_t* p) {
  F16 bits;
  std::memcpy(&bits, p, 2);
  return bits;
}
FORGE_INLINE float half_at(const uint8_t* p) { return half(bits_at(p)); }

// Values of 4-bit codes; a block's scale turns them into sixteen others.
constexpr Sixteen kFromZero{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

// Returns sixteen fifth bits: element i of a chunk has bit i of a little-endian word.
FORGE_INLINE SixteenCodes fifth_bits(const uint8_t* p) {
  constexpr SixteenCodes kBit{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768};
  uint16_t bits;
  std::memcpy(&bits, p, 2);
  const SixteenCodes all = SixteenCodes{} + static_cast<int32_t>(bits);
  return ((all & kBit) != 0) & 16;
}

// The compiler keeps the values in registers if they are loaded again.
FORGE_INLINE void put(const Sixteen& low, const Sixteen& high, float (&values)[32]) {
  std::memcpy(values, &low, sizeof low), std::memcpy(values + 16, &high, sizeof high);
}

// Layout of a coding's blocks. `read` decodes a chunk of a block; if the block has one scale at its
// beginning, a second `read` takes that scale.
template <BlockCoding Coding>
struct Layout;

template <>
struct Layout<BlockCoding::q8_0> {
  static constexpr int kBytes = 34, kChunks = 1;
  static constexpr bool kOneScale = true;
  static FORGE_INLINE void read(const uint8_t* block, int, Sixteen& low, Sixteen& high) { read(block, sixteen_times(bits_at(block)), low, high); }
  static FORGE_INLINE void read(const uint8_t* block, const Sixteen& d, Sixteen& low, Sixteen& high) {
    low = floats(signed_at(block + 2)) * d, high = floats(signed_at(block + 18)) * d;
  }
};

// Low nibbles are values 0 to 15, high nibbles 16 to 31. `Bias`: subtracted, unless there is a
// `Minimum` after d. `Fifth`: a word of fifth bits before the nibbles.
template <int Bytes, int Bias, bool Minimum, bool Fifth>
struct Nibbles {
  static constexpr int kBytes = Bytes, kChunks = 1;
  static constexpr bool kOneScale = true;
  static FORGE_INLINE void read(const uint8_t* block, int, Sixteen& low, Sixteen& high) { read(block, sixteen_times(bits_at(block)), low, high); }
  static FORGE_INLINE void read(const uint8_t* block, const Sixteen& d, Sixteen& low, Sixteen& high) {
    const Sixteen m = Minimum ? sixteen_times(bits_at(block + 2)) : Sixteen{};
    const uint8_t* fifth = block + (Minimum ? 4 : 2);
    const SixteenCodes codes = codes_at(fifth + (Fifth ? 4 : 0));
    const auto scaled = [&](const Sixteen& q) FORGE_LAMBDA { return Minimum ? q * d + m : (q - float{Bias}) * d; };
    if (Fifth) {
      low = scaled(floats((codes & 15) | fifth_bits(fifth))), high = scaled(floats(codes >> 4 | fifth_bits(fifth + 2)));
    } else {
      const Sixteen values = scaled(kFromZero);
      low = pick(values, codes), high = pick(values, codes >> 4);
    }
  }
};
template <>
struct Layout<BlockCoding::q4_0> : Nibbles<18, 8, false, false> {};
template <>
struct Layout<BlockCoding::q4_1> : Nibbles<20, 0, true, false> {};
template <>
struct Layout<BlockCoding::q5_0> : Nibbles<22, 16, false, true> {};
template <>
struct Layout<BlockCoding::q5_1> : Nibbles<24, 0, true, true> {};

// d, dmin, eight 6-bit scales and minima in 12 bytes: bytes 0 to 3 hold scales 0 to 3 and, in their
// two top bits, the top of scales 4 to 7; bytes 4 to 7 the same for minima; bytes 8 to 11 the low
// nibbles of scales (low) and minima (high) 4 to 7. Then, with `Fifth`, 32 bytes of which bit j of
// byte i belongs to value i of chunk j; nibbles: byte i of 32 holds value i of an even chunk and of
// the next.
template <int Bytes, bool Fifth>
struct Grouped {
  static constexpr int kBytes = Bytes, kChunks = 8;
  static constexpr bool kOneScale = false;
  static FORGE_INLINE void read(const uint8_t* block, int j, Sixteen& low, Sixteen& high) {
    const uint8_t* packed = block + 4;
    const int scale = j < 4 ? packed[j] & 63 : (packed[j + 4] & 15) | (packed[j - 4] >> 6) << 4;
    const int minimum = j < 4 ? packed[j + 4] & 63 : (packed[j + 4] >> 4) | (packed[j] >> 6) << 4;
    const float d = half_at(block) * static_cast<float>(scale), m = half_at(block + 2) * static_cast<float>(minimum);
    const uint8_t* nibbles = block + (Fifth ? 48 : 16) + j / 2 * 32;
    const SixteenCodes a = codes_at(nibbles) >> j % 2 * 4, b = codes_at(nibbles + 16) >> j % 2 * 4;
    if (Fifth) {
      low = floats((a & 15) | (codes_at(block + 16) >> j & 1) << 4) * d - m;
      high = floats((b & 15) | (codes_at(block + 32) >> j & 1) << 4) * d - m;
    } else {
      const Sixteen values = kFromZero * d - m;
      low = pick(values, a), high = pick(values, b);
    }
  }
};
template <>
struct Layout<BlockCoding::q4_k> : Grouped<144, false> {};
template <>
struct Layout<BlockCoding::q5_k> : Grouped<176, true> {};

// Nibbles [128], pairs of high bits [64], scales [16] of 8 bits, d. Half h of the block uses
// nibbles 64h on and pairs 32h on; its chunk p of four takes bytes (p % 2) * 32 + i, the high
// nibble from p = 2 on, and bits 2p of pair i.
template <>
struct Layout<BlockCoding::q6_k> {
  static constexpr int kBytes = 210, kChunks = 8;
  static constexpr bool kOneScale = false;
  static FORGE_INLINE void read(const uint8_t* block, int j, Sixteen& low, Sixteen& high) {
    const int p = j % 4;
    const uint8_t *nibbles = block + j / 4 * 64 + p % 2 * 32, *pairs = block + 128 + j / 4 * 32;
    const int8_t* scales = reinterpret_cast<const int8_t*>(block + 192) + 2 * j;
    const float d = half_at(block + 208);
    const auto half = [&](int at) FORGE_LAMBDA {
      return floats(((codes_at(nibbles + at) >> (p / 2 * 4) & 15) | (codes_at(pairs + at) >> (2 * p) & 3) << 4) - 32);
    };
    low = half(0) * (d * static_cast<float>(scales[0])), high = half(16) * (d * static_cast<float>(scales[1]));
  }
};

template <BlockCoding Coding>
class Chunks {
  using Of = Layout<Coding>;

 public:
  static constexpr bool kOneScale = Of::kOneScale;

  FORGE_INLINE Chunks(const DequantizeBlocks& blocks, int64_t row)
      : bytes_(blocks.columns / (32 * Of::kChunks) * Of::kBytes), row_(blocks.codes + row * bytes_) {}
  FORGE_INLINE void read(int64_t chunk, float (&values)[32]) const {
    Sixteen low, high;
    Of::read(row_ + chunk / Of::kChunks * Of::kBytes, static_cast<int>(chunk % Of::kChunks), low, high);
    put(low, high, values);
  }
  // Read in two steps, so that scales of several rows are widened together.
  FORGE_INLINE uint64_t scale(int64_t chunk) const { return bits_at(row_ + chunk * Of::kBytes).bits; }
  FORGE_INLINE void read(int64_t chunk, float scale, float (&values)[32]) const {
    Sixteen low, high;
    Of::read(row_ + chunk * Of::kBytes, sixteen_times(scale), low, high);
    put(low, high, values);
  }
  // Prefetches the chunk of the row `rows` further on.
  FORGE_INLINE void ask(int64_t chunk, int64_t rows) const { __builtin_prefetch(row_ + rows * bytes_ + chunk * (Of::kBytes / Of::kChunks)); }
  // Prefetches a chunk's share of the `Rows` rows after the first `Rows`, line by line.
  template <int Rows>
  FORGE_INLINE void ask_all(int64_t chunk) const {
    constexpr int kShare = Rows * Of::kBytes / Of::kChunks, kLine = 64;
    const uint8_t* next = row_ + Rows * bytes_ + chunk * kShare;
#pragma GCC unroll 4
    for (int at = 0; at < kShare; at += kLine) __builtin_prefetch(next + at);
  }

 private:
  int64_t bytes_;
  const uint8_t* row_;
};

// One of sixteen rows side by side (by_16.h), for products that do not take all of them.
template <int Bytes>
class ChunksBy16 {
 public:
  static constexpr bool kOneScale = false;

  FORGE_INLINE ChunksBy16(const DequantizeBlocks& blocks, int64_t row)
      : blocks_(blocks.codes + row / 16 * (blocks.columns / 32) * Bytes), row_(row % 16) {}
  FORGE_INLINE void read(int64_t chunk, float (&values)[32]) const {
    const uint8_t* block = blocks_ + chunk * Bytes;
    const float d = half_at(block + 2 * row_);
    const auto word = [&](int64_t place) FORGE_LAMBDA {
      uint16_t bits;
      std::memcpy(&bits, block + 32 + 2 * place, 2);
      return static_cast<int>(bits);
    };
    for (int64_t k = 0; k < 32; ++k) {
      const int code = Bytes == 288 ? word(k / 8 * 32 + 2 * row_ + k % 2) >> k / 2 % 4 * 4 & 15 : word(k / 2 * 16 + row_) >> k % 2 * 8 & 255;
      constexpr int kBits = Bytes == 288 ? 4 : 8;
      values[k] = static_cast<float>(code - (code >> (kBits - 1) << kBits)) * d;
    }
  }
  FORGE_INLINE void ask(int64_t, int64_t) const {}
  template <int Rows>
  FORGE_INLINE void ask_all(int64_t) const {}

 private:
  const uint8_t* blocks_;
  int64_t row_;
};

template <>
class Chunks<BlockCoding::q8_0_by_16> : public ChunksBy16<544> {
 public:
  FORGE_INLINE Chunks(const DequantizeBlocks& blocks, int64_t row) : ChunksBy16(blocks, row) {}
};
template <>
class Chunks<BlockCoding::q4_0_by_16> : public ChunksBy16<288> {
 public:
  FORGE_INLINE Chunks(const DequantizeBlocks& blocks, int64_t row) : ChunksBy16(blocks, row) {}
};

// A row of codes by book, if rows_are_blocks().
class BookChunks {
 public:
  static constexpr bool kOneScale = false;

  FORGE_INLINE BookChunks(const DequantizeBlocks& blocks, int64_t row) : a_(&blocks), first_(row * blocks.columns) {}
  FORGE_INLINE void ask(int64_t chunk, int64_t rows) const {
    const int64_t at = first_ + rows * a_->columns + 32 * chunk;
    __builtin_prefetch(a_->codes + (a_->coding == BlockCoding::four_bits ? at / 2 : at));
  }
  template <int Rows>
  FORGE_INLINE void ask_all(int64_t chunk) const {
    for (int row = 0; row < Rows; ++row) ask(chunk, Rows + row);
  }

 protected:
  FORGE_INLINE float absmax(int64_t chunk) const {
    const int64_t block = (first_ + 32 * chunk) / a_->block;
    if (a_->absmax) return a_->absmax[block];
    return a_->absmax_book[a_->absmax_codes[block]] * a_->absmax_scale[block / 256] + a_->absmax_mean;
  }

  const DequantizeBlocks* a_;
  int64_t first_;
};

template <>
class Chunks<BlockCoding::four_bits> : public BookChunks {
 public:
  FORGE_INLINE Chunks(const DequantizeBlocks& blocks, int64_t row) : BookChunks(blocks, row) { std::memcpy(&book_, blocks.book, sizeof book_); }
  FORGE_INLINE void read(int64_t chunk, float (&values)[32]) const {
    const uint8_t* codes = a_->codes + (first_ + 32 * chunk) / 2;
    const Sixteen scaled = book_ * absmax(chunk);
    put(of_eight(scaled, codes), of_eight(scaled, codes + 8), values);
  }

 private:
  // The high half of a byte comes first.
  static FORGE_INLINE Sixteen of_eight(const Sixteen& values, const uint8_t* p) {
    constexpr SixteenBytes kTwice{0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7};
    constexpr SixteenCodes kShift{4, 0, 4, 0, 4, 0, 4, 0, 4, 0, 4, 0, 4, 0, 4, 0};
    SixteenBytes bytes{};
    std::memcpy(&bytes, p, 8);
    bytes = __builtin_shuffle(bytes, kTwice);
    return pick(values, codes_at(reinterpret_cast<const uint8_t*>(&bytes)) >> kShift);
  }

  Sixteen book_;
};

template <>
class Chunks<BlockCoding::eight_bits> : public BookChunks {
 public:
  FORGE_INLINE Chunks(const DequantizeBlocks& blocks, int64_t row) : BookChunks(blocks, row) {}
  FORGE_INLINE void read(int64_t chunk, float (&values)[32]) const {
    const uint8_t* codes = a_->codes + first_ + 32 * chunk;
    const F scale = set(absmax(chunk));
    for (int i = 0; i < 32; i += kLanes) store(values + i, look_up(a_->book, codes + i) * scale);
  }
};

// Calls visit(std::integral_constant of the coding).
template <class Visit>
FORGE_INLINE void by_coding(BlockCoding coding, Visit visit) {
  switch (coding) {
#define FORGE_CODING(name) \
  case BlockCoding::name: return visit(std::integral_constant<BlockCoding, BlockCoding::name>())
    FORGE_CODING(four_bits);
    FORGE_CODING(eight_bits);
    FORGE_CODING(q8_0);
    FORGE_CODING(q4_0);
    FORGE_CODING(q4_1);
    FORGE_CODING(q5_0);
    FORGE_CODING(q5_1);
    FORGE_CODING(q4_k);
    FORGE_CODING(q5_k);
    FORGE_CODING(q6_k);
    FORGE_CODING(q8_0_by_16);
    FORGE_CODING(q4_0_by_16);
#undef FORGE_CODING
  }
}

}  // namespace forge::FORGE_ISA
