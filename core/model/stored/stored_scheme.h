#pragma once
// StoredScheme is the way in which a checkpoint holds its matrices, by config.json's
// quantization_config, as plain values. core/model/families/stored_config.h reads it.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace forge {

enum class StoredMethod { none, mxfp4, fp8, bitsandbytes, compressed_tensors, gptq, awq, modelopt };

// One of compressed-tensors' groups: how it holds the weights of its modules.
struct StoredGroup {
  int64_t bits = 8;
  bool whole_numbers = true;  // false: fp8
  bool symmetric = true;      // false: there are zero points
  bool ordered = false;       // inputs are in an order of their own (weight_g_idx)
  int64_t group = 0;          // inputs that share a scale; 0: it is not by groups
  std::vector<int64_t> block;
};

struct StoredScheme {
  StoredMethod method = StoredMethod::none;
  std::vector<int64_t>
      block;          // fp8: rows and columns that share a scale; empty: told by the shapes
  int64_t bits = 0;   // gptq, awq: of a code
  int64_t group = 0;  // gptq, awq: inputs that share a scale; -1: all
  bool zeros_plus_one = false;    // gptq: zero points are stored one too small (v1)
  bool ordered = false;           // gptq: inputs are in an order of their own (g_idx)
  std::vector<std::string> kept;  // bitsandbytes: modules that are not in codes
  // compressed-tensors: the group of a module, nothing if it is of none; and whether it is ignored.
  std::function<std::optional<StoredGroup>(const std::string& module)> group_of;
  std::function<bool(const std::string& module)> ignores;
};

}  // namespace forge
