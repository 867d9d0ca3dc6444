#include "core/lib/io/gguf_rows.h"

namespace forge {
namespace {

// Returns the order of heads of values of a delta rule, `head_rows` rows each, after `first` rows.
GgufRows tiled(const GgufHeads& of, int64_t rows, int64_t first, int64_t head_rows) {
  const bool fits = of.delta_keys > 0 && of.delta_values % of.delta_keys == 0 && rows == first + of.delta_values * head_rows;
  if (!fits || of.delta_keys == of.delta_values) return {};
  return {.head_rows = head_rows, .heads = of.delta_values, .groups = of.delta_keys, .first = first, .tiled = true};
}

int64_t tiled_row(const GgufRows& order, int64_t row) {
  if (row < order.first) return row;
  const int64_t head = (row - order.first) / order.head_rows, shared = order.heads / order.groups;
  return order.first + (head % shared * order.groups + head / shared) * order.head_rows + (row - order.first) % order.head_rows;
}

// A group is a head of q, one of k, the heads of v that they serve, and as many gates.
int64_t joined_row(const GgufRows& order, int64_t row) {
  const int64_t keys = order.key_rows, values = order.heads / order.groups * order.head_rows;
  const int64_t group = row / (2 * keys + 2 * values), at = row % (2 * keys + 2 * values);
  if (at < 2 * keys) return (at / keys * order.groups + group) * keys + at % keys;
  const int64_t before = 2 * keys * order.groups, of = at - 2 * keys;
  return before + (of / values * order.groups + group) * values + of % values;
}

}  // namespace

int64_t GgufRows::file_row(int64_t row) const {
  if (tiled) return tiled_row(*this, row);
  if (key_rows > 0) return joined_row(*this, row);
  if (groups == 0) {
    const int64_t in_head = row % head_rows, half = head_rows / 2;
    return row - in_head + in_head % half * 2 + in_head / half;
  }
  const int64_t queries = heads / groups * head_rows;  // of a group
  const int64_t group = row / (queries + 2 * head_rows), at = row % (queries + 2 * head_rows);
  if (at < queries) return group * queries + at;
  const int64_t before = at < queries + head_rows ? heads : heads + groups;
  return (before + group) * head_rows + at % head_rows;
}

bool gguf_reorders(const GgufArchitecture& architecture, GgufRole role) {
  if (role == GgufRole::grouped_qkv) return true;
  return architecture.permutes_heads && (role == GgufRole::query || role == GgufRole::key);
}

GgufRows gguf_rows(const GgufArchitecture& architecture, GgufRole role, int64_t rows, const GgufHeads& of) {
  if (architecture.tiled_values) {
    if (role == GgufRole::delta_qkv || role == GgufRole::delta_filter) return tiled(of, rows, 2 * of.delta_keys * of.key_dim, of.value_dim);
    if (role == GgufRole::delta_values) return tiled(of, rows, 0, of.value_dim);
    if (role == GgufRole::delta_heads || role == GgufRole::delta_rates) return tiled(of, rows, 0, 1);
  }
  if (role == GgufRole::delta_joined)
    return {.head_rows = of.value_dim, .heads = of.delta_values, .groups = of.delta_keys, .key_rows = of.key_dim};
  if (!gguf_reorders(architecture, role)) return {};
  const bool grouped = role == GgufRole::grouped_qkv;
  const int64_t all = grouped ? of.heads + 2 * of.kv_heads : role == GgufRole::key ? of.kv_heads : of.heads;
  if (of.heads <= 0 || of.kv_heads <= 0 || all > rows || rows % all != 0 || (grouped && of.heads % of.kv_heads != 0)) return {};
  return {.head_rows = rows / all, .heads = grouped ? of.heads : 0, .groups = grouped ? of.kv_heads : 0};
}

GgufRows gguf_columns(const GgufArchitecture& architecture, GgufRole role, int64_t columns, const GgufHeads& of) {
  if (!architecture.tiled_values || role != GgufRole::delta_out) return {};
  return tiled(of, columns, 0, of.value_dim);
}

}  // namespace forge
