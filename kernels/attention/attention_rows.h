// Rows of attention on their way between a caller's memory and a block's scratch, in fp32 [rows,
// ld]. Included by the FORGE_ISA part of attention_cpu.cpp, once per instruction set. A row of a
// token begins at base + token · stride + offset, in elements; it is never read or written past its
// `d` elements.
namespace forge::FORGE_ISA {
namespace flash {

FORGE_INLINE int64_t up(int64_t n) { return (n + kLanes - 1) / kLanes * kLanes; }

template <class T>
const T* at(const void* base, int64_t stride, int64_t token, int64_t offset) {
  return static_cast<const T*>(base) + token * stride + offset;
}
template <class T>
T* at(void* base, int64_t stride, int64_t token, int64_t offset) {
  return static_cast<T*>(base) + token * stride + offset;
}

// Returns the row of the token kTokens later, to prefetch it: rows of one head are too far apart
// for the processor's own prefetching.
template <class T>
FORGE_INLINE const T* later(const T* row, int64_t stride) {
  constexpr int64_t kTokens = 6;
  return row + kTokens * stride;
}

// Prefetches rows that are read or written after the current block. All at once they would delay
// the block's own loads; a few at a time between its products they cost nothing. They go to the
// second-level cache: the first holds no more than the block.
struct Ahead {
  struct Piece {
    const char* row;
    int64_t stride, width, count;  // bytes, bytes, rows
  };
  Piece pieces[4];
  int used = 0;

  template <class T>
  void add(const void* base, int64_t stride, int64_t token, int64_t offset, int64_t width, int64_t count) {
    constexpr int64_t kBytes = sizeof(T);
    if (count > 0)
      pieces[used++] = {reinterpret_cast<const char*>(at<T>(base, stride, token, offset)), stride * kBytes,
                        width * kBytes, count};
  }
  void some() {
    constexpr int kAtOnce = 4;
    for (int i = 0; i < kAtOnce && used > 0; ++i) {
      Piece& piece = pieces[used - 1];
      for (int64_t byte = 0; byte < piece.width; byte += 64) __builtin_prefetch(piece.row + byte, 0, 2);
      piece.row += piece.stride;
      if (--piece.count == 0) --used;
    }
  }
};

// to[:d] = from · factor; lanes past d become zero.
template <class T>
FORGE_INLINE void copy_row(const T* from, int64_t stride, int64_t d, float factor, float* to) {
  const T* next = later(from, stride);
  for_lanes(d, [&](int64_t i, int n) FORGE_LAMBDA {
    __builtin_prefetch(next + i);
    store(to + i, load_n(from + i, n) * set(factor));
  });
}

// to[:d] = from · factor.
template <class T>
FORGE_INLINE void store_row(const float* from, int64_t d, float factor, T* to) {
  for_lanes(d, [&](int64_t i, int n) FORGE_LAMBDA { store_n(to + i, load(from + i) * set(factor), n); });
}

template <class T>
void load_keys(const void* base, int64_t stride, int64_t token, int64_t offset, int64_t count, int64_t d,
               int64_t ld, float* rows) {
  for (int64_t j = 0; j < count; ++j)
    copy_row(at<T>(base, stride, token + j, offset), stride, d, 1.0f, rows + j * ld);
}
// across[i, j] = rows[j, i]; columns up to a whole vector become zero. Rows have `ld` floats, four
// at a time are read: rows past d and count hold anything.
void transpose(const float* rows, int64_t count, int64_t d, int64_t ld, float* across) {
  for (int64_t j = 0; j < count; j += 4)
    for (int64_t i = 0; i < d; i += 4)
      transpose4(rows + j * ld + i, ld, across + i * kScoreStride + j, kScoreStride);
  for (int64_t i = 0; i < d; ++i)
    for (int64_t j = count; j < up(count); ++j) across[i * kScoreStride + j] = 0;
}

// Rows of one block: positions [first, first + count) times `group` heads.
struct Rows {
  int64_t first, count, group;
  int64_t total() const { return count * group; }
  int64_t position(int64_t row) const { return first + row / group; }
  // Calls visit(row, position, head of the group) for every row.
  template <class Visit>
  FORGE_INLINE void each(Visit visit) const {
    for (int64_t i = 0, row = 0; i < count; ++i)
      for (int64_t head = 0; head < group; ++head) visit(row++, first + i, head);
  }
};

// to = from · factor for the heads of a group that begin at `from`.
template <class T>
void load_rows(const T* from, int64_t stride, const Rows& rows, int64_t d, float factor, float* to,
               int64_t ld) {
  for (int64_t i = 0; i < rows.count; ++i, from += stride)
    for (int64_t head = 0; head < rows.group; ++head, to += ld)
      copy_row(from + head * d, stride, d, factor, to);
}

}  // namespace flash
}  // namespace forge::FORGE_ISA
