// Times the kernels on a GPU beside a plain copy in the same run: one JSON line each with microseconds, GB/s
// by the bytes that the op's header states, and the share of the copy's rate. Shapes are Llama-3.1-8B's at
// 8,192 tokens, bf16; buffers are larger than any L2.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/lm_head/logits_cuda.h"
#include "kernels/optimizer/optimizer_cuda.h"
#include "kernels/quantize/quantize_cuda.h"
#include "kernels/rms_norm/rms_norm_cuda.h"
#include "kernels/rope/rope_cuda.h"
#include "kernels/swiglu/swiglu_cuda.h"

using namespace forge;

namespace {

constexpr int64_t kTokens = 8192, kHidden = 4096, kIntermediate = 14336, kVocab = 128256, kChunk = 2048;

void check(cudaError_t status) {
  if (status != cudaSuccess) throw std::runtime_error(cudaGetErrorString(status));
}

// Device memory that lives until the program ends; zeros are as fast as any value for these kernels.
template <class T>
T* buffer(int64_t count) {
  void* pointer = nullptr;
  check(cudaMalloc(&pointer, static_cast<size_t>(count) * sizeof(T)));
  check(cudaMemset(pointer, 0, static_cast<size_t>(count) * sizeof(T)));
  return static_cast<T*>(pointer);
}
void* halves(int64_t count) { return buffer<uint16_t>(count); }

// Median of 21 timings of five calls each, after a warm-up.
double microseconds(const std::function<void()>& run) {
  cudaEvent_t begin, end;
  check(cudaEventCreate(&begin));
  check(cudaEventCreate(&end));
  for (int i = 0; i < 10; ++i) run();
  std::vector<float> times(21);
  for (float& time : times) {
    check(cudaEventRecord(begin));
    for (int i = 0; i < 5; ++i) run();
    check(cudaEventRecord(end));
    check(cudaEventSynchronize(end));
    check(cudaEventElapsedTime(&time, begin, end));
  }
  std::nth_element(times.begin(), times.begin() + 10, times.end());
  return times[10] * 1000.0 / 5;
}

double copy_rate = 0;

void report(const std::string& name, double bytes, const std::function<void()>& run) {
  const double time = microseconds(run), rate = bytes / time / 1000;
  if (copy_rate == 0) copy_rate = rate;
  std::printf("{\"kernel\": \"%s\", \"microseconds\": %.1f, \"gb_per_s\": %.0f, \"share_of_copy\": %.3f}\n",
              name.c_str(), time, rate, rate / copy_rate);
  std::fflush(stdout);
}

void bench_layer() {
  const int64_t elements = kTokens * kHidden;
  RmsNormForward norm{Element::bf16,    kTokens, kHidden,          halves(elements), kHidden,
                      halves(elements), kHidden, halves(elements), kHidden,          halves(kHidden)};
  norm.y = halves(elements), norm.y_stride = kHidden, norm.inverse = buffer<float>(kTokens);
  report("rms_norm_forward_residual", 8.0 * elements, [&] { rms_norm_forward_cuda(norm, nullptr); });
  RmsNormBackward back{Element::bf16, kTokens, kHidden, norm.y, kHidden, norm.h, kHidden, norm.weight};
  back.inverse = norm.inverse, back.d_h = halves(elements), back.d_h_stride = kHidden, back.accumulate = true;
  report("rms_norm_backward", 8.0 * elements, [&] { rms_norm_backward_cuda(back, nullptr); });

  const int64_t gated = kTokens * kIntermediate, stride = 2 * kIntermediate;
  auto* pair = static_cast<uint16_t*>(halves(2 * gated));
  SwigluForward gate{Element::bf16, GateFunction::silu,   kTokens, kIntermediate, pair,
                     stride,        pair + kIntermediate, stride};
  gate.y = halves(gated), gate.y_stride = kIntermediate;
  report("swiglu_forward", 6.0 * gated, [&] { swiglu_forward_cuda(gate, nullptr); });
  SwigluBackward gate_back{
      Element::bf16, GateFunction::silu,   kTokens, kIntermediate, gate.y,       kIntermediate, pair,
      stride,        pair + kIntermediate, stride,  gate.y,        kIntermediate};
  report("swiglu_backward", 12.0 * gated, [&] { swiglu_backward_cuda(gate_back, nullptr); });

  const int64_t heads = 32, kv_heads = 8, head_dim = 128, row = (heads + 2 * kv_heads) * head_dim;
  Rope rope{Element::bf16,
            RopeLayout::half_split,
            false,
            kTokens,
            heads,
            kv_heads,
            head_dim,
            head_dim,
            halves(kTokens * row),
            row,
            buffer<float>(kTokens * head_dim / 2),
            buffer<float>(kTokens * head_dim / 2)};
  report("rope", 4.0 * kTokens * (heads + kv_heads) * head_dim, [&] { rope_cuda(rope, nullptr); });
}

void bench_head() {
  LogitsChunk chunk{Element::bf16, kChunk, kVocab, halves(kChunk * kVocab), kVocab, buffer<int64_t>(kChunk)};
  chunk.loss = buffer<float>(kChunk), chunk.loss_weight = buffer<float>(kChunk), chunk.gradient = true;
  report("logits_forward_backward", 6.0 * kChunk * kVocab, [&] { logits_cuda(chunk, nullptr); });
}

void bench_quantised() {
  const int64_t count = kHidden * kIntermediate, blocks = count / 64;
  DequantizeBlocks nf4{Element::bf16, true, kIntermediate, kHidden};
  nf4.codes = buffer<uint8_t>(count / 2), nf4.book = buffer<float>(16),
  nf4.absmax_codes = buffer<uint8_t>(blocks);
  nf4.absmax_scale = buffer<float>(blocks / 256), nf4.absmax_book = buffer<float>(256);
  for (int64_t spare : {0, 64}) {  // 64: the stride of a K-concatenated GEMM
    nf4.out = halves((kHidden + spare) * kIntermediate), nf4.out_stride = kHidden + spare;
    report("dequantize_nf4_nested_spare_" + std::to_string(spare), (2 + 0.5 + 1.0 / 64) * count,
           [&] { dequantize_blocks_cuda(nf4, nullptr); });
  }
}

void bench_update() {
  const int64_t count = 42 << 20;
  FlatNorm norm{count, buffer<float>(count), buffer<float>(1), 1, buffer<float>(3)};
  norm.workspace = buffer<char>(gradient_norm_cuda_workspace(norm));
  report("gradient_norm", 4.0 * count, [&] { gradient_norm_cuda(norm, nullptr); });
  AdamWUpdate adamw{count, buffer<float>(count), norm.grad, buffer<float>(count), buffer<float>(count)};
  adamw.copy = halves(count), adamw.verdict = norm.verdict, adamw.numbers = buffer<UpdateNumbers>(1);
  report("adamw", 30.0 * count, [&] { adamw_cuda(adamw, nullptr); });
}

}  // namespace

int main() {
  const int64_t bytes = 1 << 30;
  void *from = buffer<char>(bytes), *to = buffer<char>(bytes);
  report("copy", 2.0 * bytes, [&] { check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice)); });
  bench_layer();
  bench_head();
  bench_quantised();
  bench_update();
}
