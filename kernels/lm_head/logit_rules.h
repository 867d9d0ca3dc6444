// Functions of a logit and of the cotangents of a position's numbers, for the head and for a chunk
// of logits, whose arguments have the same names (lm_head_args.h). Included where FORGE_ISA is
// defined.
namespace forge::FORGE_ISA {
namespace head {

template <class Args>
FORGE_INLINE F capped(const Args& a, F z) {
  if (a.softcap != 0) z = set(a.softcap) * tanh(z / set(a.softcap));
  return a.temperature == 1 ? z : z / set(a.temperature);
}
// d z / d (h · w) · temperature
template <class Args>
FORGE_INLINE F slope(const Args& a, F z) {
  if (a.softcap == 0) return set(1);
  F t = z * set(a.temperature / a.softcap);
  return set(1) - t * t;
}

struct Cotangents {
  float target, probability, each, entropy;  // of one-hot, p, every logit, −p (z − Σ p z)
};

FORGE_INLINE float at(const float* values, int64_t row) { return values ? values[row] : 0.0f; }

template <class Args>
Cotangents cotangents(const Args& a, int64_t row, float lse) {
  float weight = at(a.loss_weight, row);
  float logp = at(a.g_logp, row) - weight * (1 - a.label_smoothing);
  float sum = at(a.g_logsumexp, row) + weight * (a.label_smoothing + 2 * a.z_loss * lse);
  float mean = at(a.g_mean_logit, row) - weight * a.label_smoothing;
  return {logp, sum - logp, mean / static_cast<float>(a.vocab), at(a.g_entropy, row)};
}

FORGE_INLINE void put(float* to, int64_t row, float value) {
  if (to) to[row] = value;
}

// Writes the wanted numbers of a position from its reduced logits.
template <class Args>
void put_numbers(const Args& a, int64_t row, float logp, float lse, float mean, float expected) {
  put(a.logp, row, logp);
  put(a.logsumexp, row, lse);
  put(a.mean_logit, row, mean);
  put(a.entropy, row, lse - expected);
  put(a.loss, row, a.label_smoothing * (lse - mean) - (1 - a.label_smoothing) * logp + a.z_loss * lse * lse);
}

}  // namespace head
}  // namespace forge::FORGE_ISA
