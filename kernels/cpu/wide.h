// 2 · kLanes neighbours in memory as two vectors, for elementwise passes over any element type. The
// type decides which neighbours are in which vector: bf16 splits into even and odd elements with a
// shift and a mask, since halves would cost shuffles. Included by each_isa.h after simd_math.h.
//
//   for_all<T>(width, [&](int64_t i, auto at) FORGE_LAMBDA { at.store(y + i, at.load(x + i) * set(2)); });
//
// `at` reads and writes a Wide in the main loop and an F of some elements at the end; arithmetic
// has one spelling.
namespace forge::FORGE_ISA {

// Calls `action` with a value of the element's type.
template <class Action>
FORGE_INLINE void by_element(Element type, Action action) {
  if (type == Element::f32)
    action(float{});
  else if (type == Element::bf16)
    action(Bf16{});
  else
    action(F16{});
}

struct Wide {
  F a, b;
};
template <class... X>
constexpr bool kAnyWide = (std::is_same_v<X, Wide> || ...);

FORGE_INLINE F first(F x) { return x; }
FORGE_INLINE F first(Wide x) { return x.a; }
FORGE_INLINE F second(F x) { return x; }
FORGE_INLINE F second(Wide x) { return x.b; }

#define FORGE_WIDE_FUNCTION(name) \
  template <class... X>           \
  requires kAnyWide<X...> FORGE_INLINE Wide name(X... x) { return {name(first(x)...), name(second(x)...)}; }
#define FORGE_WIDE_OPERATOR(op)                                     \
  template <class X, class Y>                                       \
  requires kAnyWide<X, Y> FORGE_INLINE Wide operator op(X x, Y y) { \
    return {first(x) op first(y), second(x) op second(y)};          \
  }
FORGE_WIDE_OPERATOR(+)
FORGE_WIDE_OPERATOR(-)
FORGE_WIDE_OPERATOR(*)
FORGE_WIDE_FUNCTION(fma)
FORGE_WIDE_FUNCTION(less)
FORGE_WIDE_FUNCTION(max)
FORGE_WIDE_FUNCTION(abs)
FORGE_WIDE_FUNCTION(sigmoid)
FORGE_WIDE_FUNCTION(sigmoid_near)
FORGE_WIDE_FUNCTION(tanh)
#undef FORGE_WIDE_FUNCTION
#undef FORGE_WIDE_OPERATOR

// sum += x y, for sums over a row.
FORGE_INLINE void add_product(Wide& sum, Wide x, Wide y) { sum = fma(x, y, sum); }
FORGE_INLINE void add_product(Wide& sum, F x, F y) { sum.a = fma(x, y, sum.a); }
FORGE_INLINE float sum(Wide x) { return sum(x.a + x.b); }

// Load two vectors side by side; simd_*.h have those that read bf16.
template <class T>
FORGE_INLINE void load_two(const T* p, F& a, F& b) {
  a = load(p), b = load(p + kLanes);
}
template <class T>
FORGE_INLINE void load_two_like(const T*, const float* p, F& a, F& b) {
  load_two(p, a, b);
}
template <class T>
FORGE_INLINE void store_two(T* p, F a, F b) {
  store(p, a), store(p + kLanes, b);
}

template <class T>
struct WholeWide {
  // Prefetches one page ahead: the processor's own prefetching ends with the page and begins anew
  // on the next.
  FORGE_INLINE Wide load(const T* p) const {
    constexpr int kPage = 4096, kLine = 64;
    for (size_t byte = 0; byte < 2 * kLanes * sizeof(T); byte += kLine)
      __builtin_prefetch(reinterpret_cast<const char*>(p) + kPage + byte);
    Wide x;
    load_two(p, x.a, x.b);
    return x;
  }
  FORGE_INLINE void store(T* p, Wide x) const { store_two(p, x.a, x.b); }
  // `past` stores past the caches, so that memory is not read in order to be written. Then p is
  // aligned to 64 bytes, and stream_fence() ends the pass.
  FORGE_INLINE void store(T* p, Wide x, bool past) const {
    if (past)
      stream_two(p, x.a, x.b);
    else
      store_two(p, x.a, x.b);
  }
  // fp32 numbers that belong to the elements of a T.
  FORGE_INLINE Wide load_table(const float* p) const {
    Wide x;
    load_two_like(static_cast<const T*>(nullptr), p, x.a, x.b);
    return x;
  }
};

template <class T>
struct Part {
  int n;
  FORGE_INLINE F load(const T* p) const { return load_n(p, n); }
  FORGE_INLINE void store(T* p, F x, bool = false) const { store_n(p, x, n); }
  FORGE_INLINE F load_table(const float* p) const { return load_n(p, n); }
};

// Returns access to the same neighbours of another row, whose type splits like T.
template <class S, class T>
FORGE_INLINE WholeWide<S> beside(WholeWide<T>) {
  static_assert(std::is_same_v<S, T> || (!std::is_same_v<S, Bf16> && !std::is_same_v<T, Bf16>));
  return {};
}
template <class S, class T>
FORGE_INLINE Part<S> beside(Part<T> at) {
  return {at.n};
}

// Calls body(i, at) for i = 0, 2 kLanes, … and for the remaining elements.
template <class T, class Body>
FORGE_INLINE void for_all(int64_t count, Body body) {
  int64_t i = 0;
  if constexpr (kLanes > 4)  // plain C++ gains nothing and compiles for long
    for (; i + 2 * kLanes <= count; i += 2 * kLanes) body(i, WholeWide<T>{});
  for (; i < count; i += kLanes) body(i, Part<T>{static_cast<int>(std::min<int64_t>(kLanes, count - i))});
}

}  // namespace forge::FORGE_ISA
