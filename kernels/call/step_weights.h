#pragma once
// The modules of a list as its ops read them; frozen weights that are held otherwise are converted
// to the compute type while an op asks for them. No torch.
#include <map>
#include <memory>
#include <vector>

#include "core/graph/graph.h"
#include "kernels/device/device.h"
#include "kernels/call/op_module.h"
#include "kernels/call/weights_ahead.h"

namespace forge {

class StepWeights {
 public:
  // `uses` are the list's modules and must outlive the object. `modules` are those from number
  // `first` on. `type` is the compute type.
  StepWeights(ComputeDevice& device, const std::vector<ModuleUse>& uses, Element type, std::vector<OpModule> modules = {},
              int32_t first = 0);
  StepWeights(const StepWeights&) = delete;
  StepWeights& operator=(const StepWeights&) = delete;

  // Allocates the places of converted weights, for all modules that are there. `ahead`:
  // decodes_ahead() of the lists.
  void reserve(bool ahead);
  // Announces that ops [begin, end) of `list` will ask for their weights, one after the other. The
  // list must stay at its address.
  void begin(const Graph& list, size_t begin, size_t end);

  const OpModule& operator[](int32_t module) const { return modules_[static_cast<size_t>(module - first_)]; }
  // Returns a linear layer's weight in the compute type. [out, in] A converted weight is valid
  // until the next one is asked for.
  const void* in_compute_type(int32_t module);
  // Returns a weight in E4M3, transposed for d x. [in, out] Valid like a converted weight.
  const uint8_t* transposed(int32_t module) { return static_cast<const uint8_t*>(converted_->next(module)); }
  // Returns fp32 ones, as many as the widest weight in E4M3 has input features: the scales of
  // operands without scales.
  const float* ones() const { return ones_.as<float>(); }
  // Returns one of the experts that a weight [experts, in, out] holds. [in, out]
  const void* expert_in_compute_type(const OpModule& module, int64_t expert, int64_t in, int64_t out);
  uint32_t* counters() const { return counters_.as<uint32_t>(); }  // AdapterSums::counters
  const std::vector<OpModule>& all() const { return modules_; }
  int32_t first() const { return first_; }
  bool converts(const OpModule& module) const { return !module.weight || module.held != type_; }

 protected:
  ComputeDevice& device_;
  DeviceBlock counters_;
  std::vector<OpModule> modules_;

 private:
  const ModuleUse& use(int32_t module) const { return uses_[static_cast<size_t>(module)]; }
  void convert(int32_t module, void* to, Stream stream);

  const std::vector<ModuleUse>& uses_;
  Element type_;
  int32_t first_;
  DeviceBlock ones_;
  std::map<std::pair<const Graph*, size_t>, std::vector<int32_t>> orders_;  // of weights that are converted, by list and first op
  std::unique_ptr<WeightsAhead> converted_;
};

}  // namespace forge
