#include "core/learn/objective/dpo.h"

#include <cmath>

#include "core/lib/base/error.h"

namespace forge {

double logistic(double x) { return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x)); }
double softplus(double x) { return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)); }

namespace {

double slope(double x) { return logistic(x) * logistic(-x); }  // the derivative of the logistic
double square(double x) { return x * x; }
double count(const SequenceSums& answer) { return static_cast<double>(answer.tokens); }

// Returns the gradients of a loss of z alone, which pushes the two answers apart equally.
PairLoss of_difference(double loss, double d_z) { return {loss, d_z, -d_z}; }

// Rafailov et al., 2023; with label_flip the conservative form of their appendix.
PairLoss sigmoid(const DpoConfig& o, const SequenceSums& c, const SequenceSums& r) {
  const double u = *o.beta * (c.ratio() - r.ratio()), flip = o.label_flip;
  return of_difference((1 - flip) * softplus(-u) + flip * softplus(u),
                       *o.beta * (flip * logistic(u) - (1 - flip) * logistic(-u)));
}

// Chowdhury et al., 2024: unbiased if a share label_flip of the pairs has swapped labels.
PairLoss robust(const DpoConfig& o, const SequenceSums& c, const SequenceSums& r) {
  const double u = *o.beta * (c.ratio() - r.ratio()), flip = o.label_flip, right = 1 - 2 * flip;
  return of_difference(((1 - flip) * softplus(-u) - flip * softplus(u)) / right,
                       -*o.beta * ((1 - flip) * logistic(-u) + flip * logistic(u)) / right);
}

// SLiC, Zhao et al., 2023.
PairLoss hinge(const DpoConfig& o, const SequenceSums& c, const SequenceSums& r) {
  const double u = *o.beta * (c.ratio() - r.ratio());
  return of_difference(std::max(0.0, 1 - u), u < 1 ? -*o.beta : 0);
}

// Azar et al., 2023, over means, as its authors confirmed to TRL: the gap it aims at is 1/(2 beta)
// a token.
PairLoss ipo(const DpoConfig& o, const SequenceSums& c, const SequenceSums& r) {
  const double off = c.ratio() / count(c) - r.ratio() / count(r) - 1 / (2 * *o.beta);
  return {square(off), 2 * off / count(c), -2 * off / count(r)};
}

PairLoss sigmoid_norm(const DpoConfig& o, const SequenceSums& c, const SequenceSums& r) {
  const double u = *o.beta * (c.ratio() / count(c) - r.ratio() / count(r)), pull = *o.beta * logistic(-u);
  return {softplus(-u), -pull / count(c), pull / count(r)};
}

// Ji et al., 2024: the reverse divergence between q = σ(βz) and the labels smoothed by label_flip.
PairLoss exo_pair(const DpoConfig& o, const SequenceSums& c, const SequenceSums& r) {
  const double u = *o.beta * (c.ratio() - r.ratio()), flip = o.label_flip, q = logistic(u);
  return of_difference(q * (-softplus(-u) - std::log1p(-flip)) + (1 - q) * (-softplus(u) - std::log(flip)),
                       *o.beta * slope(u) * (u - std::log((1 - flip) / flip)));
}

// Chen et al., 2024.
PairLoss nca_pair(const DpoConfig& o, const SequenceSums& c, const SequenceSums& r) {
  const double uc = *o.beta * c.ratio(), ur = *o.beta * r.ratio();
  return {softplus(-uc) + (softplus(uc) + softplus(ur)) / 2, *o.beta * (logistic(uc) / 2 - logistic(-uc)),
          *o.beta * logistic(ur) / 2};
}

// D'Oosterlinck et al., 2024: makes the chosen answer likelier than under the reference, and the
// rejected one less likely.
PairLoss apo_zero(const DpoConfig& o, const SequenceSums& c, const SequenceSums& r) {
  const double uc = *o.beta * c.ratio(), ur = *o.beta * r.ratio();
  return {logistic(-uc) + logistic(ur), -*o.beta * slope(uc), *o.beta * slope(ur)};
}

// Like apo_zero(), for pairs whose answers are both worse than the model's own.
PairLoss apo_down(const DpoConfig& o, const SequenceSums& c, const SequenceSums& r) {
  const double uc = *o.beta * c.ratio(), u = uc - *o.beta * r.ratio(), apart = *o.beta * slope(u);
  return {logistic(uc) + logistic(-u), *o.beta * slope(uc) - apart, apart};
}

// Wu et al., 2024, with certain preferences.
PairLoss sppo_hard(const DpoConfig& o, const SequenceSums& c, const SequenceSums& r) {
  const double up = c.ratio() - 1 / (2 * *o.beta), down = r.ratio() + 1 / (2 * *o.beta);
  return {square(up) + square(down), 2 * up, 2 * down};
}

}  // namespace

const std::vector<DpoRow>& dpo_rows() {
  static const std::vector<DpoRow> rows{
      {DpoLoss::sigmoid, sigmoid, "−log σ(βz)"},
      {DpoLoss::robust, robust, "[−(1−ε) log σ(βz) + ε log σ(−βz)] / (1−2ε)"},
      {DpoLoss::hinge, hinge, "max(0, 1 − βz)"},
      {DpoLoss::ipo, ipo, "(h − 1/(2β))²"},
      {DpoLoss::sigmoid_norm, sigmoid_norm, "−log σ(βh)"},
      {DpoLoss::exo_pair, exo_pair, "q log(q/(1−ε)) + (1−q) log((1−q)/ε), q = σ(βz)"},
      {DpoLoss::nca_pair, nca_pair, "−log σ(βl_c) − ½ log σ(−βl_c) − ½ log σ(−βl_r)"},
      {DpoLoss::apo_zero, apo_zero, "1 − σ(βl_c) + σ(βl_r)"},
      {DpoLoss::apo_down, apo_down, "σ(βl_c) + 1 − σ(βz)"},
      {DpoLoss::sppo_hard, sppo_hard, "(l_c − 1/(2β))² + (l_r + 1/(2β))²"},
  };
  return rows;
}

const DpoRow& dpo_row(DpoLoss loss) {
  const DpoRow& row = dpo_rows().at(static_cast<size_t>(loss));
  FORGE_CHECK(row.loss == loss, "the rows of dpo are not in the order of the enum");
  return row;
}

}  // namespace forge
