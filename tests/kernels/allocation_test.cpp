// Checks that a decoder layer's ops, the head and the update allocate nothing: their buffers are
// planned beforehand. All allocations are counted, including those of operator new and LibTorch's
// allocator, since all end in these functions.
#include <atomic>
#include <cstdlib>
#include <functional>
#include <vector>

#include "kernels/attention/attention_args.h"
#include "kernels/attention/cached_attention_args.h"
#include "kernels/embedding/embedding_args.h"
#include "kernels/lm_head/lm_head_args.h"
#include "kernels/lora/lora_args.h"
#include "kernels/optimizer/optimizer_args.h"
#include "kernels/product/product_args.h"
#include "kernels/rms_norm/rms_norm_args.h"
#include "kernels/rope/rope_args.h"
#include "kernels/sampling/sampling_args.h"
#include "kernels/swiglu/swiglu_args.h"
#include "tests/test.h"

namespace {
std::atomic<int64_t> allocations = 0;
}

// glibc's own functions. Functions of the plain names in a program take precedence over them.
extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);

void* malloc(size_t bytes) {
  ++allocations;
  return __libc_malloc(bytes);
}
void* calloc(size_t count, size_t bytes) {
  ++allocations;
  return __libc_calloc(count, bytes);
}
void* realloc(void* old, size_t bytes) {
  ++allocations;
  return __libc_realloc(old, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  ++allocations;
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** result, size_t alignment, size_t bytes) {
  *result = aligned_alloc(alignment, bytes);
  return *result ? 0 : 12;
}
}

using namespace forge;

namespace {

constexpr int64_t kTokens = 70, kWidth = 64, kHeads = 4, kKvHeads = 2, kDim = 16, kHidden = 96, kRank = 4,
                  kVocab = 300, kRow = (kHeads + 2 * kKvHeads) * kDim;

class Plan {
 public:
  template <class T = float>
  T* take(int64_t count) {
    buffers_.emplace_back(static_cast<size_t>(count) * sizeof(T) + 64);
    return reinterpret_cast<T*>(buffers_.back().data());
  }

 private:
  std::vector<std::vector<char>> buffers_;
};

// Returns the number of allocations in the second run of `op`: the first one may start threads.
int64_t allocations_of(const std::function<void()>& op) {
  op();
  int64_t before = allocations;
  op();
  return allocations - before;
}

}  // namespace

TEST_CASE("the counter sees operator new and malloc") {
  CHECK(allocations_of([] { std::vector<int>(100).back() = 1; }) > 0);
  CHECK(allocations_of([] { std::free(std::malloc(100)); }) > 0);
}

