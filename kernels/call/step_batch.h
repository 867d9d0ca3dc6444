#pragma once
// The micro-batch as the kernels read it, in the device's memory. No torch.
#include <map>
#include <vector>

#include "core/graph/graph.h"
#include "kernels/attention/cached_attention_args.h"
#include "kernels/device/gemm.h"

namespace forge {

// State of decoding: the cache places for keys and values of the micro-batch and of earlier tokens.
struct CachePlaces {
  char* pages = nullptr;                 // of all layers (kv_cache.h)
  int64_t part_bytes = 0;                // keys of a layer's page, or values
  std::vector<char>* scratch = nullptr;  // for products, kept from op to op
  bool begins = false;                   // every sequence begins here: attention is as in training
  CacheShape shape;
  std::vector<int32_t> sequences, positions;  // by token: its row of pages, its place there
  // By row of pages: tokens of the sequence, up to the row's new token if the sequence continues.
  std::vector<int32_t> lengths;

  void* keys(int64_t layer) const { return pages + 2 * layer * part_bytes; }
  void* values(int64_t layer) const { return pages + (2 * layer + 1) * part_bytes; }
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
  const float *cosine = nullptr, *sine = nullptr;  // [tokens, rotary_dim / 2]
  const float *window_cosine = nullptr, *window_sine = nullptr;  // of layers with a window, where they turn otherwise
  const float *grown_cosine = nullptr, *grown_sine = nullptr;    // of queries that grow with their position
  int64_t rotary_dim = 0;
  bool dropout = false;  // if true, with these keys
  uint64_t seed = 0;
  const int64_t* step = nullptr;         // [1]
  const CachePlaces* cache = nullptr;    // decoding
  ExpertEnds* expert_ends = nullptr;     // ends written by this micro-batch's routers
  std::vector<Gemm>* products = nullptr;  // buffer in which an op collects a group of products
  const float* balance_slope = nullptr;  // [experts]: of the loss that balances them, in each probability's sum; null: none

  bool operator==(const StepBatch&) const = default;
};

}  // namespace forge
