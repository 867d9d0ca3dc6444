#include "kernels/lm_head/lm_head_cuda.h"

#include <algorithm>

#include "kernels/device/gemm.h"
#include "kernels/lm_head/logits_args.h"

namespace forge {
namespace {

template <class T>
T* from(T* numbers, int64_t first) {
  return numbers ? numbers + first : nullptr;
}

LogitsChunk chunk_of(const LmHead& a, int64_t first, int64_t positions) {
  LogitsChunk c{a.type, positions, a.vocab, a.workspace, logits_stride(a), a.targets + first};
  c.temperature = a.temperature, c.softcap = a.softcap;
  c.label_smoothing = a.label_smoothing, c.z_loss = a.z_loss;
  c.gradient = a.d_hidden || a.d_weight;
  c.logp = from(a.logp, first), c.logsumexp = from(a.logsumexp, first), c.loss = from(a.loss, first);
  c.mean_logit = from(a.mean_logit, first), c.entropy = from(a.entropy, first);
  c.loss_weight = from(a.loss_weight, first), c.g_logp = from(a.g_logp, first);
  c.g_logsumexp = from(a.g_logsumexp, first), c.g_mean_logit = from(a.g_mean_logit, first);
  c.g_entropy = from(a.g_entropy, first);
  return c;
}

}  // namespace

void lm_head_cuda(const LmHead& a, CudaStream stream) {
  const GemmOperand weight{a.weight, a.weight_stride}, across{a.weight, a.weight_stride, true};
  for (int64_t first = 0; first < a.positions; first += kHeadPositions) {
    const int64_t count = std::min(kHeadPositions, a.positions - first), stride = logits_stride(a);
    const void* hidden = static_cast<const char*>(a.hidden) + first * a.hidden_stride * bytes_of(a.type);
    device_gemm(
        {a.type, count, a.vocab, a.width, {hidden, a.hidden_stride}, across, a.type, a.workspace, stride},
        stream);
    logits_cuda(chunk_of(a, first, count), stream);
    // The weight's gradient is computed before d_hidden is written: d_hidden may be hidden.
    if (a.d_weight)
      device_gemm({a.type,
                   a.vocab,
                   a.width,
                   count,
                   {a.workspace, stride, true},
                   {hidden, a.hidden_stride},
                   Element::f32,
                   a.d_weight,
                   a.width,
                   1,
                   /*add=*/true},
                  stream);
    if (!a.d_hidden) continue;
    void* d_hidden = static_cast<char*>(a.d_hidden) + first * a.d_hidden_stride * bytes_of(a.type);
    device_gemm(
        {a.type, count, a.width, a.vocab, {a.workspace, stride}, weight, a.type, d_hidden, a.d_hidden_stride},
        stream);
  }
}

}  // namespace forge