TEST_CASE("a layer's ops over planned buffers allocate nothing") {
  Plan plan;
  float *x = plan.take(kTokens * kWidth), *y = plan.take(kTokens * kWidth), *h = plan.take(kTokens * kWidth),
        *weight = plan.take(kWidth), *inverse = plan.take(kTokens), *d_weight = plan.take(kWidth);
  RmsNormForward norm{Element::f32, kTokens, kWidth, x, kWidth, y, kWidth, h, kWidth, weight};
  norm.y = y, norm.y_stride = kWidth, norm.inverse = inverse;
  CHECK(allocations_of([&] { rms_norm_forward_cpu(norm); }) == 0);
  RmsNormBackward norm_back{Element::f32, kTokens, kWidth, y, kWidth, h, kWidth, weight};
  norm_back.inverse = inverse, norm_back.d_h = x, norm_back.d_h_stride = kWidth,
  norm_back.d_weight = d_weight;
  CHECK(allocations_of([&] { rms_norm_backward_cpu(norm_back); }) == 0);

  float *qkv = plan.take(kTokens * kRow), *tables = plan.take(kTokens * kDim),
        *out = plan.take(kTokens * kWidth), *lse = plan.take(kTokens * kHeads);
  Rope rope{Element::f32, RopeLayout::half_split,     false, kTokens, kHeads, kKvHeads, kDim, kDim, qkv, kRow,
            tables,       tables + kTokens * kDim / 2};
  CHECK(allocations_of([&] { rope_cpu(rope); }) == 0);

  const int32_t ends[] = {0, 30, kTokens};
  AttentionShape shape{Element::f32, 2, ends, kHeads, kKvHeads, kDim, 0.25f};
  float *k = qkv + kHeads * kDim, *v = k + kKvHeads * kDim;
  AttentionForward attend{shape, qkv, kRow, k, kRow, v, kRow, out, kWidth, lse};
  attend.workspace = plan.take<char>(attention_forward_cpu_workspace(attend));
  CHECK(allocations_of([&] { attention_forward_cpu(attend); }) == 0);
  float* d_qkv = plan.take(kTokens * kRow);
  AttentionBackward attend_back{shape,
                                qkv,
                                kRow,
                                k,
                                kRow,
                                v,
                                kRow,
                                out,
                                kWidth,
                                lse,
                                y,
                                kWidth,
                                d_qkv,
                                kRow,
                                d_qkv + (k - qkv),
                                kRow,
                                d_qkv + (v - qkv),
                                kRow};
  attend_back.workspace = plan.take<char>(attention_backward_cpu_workspace(attend_back));
  CHECK(allocations_of([&] { attention_backward_cpu(attend_back); }) == 0);

  float *gate = plan.take(kTokens * kHidden), *up = plan.take(kTokens * kHidden),
        *z = plan.take(kTokens * kHidden);
  SwigluForward glu{Element::f32, GateFunction::silu, kTokens, kHidden, gate, kHidden, up, kHidden, z,
                    kHidden};
  CHECK(allocations_of([&] { swiglu_forward_cpu(glu); }) == 0);
  SwigluBackward glu_back{Element::f32, GateFunction::silu, kTokens, kHidden, z, kHidden, gate, kHidden, up,
                          kHidden};
  CHECK(allocations_of([&] { swiglu_backward_cpu(glu_back); }) == 0);

  LoraGroup group{Element::f32, kTokens, kWidth, kRank, 2, 1.0f};
  group.x = x, group.x_stride = kWidth, group.a = plan.take(2 * kRank * kWidth),
  group.s = plan.take(kTokens * 2 * kRank);
  for (LoraMember& member : {std::ref(group.member[0]), std::ref(group.member[1])})
    member = {kHidden, plan.take(kHidden * kRank), gate, kHidden, plan.take(kHidden * kRank)};
  LoraForward lora{group};
  lora.workspace = plan.take<char>(lora_forward_cpu_workspace(lora));
  CHECK(allocations_of([&] { lora_forward_cpu(lora); }) == 0);
  LoraBackward lora_back{group, plan.take(2 * kRank * kWidth), y, kWidth};
  lora_back.workspace = plan.take<char>(lora_backward_cpu_workspace(lora_back));
  CHECK(allocations_of([&] { lora_backward_cpu(lora_back); }) == 0);
}

TEST_CASE("a decoding step's products and attention allocate nothing") {
  Plan plan;
  RowProduct product{Element::bf16, Element::f32, 5, kWidth, kHidden};
  product.x = plan.take(kTokens * kWidth), product.x_stride = kWidth;
  product.w = plan.take(kHidden * kWidth);
  product.y = plan.take(kTokens * kHidden), product.y_stride = kHidden;
  product.workspace = plan.take<char>(row_product_cpu_workspace(product));
  CHECK(allocations_of([&] { row_product_cpu(product); }) == 0);

  const int32_t pages[] = {0, 1}, sequences[] = {0, 1}, positions[] = {3, 6}, lengths[] = {4, 7};
  const CacheShape shape{Element::f32, kKvHeads, kDim, 2 * kKvHeads * kDim * kCachePage, pages, 1};
  float *cache = plan.take(2 * shape.page_stride), *rows = plan.take(2 * kRow);
  CacheStore store{shape, 2, sequences, positions, rows, kRow, rows, kRow, cache, cache + shape.values_per_page()};
  CHECK(allocations_of([&] { cache_store_cpu(store); }) == 0);
  CachedAttention attend{shape, 2, kHeads};
  attend.lengths = lengths, attend.q = rows, attend.q_stride = kRow;
  attend.keys = cache, attend.values = cache + shape.values_per_page();
  attend.out = plan.take(2 * kWidth), attend.out_stride = kWidth;
  attend.workspace = plan.take<char>(cached_attention_cpu_workspace(attend));
  CHECK(allocations_of([&] { cached_attention_cpu(attend); }) == 0);
}

