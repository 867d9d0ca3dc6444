#pragma once
// Decoding: the model's forward list with a cache of keys and values, many sequences at once, each
// at its own length. A provider computes it (providers/engine_providers.h).
//
//   decoder->next_logits({{0, prompt_a}, {1, prompt_b}});   // prompts, packed
//   decoder->next_logits({{0, {id_a}}, {1, {id_b, guess}}});  // a token each, and one that may be wrong:
//   decoder->forget(1, 1);                                  // it was
//   decoder->release(1);                                    // its memory serves the next sequence
//
// A model whose angles depend on a text's length (dynamic RoPE, LongRoPE) begins every turn of a
// chat anew.
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "core/data/batch/batch.h"

namespace forge {

// New tokens of a sequence, after those it has. Sequence numbers are the caller's, small and from
// 0. The first tokens of an encoder-decoder are what its encoder reads, and its answer begins after
// ModelSpec::decoder_start_id.
struct NewTokens {
  int64_t sequence = 0;
  std::vector<int32_t> ids;  // not empty
  bool last_only = false;    // of those that go on, only the last one's logits are asked for
};

class Decoder {
 public:
  virtual ~Decoder() = default;

  // Returns logits, fp32 [rows, vocab], valid until the next call. There is a row for the last
  // token of each sequence if every sequence begins here, and for every new token if each goes on
  // (unless last_only). Under `fused` in fp32 a row's bits do not depend on the other rows.
  virtual at::Tensor next_logits(const std::vector<NewTokens>& tokens) = 0;

  // Takes back a sequence's last tokens, fewer than it had before the latest call and what that
  // added.
  virtual void forget(int64_t sequence, int64_t tokens) = 0;
  // False for a model whose states cannot take tokens back.
  virtual bool forgets() const { return true; }

  // Lets `to`, which is empty, go on from the same tokens as `from`: completions of one prompt read
  // it once.
  virtual void fork(int64_t from, int64_t to) = 0;

  virtual void release(int64_t sequence) = 0;

  // Returns the bytes that keys, values and states take now.
  virtual int64_t cache_bytes() const = 0;
};

// Returns the new tokens as a micro-batch. The head reads only those whose logits are asked for.
// `lengths` are the tokens that each sequence has already.
Batch decoding_batch(const std::vector<NewTokens>& tokens, const std::vector<int64_t>& lengths);
// Like decoding_batch() above, for an encoder-decoder; tokens of a sequence that has none are its
// source.
Batch decoding_batch(const std::vector<NewTokens>& tokens, const std::vector<int64_t>& lengths, int64_t decoder_start_id);

}  // namespace forge
