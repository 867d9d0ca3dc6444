#include "core/train/checkpoint.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include "core/model/adapter/adapter_file.h"
#include "core/lib/base/file.h"
#include "core/model/families/stored_file.h"
#include "core/model/families/wrapper.h"
#include "core/lib/io/members.h"
#include "core/lib/io/safetensors.h"
#include "core/run/checkpoints.h"
#include "core/run/export_files.h"
#include "core/run/run_folder.h"
#include "core/model/dtype.h"
#include "core/train/other_networks.h"

namespace forge {
namespace {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

// Returns the state that an optimizer keeps for each parameter: "exp_avg.model.layers.0.…".
NamedTensors moments_of(const TrainableSet& trainables, Optimizer& optimizer) {
  const TrainedLayout& layout = trainables.layout();
  const std::vector<at::Tensor>& states = optimizer.states();
  NamedTensors saved;
  for (const TrainedSlice& slice : layout.slices)
    for (size_t i = 0; i < layout.state.size(); ++i) {
      const StatePart& part = layout.state[i];
      if (part.kind != slice.state) continue;
      at::Tensor state = states[i].narrow(0, part.begin(slice), part.count(slice));
      const bool whole = state.numel() == slice.parameter.count();
      saved.emplace_back(part.name + "." + slice.parameter.name,
                         whole ? state.view(slice.parameter.shape) : state);
    }
  return saved;
}

// Writes named tensors as one safetensors file: bytes as they are, everything else in fp32. Host
// copies live until the file is written.
void write_tensors(const std::string& path, const NamedTensors& tensors,
                   std::vector<SafetensorsEntry> entries = {}) {
  std::vector<at::Tensor> host;
  for (const auto& [name, tensor] : tensors) {
    const c10::ScalarType type = tensor.scalar_type() == at::kByte ? at::kByte : at::kFloat;
    host.push_back(tensor.to(at::kCPU, type).contiguous());
    entries.push_back({{name, host.back().sizes().vec(), dtype_of(type)}, tensor_bytes(host.back())});
  }
  write_safetensors(path, entries, {{"format", "pt"}});
}

void read_tensor(const TensorFile& file, const std::string& path, const std::string& name, at::Tensor target) {
  int64_t index = file.find(name);
  if (index < 0) throw Error(ErrorKind::environment, path + ": has no tensor " + name);
  const TensorInfo& info = file.tensors()[static_cast<size_t>(index)];
  if (info.count() != target.numel())
    throw Error(ErrorKind::environment, path + ": " + name + " has another size than this run's");
  if (target.scalar_type() == at::kByte) {
    const std::string_view bytes = file.bytes(static_cast<size_t>(index));
    if (info.dtype != DType::u8) throw Error(ErrorKind::environment, path + ": " + name + " does not hold bytes");
    target.copy_(at::from_blob(const_cast<char*>(bytes.data()), target.sizes(), at::kByte));
    return;
  }
  at::Tensor host = at::empty(target.sizes(), at::kFloat);
  file.read_f32(static_cast<size_t>(index), host.data_ptr<float>());
  target.copy_(host);
}

NamedTensors weights_of(const TrainableSet& trainables) {
  NamedTensors weights;
  for (const Trainable& item : trainables.items()) weights.emplace_back(item.parameter.name, item.master);
  return weights;
}
// Returns the weights as files of the model hold them.
NamedTensors model_weights(const Session& session) {
  NamedTensors weights = weights_of(*session.trainables);
  for (size_t i = 0; i < weights.size(); ++i)
    if (stored_transposed(session.plan.model, session.trainables->items()[i].parameter)) weights[i].second = weights[i].second.mT();
  for (const auto& constant : constant_weights(session.model)) weights.push_back(constant);
  return weights;
}
// Also writes the tensors that the base's file holds beside the language model: a checkpoint is a
// model.
void write_full_model(const Session& session, const std::string& path) {
  const KeptTensors kept(session.plan.model, session.job.model.path);
  std::vector<SafetensorsEntry> entries;
  for (const KeptTensors::Tensor& tensor : kept.tensors())
    entries.push_back({{current_name(session.plan.model, tensor.info.name), tensor.info.shape, tensor.info.dtype}, tensor.bytes});
  write_tensors(path, model_weights(session), std::move(entries));
}
void read_tensors(const std::string& path, const NamedTensors& targets) {
  const auto file = open_safetensors(path);
  for (const auto& [name, tensor] : targets) read_tensor(*file, path, name, tensor);
}

constexpr const char* kOptimizer = "/optimizer.safetensors";
constexpr const char *kValue = "/value.safetensors", *kValueOptimizer = "/value_optimizer.safetensors";

// Returns the name of the weights that training continues with, where the saved ones are their
// average.
std::string trained_name(const Trainable& item) { return "trained_weights." + item.parameter.name; }

constexpr const char *kRollout = "/rollout.json", *kAhead = "/ahead.json";

Json read_rollouts(const std::string& path, Json none) {
  constexpr int64_t kLargest = int64_t{1} << 30;
  return file_exists(path) ? parse_json(read_file(path, kLargest, ErrorKind::environment), path, ErrorKind::environment) : std::move(none);
}

bool full(const Session& session) { return session.job.adapter.type == AdapterType::none; }

}  // namespace

int64_t save_checkpoint(const Session& session, const TrainState& state, const std::string& run_folder, const CheckpointRollouts& rollouts) {
  c10::NoGradGuard no_grad;
  const AverageShown shown(*session.optimizer);
  CheckpointWriter writer(run_folder, state.step);
  NamedTensors moments = moments_of(*session.trainables, *session.optimizer);
  if (session.optimizer->shows_average())
    for (const Trainable& item : session.trainables->items()) moments.emplace_back(trained_name(item), item.grad);
  TrainState whole = state;
  whole.average_rate = session.optimizer->average.largest_rate;
  whole.average_weights = session.optimizer->average.weights;
  if (full(session)) {
    write_full_model(session, writer.path() + "/model.safetensors");
    write_model_config(session.job.model, session.plan.model, name_of(DType::f32), writer.path());
  } else
    save_adapter(writer.path(), *session.trainables, session.sites, session.job.adapter, session.model_name,
                 session.residual, session.plan.model);
  write_tensors(writer.path() + kOptimizer, moments);
  if (session.value) {
    write_tensors(writer.path() + kValue, weights_of(session.value->trainables()));
    write_tensors(writer.path() + kValueOptimizer, moments_of(session.value->trainables(), session.value->optimizer()));
  }
  write_file_durably(writer.path() + "/state.json", Json(whole).dump(2));
  if (!rollouts.partly_trained.is_null()) write_file_durably(writer.path() + kRollout, dump_json(rollouts.partly_trained));
  if (!rollouts.ahead.empty()) write_file_durably(writer.path() + kAhead, dump_json(rollouts.ahead));
  return writer.commit();
}

void load_checkpoint_weights(Session& session, const std::string& path) {
  c10::NoGradGuard no_grad;
  if (!full(session)) {
    load_checkpoint_adapter(path, *session.trainables, session.job.adapter, &session.residual);
  } else {
    read_tensors(path + "/model.safetensors", model_weights(session));
  }
  session.trainables->publish();
}

CheckpointRollouts checkpoint_rollouts(const std::string& folder) {
  return {.partly_trained = read_rollouts(folder + kRollout, nullptr), .ahead = read_rollouts(folder + kAhead, Json::array())};
}

// A checkpoint whose file cannot be read is damaged, so that nothing continues from it.
std::set<std::string> adapters_of_checkpoints(const std::string& run_folder) {
  std::set<std::string> names;
  for (const int64_t step : list_checkpoints(run_folder)) try {
      for (const Json& one : read_rollouts(RunPaths{run_folder}.checkpoint(step) + kAhead, Json::array()))
        if (one.is_object() && one.contains("adapter") && one["adapter"].is_string()) names.insert(one["adapter"].get<std::string>());
    } catch (const Error&) {
    }
  return names;
}

TrainState read_state(const std::string& path) {
  const Json json = parse_json(read_file(path, 16 << 20, ErrorKind::environment), path, ErrorKind::environment);
  try {
    return json.get<TrainState>();
  } catch (const MemberFault& fault) {
    throw Error(ErrorKind::environment, path + ": " + fault.what())
        .hint("delete its checkpoint to continue from the one before it");
  }
}

TrainState load_checkpoint(Session& session, const std::string& path) {
  c10::NoGradGuard no_grad;
  std::string fault;
  if (!verify_checkpoint(path, &fault))
    throw Error(ErrorKind::environment, fault)
        .hint("delete " + path + " to continue from the checkpoint before it");
  load_checkpoint_weights(session, path);
  subtract_residual(session.model, session.sites, session.residual);
  read_tensors(path + kOptimizer, moments_of(*session.trainables, *session.optimizer));
  if (session.value) {
    read_tensors(path + kValue, weights_of(session.value->trainables()));
    read_tensors(path + kValueOptimizer, moments_of(session.value->trainables(), session.value->optimizer()));
    session.value->trainables().publish();
  }
  const TrainState state = read_state(path + "/state.json");
  session.optimizer->average = {state.average_rate, state.average_weights};
  if (state.average_weights > 0) {
    NamedTensors trained;
    for (Trainable& item : session.trainables->items()) trained.emplace_back(trained_name(item), item.master);
    read_tensors(path + kOptimizer, trained);
    session.trainables->publish();
  }
  return state;
}

}  // namespace forge
