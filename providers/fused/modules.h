#pragma once
// The modules of a step in the device's memory.
#include <map>
#include <vector>

#include "core/model/bound.h"
#include "core/model/graph/graph.h"
#include "kernels/device/device.h"
#include "providers/fused/fused_module.h"
#include "providers/fused/weights_ahead.h"

namespace forge {

class FusedModules {
 public:
  // `modules` must outlive the object. `type` is the compute type. `folded`: adapters are folded
  // into the products of their weights. `ahead`: decodes_ahead() of the lists.
  FusedModules(ComputeDevice& device, std::vector<BoundModule> bound, const std::vector<ModuleUse>& modules, Element type, bool folded = false,
               bool ahead = false);

  // Reads the tensors again: gradients are allocated after the model, and weights may move.
  void refresh();
  // Announces that ops [first, end) of `list` will ask for their weights, one after the other. The
  // list must stay at its address.
  void begin(const Graph& list, size_t first, size_t end);
  const FusedModule& operator[](int32_t module) const { return modules_[static_cast<size_t>(module)]; }
  // Returns a linear layer's weight in the compute type. [out, in] A converted weight is valid
  // until the next one is asked for.
  const void* in_compute_type(int32_t module);
  // Returns a weight in E4M3, transposed for d x. [in, out] Valid like a converted weight.
  const uint8_t* transposed(int32_t module) { return static_cast<const uint8_t*>(converted_->next(module)); }
  // Returns fp32 ones, as many as the widest weight in E4M3 has input features: the scales of
  // operands without scales.
  const float* ones() const { return ones_.as<float>(); }
  // Returns one of the experts that a weight [experts, in, out] holds. [in, out]
  const void* expert_in_compute_type(const FusedModule& module, int64_t expert, int64_t in, int64_t out);
  uint32_t* counters() const { return counters_.as<uint32_t>(); }  // AdapterSums::counters
  const std::vector<FusedModule>& all() const { return modules_; }
  bool converts(const FusedModule& module) const { return !module.weight || module.held != type_; }

 private:
  void convert(int32_t module, void* to, Stream stream);

  ComputeDevice& device_;
  std::vector<BoundModule> bound_;
  const std::vector<ModuleUse>& uses_;
  Element type_;
  DeviceBlock books_, counters_, ones_;
  std::vector<FusedModule> modules_;
  std::map<std::pair<const Graph*, size_t>, std::vector<int32_t>> orders_;  // of weights that are converted, by list and first op
  std::unique_ptr<WeightsAhead> converted_;
};

}  // namespace forge
