#pragma once
// Orders of rows in GGUF files, where llama.cpp's converter changes Hugging Face's.
#include <cstdint>
#include <optional>

#include "core/lib/io/gguf_names.h"

namespace forge {

// Numbers of heads: of attention, and of a delta rule with the widths of its heads.
struct GgufHeads {
  int64_t heads = 0, kv_heads = 0;
  int64_t delta_keys = 0, delta_values = 0, key_dim = 0, value_dim = 0;
};

// The order of a tensor's rows in a file, or of its columns.
struct GgufRows {
  int64_t head_rows = 0;          // of a head; 0: Hugging Face's order
  int64_t heads = 0, groups = 0;  // groups > 0: query heads and key heads of q, k and v in one matrix
  int64_t first = 0;              // tiled: rows before those of heads, which keep their places
  bool tiled = false;             // heads of values and of keys of a delta rule
  int64_t key_rows = 0;           // > 0: of a head of keys, in a delta rule's q, k, v and gate
  // Returns the row of the file that is Hugging Face's row `row`. In a head of n rows, row i of the
  // first half is at 2i and row i of the second half at 2i + 1. For q, k and v in one matrix,
  // Hugging Face has for each key head its query heads, the key head and its value; the file has
  // all query heads, all keys, all values. Tiled heads are those of each key head in turn in
  // Hugging Face's files; a file has every key head's first, then every one's second. Of a delta
  // rule's q, k, v and gate a file has all of q, all of k, all of v, then the gate.
  int64_t file_row(int64_t row) const;
};

// Returns the order of `rows` rows in a file of the architecture; {} for rows that stay as they
// are, or that do not split into these heads.
GgufRows gguf_rows(const GgufArchitecture& architecture, GgufRole role, int64_t rows, const GgufHeads& heads);
// Returns the order of a tensor's columns.
GgufRows gguf_columns(const GgufArchitecture& architecture, GgufRole role, int64_t columns, const GgufHeads& heads);
// True if tensors of this role may have another order.
bool gguf_reorders(const GgufArchitecture& architecture, GgufRole role);

}  // namespace forge
