#pragma once
// The training objectives, as one table: a row says which data an objective trains on, by what its
// loss is divided, and what its loss is. This file does not use tensors: the plan prints from the
// same rows that the engine computes with.
//
//   const Objective& row = objective_of(job.objective.type);
//   row.pair(job.objective, chosen, rejected).loss
//
// Four couplings. `token`: the gradient of a position is known from that position alone, so the
// head is visited once with the objective between its halves (core/train/head.cpp). `answer`:
// it is known once the sum over its answer is (sequence_loss.h), and the divisor is the number of
// answers of the optimizer step. `pair`: it is known once the sums over both answers of a pair are,
// so both are in one micro-batch, and the divisor is the number of pairs.
//
// `policy`: completions that the model draws itself, whose rewards decide their gradient
// (core/learn/reinforce).
//
// Symbols: s = Σ logp over the tokens of an answer, n their number, a = s / n, l = s − s of the
// reference; z = l_c − l_r and h = l_c / n_c − l_r / n_r of a pair with the answers c (chosen) and
// r (rejected). z₀ is kto's estimate of how far the model is from the reference
// (core/data/mismatch.h). For a reward model s is the score itself, and n is 1.
//
// No loss depends on micro-batch, packing or accumulation. So the likelihood beside a preference is
// the mean over pairs of each chosen answer's mean, and not the mean over a micro-batch's tokens as
// in TRL, and losses that sort a batch (aot) are not offered.
#include <cstdint>
#include <string>

#include "core/job/job.h"

namespace forge {

// The sums of one answer's log-probabilities, and what is known of the answer.
struct SequenceSums {
  double logp = 0, reference = 0;  // s, and s of the reference (0 where the objective has none)
  int64_t tokens = 0;              // n
  bool desirable = true;           // for an answer that is judged by itself
  double margin = 0;               // by how much a chosen answer should win; 0: not stated
  double other_logp = 0;           // Σ logp of the rest of a chosen text, where nll_on is all
  int64_t other_tokens = 0;
  double ratio() const { return logp - reference; }
  double mean() const { return logp / static_cast<double>(tokens); }
};

// The loss of one pair, before division.
struct PairLoss {
  double loss = 0;
  double d_chosen = 0, d_rejected = 0;  // ∂ loss / ∂ s
};
// The loss of one answer, before division.
struct AnswerLoss {
  double loss = 0, d_answer = 0;
};
using AnswerLossFunction = AnswerLoss (*)(const ObjectiveConfig&, const SequenceSums&, double divergence);
using PairLossFunction = PairLoss (*)(const ObjectiveConfig&, const SequenceSums& chosen, const SequenceSums& rejected);

enum class Coupling { token, answer, pair, policy };

struct Objective {
  ObjectiveType type;
  Coupling coupling;
  bool has_reference;
  bool scores;  // one number for each text by a head of its own, instead of log-probabilities
  // Values for a job that does not state its own; 0 where the objective has no such key, or no
  // learning rate of its own.
  double beta, nll_weight;
  double adapter_learning_rate, full_learning_rate;
  PairLossFunction pair;      // for coupling pair, else null
  AnswerLossFunction answer;  // for coupling answer, else null
  // The reward of an answer in the metrics: the quantity that the loss compares.
  double (*reward)(const ObjectiveConfig&, const SequenceSums&);
  // Returns the formula of the loss of one pair, or of one token, for readers.
  std::string (*formula)(const ObjectiveConfig&);
};

const Objective& objective_of(ObjectiveType type);

// draws_completions() is true if completions are drawn and scored. needs_base() is true if they are
// also compared with the base model: for a divergence, or to see that a server applies the adapter.
bool draws_completions(ObjectiveType type);
bool needs_base(const Job& job);

// Fills the values that a job leaves to the objective's type: beta, nll_weight.
ObjectiveConfig with_defaults(ObjectiveConfig objective);

// True if the objective trains on rows of this format.
bool trains_on(const Objective& objective, RowFormat format);

}  // namespace forge