TEST_CASE("embedding, head, sampling and update allocate nothing") {
  Plan plan;
  float *x = plan.take(kTokens * kWidth), *table = plan.take(kVocab * kWidth),
        *d_table = plan.take(kVocab * kWidth), *loss = plan.take(kTokens), *ones = plan.take(kTokens);
  int64_t* ids = plan.take<int64_t>(kTokens);
  EmbeddingForward embed{Element::f32, kTokens, kWidth, kVocab, ids, table, x, kWidth};
  CHECK(allocations_of([&] { embedding_forward_cpu(embed); }) == 0);
  EmbeddingBackward embed_back{Element::f32, kTokens, kWidth, kVocab, ids, x, kWidth, d_table};
  CHECK(allocations_of([&] { embedding_backward_cpu(embed_back); }) == 0);
  LmHead head{Element::f32, kTokens, kWidth, kVocab, x, kWidth, table, kWidth, ids};
  head.loss = loss, head.loss_weight = ones, head.d_hidden = x, head.d_hidden_stride = kWidth,
  head.d_weight = d_table;
  head.workspace = plan.take<char>(lm_head_cpu_workspace(head));
  CHECK(allocations_of([&] { lm_head_cpu(head); }) == 0);
  uint64_t* counters = plan.take<uint64_t>(kTokens);
  Sampling sampling{Element::f32, 3,     kVocab, table,    kVocab,   0.7f, 20,
                    0.9f,         0.01f, 5,      counters, counters, ids};
  sampling.workspace = plan.take<char>(sampling_cpu_workspace(sampling));
  CHECK(allocations_of([&] { sampling_cpu(sampling); }) == 0);

  const int64_t count = kVocab * kWidth;
  float *mean = plan.take(count), *square = plan.take(count), *verdict = plan.take(3);
  const float unscale = 1;
  const UpdateNumbers numbers = update_numbers(1e-3, 0.9, 0.999, 1);
  FlatNorm norm{count, d_table, &unscale, 1, verdict};
  norm.workspace = plan.take<char>(gradient_norm_cpu_workspace(norm));
  CHECK(allocations_of([&] { gradient_norm_cpu(norm); }) == 0);
  AdamWUpdate adamw{count,   table, d_table, mean, square, Element::bf16, plan.take<uint16_t>(count),
                    verdict, &numbers};
  CHECK(allocations_of([&] { adamw_cpu(adamw); }) == 0);
  LionUpdate lion{count, table, d_table, mean, Element::bf16, nullptr, verdict, &numbers};
  CHECK(allocations_of([&] { lion_cpu(lion); }) == 0);
  AdamW8bitUpdate small{.count = count,
                        .weight = table,
                        .grad = d_table,
                        .mean = plan.take<uint8_t>(count),
                        .square = plan.take<uint8_t>(count),
                        .mean_absmax = mean,
                        .square_absmax = square,
                        .signed_map = state_map(true),
                        .unsigned_map = state_map(false),
                        .verdict = verdict,
                        .numbers = &numbers};
  CHECK(allocations_of([&] { adamw_8bit_cpu(small); }) == 0);
}
