#pragma once
// The micro-batch as the kernels read it, in the device's memory. No torch.
#include <map>
#include <vector>

#include "core/graph/graph.h"
#include "kernels/attention/attention_args.h"
#include "kernels/attention/cached_attention_args.h"
#include "kernels/device/gemm.h"

namespace forge {

// State of decoding: the cache places for keys and values of the micro-batch and of earlier tokens.
struct CachePlaces {
  char* pages = nullptr;                  // of all layers (kv_cache.h)
  const CacheLayer* layers = nullptr;     // by layer
  std::vector<char>* scratch = nullptr;  // for products, kept from op to op
  bool begins = false;                   // every sequence begins here: attention is as in training
  CacheShape shape;  // without heads, which are a layer's
  std::vector<int32_t> sequences, positions;  // by token: its row of pages, its place there
  // By row of pages: tokens of the sequence, up to the row's new token if the sequence continues.
  std::vector<int32_t> lengths;

  CacheShape shape_of(int64_t layer) const {
    CacheShape of_layer = shape;
    of_layer.kv_heads = layers[layer].kv_heads, of_layer.head_dim = layers[layer].head_dim;
    return of_layer;
  }
  void* keys(int64_t layer) const { return pages + layers[layer].begin; }
  void* values(int64_t layer) const {
    return pages + layers[layer].begin + shape_of(layer).values_per_page() * bytes_of(shape.type);
  }
};

// Slots of decoding texts' states, beside their pages: in each, for every layer with a delta rule,
// the last columns of its convolution, then its matrices in fp32.
struct StatePlaces {
  std::vector<char*> slots;      // by sequence of the micro-batch
  std::vector<int64_t> offsets;  // bytes from a slot's begin to a layer's columns; −1: it has none
  int64_t columns_bytes = 0;     // from a layer's columns to its matrices
  bool begins = false;           // every sequence begins here

  std::vector<char*> of_columns(int64_t layer) const { return at(offsets[static_cast<size_t>(layer)]); }
  std::vector<char*> of_matrices(int64_t layer) const { return at(offsets[static_cast<size_t>(layer)] + columns_bytes); }

 private:
  std::vector<char*> at(int64_t offset) const {
    std::vector<char*> places = slots;
    for (char*& place : places) place += offset;
    return places;
  }
};

// The ends of experts' rows, by the value that holds them: a copy on the host, for a device whose
// memory the host cannot read.
using ExpertEnds = std::map<ValueId, std::vector<int32_t>>;

// Numbers of each token of a text, or of what an encoder reads, for the ops that read them.
struct TokenRows {
  const int64_t* ids = nullptr;           // [tokens]
  const int64_t* position_ids = nullptr;  // [tokens], of learned positions
  const int64_t* example = nullptr;       // [tokens], keys of dropout like the next
  const int32_t* position = nullptr;      // [tokens]

  bool operator==(const TokenRows&) const = default;
};

struct StepBatch {
  int64_t sequences = 0, longest = 0;         // tokens of the longest sequence
  TokenRows text, source;                     // source: of an encoder-decoder
  const int64_t* loss_positions = nullptr;    // [targets]
  const int64_t* loss_targets = nullptr;      // [targets]
  const int32_t* cu_seqlens = nullptr;        // [sequences + 1]
  int64_t chunks = 0;                         // of all sequences, where attention is within chunks
  const int32_t* chunk_cu_seqlens = nullptr;  // [chunks + 1]
  std::vector<AttentionTurn> turns, chunk_turns;  // of sequences and of chunks; empty: one
  const float *cosine = nullptr, *sine = nullptr;  // [tokens, rotary_dim / 2]
  // Angles of layers with a window that turn otherwise: [tokens, window_rotary_dim / 2].
  const float *window_cosine = nullptr, *window_sine = nullptr;
  // Angles of queries that grow with their position: [tokens, grown_dim / 2].
  const float *grown_cosine = nullptr, *grown_sine = nullptr;
  int64_t rotary_dim = 0, window_rotary_dim = 0, grown_dim = 0;
  bool dropout = false;  // if true, with these keys
  uint64_t seed = 0;
  const int64_t* step = nullptr;         // [1]
  const CachePlaces* cache = nullptr;    // decoding
  const StatePlaces* states = nullptr;   // decoding, of a model with states
  ExpertEnds* expert_ends = nullptr;     // ends written by this micro-batch's routers
  std::vector<Gemm>* products = nullptr;  // buffer in which an op collects a group of products
  const float* balance_slope = nullptr;  // [experts]: of the loss that balances them, in each probability's sum; null: none

  bool operator==(const StepBatch&) const = default;
};

}  // namespace forge
