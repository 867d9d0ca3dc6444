// The nearest entry of an ascending map of 256 values in [−1, 1], without a search: two lookups and
// a comparison, which the compiler turns into gathers. Included by the FORGE_ISA part of
// optimizer_cpu.cpp.
//
// A cell holds the floats of one sign that share exponent and the first 7 bits after it: 128
// between powers of two, from 2⁻²⁴, below every entry of bitsandbytes' maps, to 1. Their entries,
// and so the borders between the regions of two codes, lie further apart than a cell is wide: a
// cell has at most one border in it.
//
// bitsandbytes' CUDA kernels round to the nearest entry, too; its CPU path is coarser, which is why
// runs beside bitsandbytes on a CPU end elsewhere. After fifty updates of bnb.optim.AdamW8bit
// (0.50.2, a 96 × 96 matrix, no decay) its CPU quantiser and the nearest entry are 0.3, 0.7 and 7.3
// % of the change apart where gradients span 0, 1 and 2 powers of ten; with the nearest entry codes
// and weights are forge's (tests/kernels/state_test.cpp). Either is 2 to 9 % from AdamW with fp32
// state.
namespace forge::FORGE_ISA {

class StateCode {
 public:
  explicit StateCode(const float* map) : map_(map) {
    for (int code = 0; code < 255; ++code) borders_[code] = border(map[code], map[code + 1]);
    int code = 255;  // ascending values: negative cells from the last to the first, then the positive ones
    auto fill = [&](int cell, float lowest) {
      while (code > 0 && borders_[code - 1] >= lowest) --code;
      while (code < 255 && borders_[code] < lowest) ++code;
      code_[cell] = code;
      border_[cell] = code < 255 ? borders_[code] : 2.0f;
    };
    for (int cell = kCells; cell >= 0; --cell) fill(kNegative + cell, -below(edge_of(cell + 1)));
    for (int cell = 0; cell <= kCells; ++cell) fill(cell, cell == 0 ? 0.0f : edge_of(cell));
  }

  // Writes the codes of values / absmax, the lower code of a tie; returns absmax. A block of zeros
  // has the codes of 0.
  float encode(const float* values, int64_t count, uint8_t* codes) const {
    F largest = set(0);
    for_lanes(count,
              [&](int64_t i, int n) FORGE_LAMBDA { largest = max(abs(load_n(values + i, n)), largest); });
    const float absmax = max_of(largest);
    for_lanes(count, [&](int64_t i, int n) FORGE_LAMBDA {
      F x = absmax > 0 ? load_n(values + i, n) / set(absmax) : set(0);
      x = min(set(1), max(set(-1), x));
      uint8_t some[kLanes], *to = n == kLanes ? codes + i : some;
      look_up_cells(code_, border_, kFirst, kNegative, x, to);
      if (n < kLanes) std::copy_n(some, n, codes + i);
    });
    return absmax;
  }

  // Writes the entries of `count` codes, times `absmax`.
  void decode(const uint8_t* codes, int64_t count, float absmax, float* values) const {
    for_lanes(count, [&](int64_t i, int n) FORGE_LAMBDA {
      uint8_t some[kLanes] = {};
      const uint8_t* from = codes + i;
      if (n < kLanes) std::copy_n(from, n, some), from = some;
      store_n(values + i, look_up(map_, from) * set(absmax), n);
    });
  }

 private:
  static constexpr int32_t kFirst = (127 - 24) << 7, kCells = 24 << 7, kNegative = kCells + 1;

  static float edge_of(int32_t cell) {
    return std::bit_cast<float>((cell + kFirst) << 16);
  }
  static float below(float x) { return std::nextafterf(x, -2.0f); }
  // Returns the largest x that is not nearer to `high`, as fp32 subtracts.
  static float border(float low, float high) {
    float x = (low + high) / 2;
    while (x - low > high - x) x = below(x);
    for (float next = std::nextafterf(x, 2.0f); !(next - low > high - next); next = std::nextafterf(x, 2.0f))
      x = next;
    return x;
  }

  const float* map_;
  float borders_[255];
  int32_t code_[2 * kNegative];  // of the cell's lowest value
  float border_[2 * kNegative];  // values above it have the next code
};

}  // namespace forge::FORGE_ISA
