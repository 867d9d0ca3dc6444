// A sequence's tokens are stored in shuffled pages and then attended to; the oracle knows no pages.
#include <algorithm>

#include "kernels/attention/cached_attention_args.h"
#include "tests/kernels/cases.h"

namespace forge::kernel_test {
namespace {

struct Setting {
  std::string name;
  std::vector<int64_t> lengths;
  int64_t heads, kv_heads, head_dim;
  int64_t window = 0;
  double softcap = 0;
  bool sinks = false;
  int64_t chunk = 0;

  int64_t sequences() const { return static_cast<int64_t>(lengths.size()); }
  double scale() const { return 1 / std::sqrt(static_cast<double>(head_dim)); }
  int64_t columns() const {
    return *std::max_element(lengths.begin(), lengths.end()) / kCachePage + 1;
  }
  int64_t pages() const { return sequences() * columns(); }
  int64_t page_values() const { return 2 * kv_heads * head_dim * kCachePage; }  // keys, then values
};

// The pages of the sequences, dealt out from the last to the first.
at::Tensor page_table(const Setting& s) {
  return at::arange(s.pages() - 1, -1, -1, at::kLong).view({s.columns(), s.sequences()}).t().contiguous();
}

// k [length, kv_heads · head_dim] of every sequence → keys as a cache holds them, and values; other
// places hold 7.
at::Tensor cache_of(const Setting& s, const std::vector<at::Tensor>& k, const std::vector<at::Tensor>& v) {
  at::Tensor cache = at::full({s.pages(), 2, s.kv_heads, s.head_dim * kCachePage}, 7, at::kDouble),
             table = page_table(s);
  for (int64_t i = 0; i < s.sequences(); ++i)
    for (int64_t t = 0; t < s.lengths[static_cast<size_t>(i)]; ++t) {
      at::Tensor page = cache[table[i][t / kCachePage].item<int64_t>()];
      at::Tensor key = k[static_cast<size_t>(i)][t].view({s.kv_heads, s.head_dim}),
                 value = v[static_cast<size_t>(i)][t].view({s.kv_heads, s.head_dim});
      page[0].view({s.kv_heads, s.head_dim, kCachePage}).select(2, t % kCachePage).copy_(key);
      page[1].view({s.kv_heads, kCachePage, s.head_dim}).select(1, t % kCachePage).copy_(value);
    }
  return cache.view({s.pages(), s.page_values()});
}

std::vector<at::Tensor> rows_of(const Setting& s, uint64_t seed) {
  std::vector<at::Tensor> all;
  for (int64_t length : s.lengths) all.push_back(normal({length, s.kv_heads * s.head_dim}, seed++));
  return all;
}

CacheShape shape_of(Store type, const Setting& s, Pointers& p) {
  return {element(type), s.kv_heads, s.head_dim, s.page_values(), p["pages"], s.columns()};
}

at::Tensor attend(const Setting& s, const at::Tensor& q, const at::Tensor& cache, const at::Tensor& sinks) {
  at::Tensor table = page_table(s), out = at::empty({s.sequences(), s.heads * s.head_dim}, at::kDouble);
  const int64_t group = s.heads / s.kv_heads;
  for (int64_t i = 0; i < s.sequences(); ++i) {
    const int64_t length = s.lengths[static_cast<size_t>(i)],
                  begin = s.window > 0  ? std::max<int64_t>(0, length - s.window)
                          : s.chunk > 0 ? length - 1 - (length - 1) % s.chunk
                                        : 0;
    at::Tensor pages = cache.index_select(0, table[i]).view({s.columns(), 2, s.kv_heads, -1});
    for (int64_t head = 0; head < s.heads; ++head) {
      at::Tensor keys = pages.select(1, 0).select(1, head / group).view({-1, s.head_dim, kCachePage}),
                 values = pages.select(1, 1).select(1, head / group).reshape({-1, s.head_dim});
      keys = keys.transpose(1, 2).reshape({-1, s.head_dim}).slice(0, begin, length);
      at::Tensor score = at::mv(keys, q[i].narrow(0, head * s.head_dim, s.head_dim)) * s.scale();
      if (s.softcap > 0) score = at::tanh(score / s.softcap) * s.softcap;
      if (s.sinks) score = at::cat({score, sinks.narrow(0, head, 1)});
      out[i]
          .narrow(0, head * s.head_dim, s.head_dim)
          .copy_(
              at::mv(values.slice(0, begin, length).t(), at::softmax(score, 0).narrow(0, 0, length - begin)));
    }
  }
  return out;
}

Case attention_case(Store type, const Setting& s, const Layout& layout) {
  auto oracle = [=](const Tensors& in) {
    return Tensors{{"out", attend(s, in.at("q"), in.at("cache"), s.sinks ? in.at("sinks") : at::Tensor())}};
  };
  std::vector<Operand> operands{
      input("pages", Store::i32, page_table(s)),
      input("lengths", Store::i32, at::tensor(at::ArrayRef<int64_t>(s.lengths), at::kLong)),
      laid(input("q", type, normal({s.sequences(), s.heads * s.head_dim}, 1)), layout),
      input("cache", type, cache_of(s, rows_of(s, 20), rows_of(s, 60))),
      laid(output("out", type, {s.sequences(), s.heads * s.head_dim},
                  {.roundings = 1, .sums = 60, .reason = "scores, exponentials and sums in fp32"}),
           layout)};
  if (s.sinks) operands.push_back(input("sinks", type, normal({s.heads}, 5, 2)));
  return make_case<CachedAttention>(
      "cached attention", s.name + " " + layout.name + " " + name_of(type), operands, oracle, [=](Pointers& p) {
        CachedAttention a{shape_of(type, s, p), s.sequences(), s.heads, s.window, s.chunk};
        a.scale = static_cast<float>(s.scale()), a.softcap = static_cast<float>(s.softcap);
        if (s.sinks) a.sinks = p["sinks"];
        a.lengths = p["lengths"];
        a.q = p["q"], a.q_stride = p.stride("q");
        a.keys = p["cache"];
        a.values = static_cast<const char*>(a.keys) + s.page_values() / 2 * bytes_of(element(type));
        a.out = p["out"], a.out_stride = p.stride("out");
        return a;
      });
}

// The case stores every token of every sequence, the last sequence first.
Case store_case(Store type, const Setting& s, const Layout& layout) {
  std::vector<int64_t> sequence, position;
  for (int64_t i = s.sequences() - 1; i >= 0; --i)
    for (int64_t t = 0; t < s.lengths[static_cast<size_t>(i)]; ++t) sequence.push_back(i), position.push_back(t);
  const auto tokens = static_cast<int64_t>(sequence.size()), width = s.kv_heads * s.head_dim;
  auto oracle = [=](const Tensors& in) {
    std::vector<at::Tensor> k(s.lengths.size()), v(s.lengths.size());
    int64_t begin = 0;
    for (size_t i = s.lengths.size(); i-- > 0; begin += s.lengths[i]) {
      k[i] = in.at("k").narrow(0, begin, s.lengths[i]);
      v[i] = in.at("v").narrow(0, begin, s.lengths[i]);
    }
    return Tensors{{"cache", cache_of(s, k, v)}};
  };
  std::vector<Operand> operands{
      input("pages", Store::i32, page_table(s)),
      input("sequences", Store::i32, at::tensor(at::ArrayRef<int64_t>(sequence), at::kLong)),
      input("positions", Store::i32, at::tensor(at::ArrayRef<int64_t>(position), at::kLong)),
      laid(input("k", type, normal({tokens, width}, 4)), layout),
      laid(input("v", type, normal({tokens, width}, 5)), layout),
      in_out("cache", type, at::full({s.pages(), s.page_values()}, 7, at::kDouble),
             {.roundings = 0, .sums = 0, .reason = "moved"})};
  return make_case<CacheStore>(
      "cached attention", "store " + s.name + " " + layout.name + " " + name_of(type), operands, oracle,
      [=](Pointers& p) {
        CacheStore a{shape_of(type, s, p), tokens, p["sequences"], p["positions"]};
        a.k = p["k"], a.k_stride = p.stride("k");
        a.v = p["v"], a.v_stride = p.stride("v");
        a.keys = p["cache"];
        a.values = static_cast<char*>(a.keys) + s.page_values() / 2 * bytes_of(element(type));
        return a;
      });
}

}  // namespace

void add_cached_attention_cases(std::vector<Case>& cases) {
  const Setting settings[] = {{"one token", {1}, 1, 1, 8},
                              {"lengths", {1, 64, 65, 200, 7}, 4, 2, 16},
                              {"grouped", {90, 3}, 9, 3, 64},
                              {"odd head", {70, 128}, 2, 1, 5},
                              {"window", {40, 150, 300, 64}, 4, 2, 16, 70},
                              {"soft cap", {33, 129}, 2, 2, 24, 0, 2.5},
                              {"sinks", {1, 65, 200}, 4, 2, 16, 70, 0, true},
                              {"chunks", {1, 20, 21, 40, 150}, 4, 2, 16, 0, 0, false, 20},
                              {"chunks of more than a page", {64, 70, 71, 300}, 2, 1, 8, 0, 0, false, 70}};
  for (Store type : kFloats)
    for (const Setting& s : settings)
      for (const Layout& layout : kLayouts) {
        cases.push_back(attention_case(type, s, layout));
        if (s.window == 0 && s.softcap == 0 && s.chunk == 0 && !s.sinks) cases.push_back(store_case(type, s, layout));
      }
}

}  // namespace forge::kernel_test
