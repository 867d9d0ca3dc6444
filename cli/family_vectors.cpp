#include "cli/family_vectors.h"

#include <algorithm>
#include <cmath>

#include "cli/model_choice.h"
#include "core/lib/base/file.h"
#include "core/lib/base/text.h"
#include "core/model/families/stored_file.h"
#include "core/plan/machine/hardware.h"
#include "core/run/staging.h"

namespace forge {
namespace {

// Limits of the tests of forge's own families (tests/parity/README.md).
constexpr double kLogits = 1e-5, kGradients = 1e-4;
constexpr int64_t kLargestVectors = int64_t{256} << 20;

using Prompts = std::vector<std::vector<int32_t>>;

double larger(double most, double difference) {
  return difference <= most ? most : difference;
}  // NaN stays

VectorRow compare_logits(const Json& vectors, const ModelChoice& choice, const Arguments& args,
                         Progress& progress) {
  const Json done = compute(
      {{"command", "logits"}, {"prompts", vectors.at("prompts")}, {"stride", vectors.at("stride")}},
      choice, args, [&](const Json& event) { progress.show(event); });
  double scale = 0, most = 0;
  size_t row = 0;
  for (const Json& text : vectors.at("logits"))
    for (const Json& position : text) {
      const Json& got = done.at("logits").at(row++);
      FORGE_CHECK(got.size() == position.size(),
                  "the engine gives " << got.size() << " logits of " << position.size());
      for (size_t i = 0; i < position.size(); ++i) {
        const double want = position[i].get<double>(),
                     found = got[i].is_number() ? got[i].get<double>() : NAN;
        scale = std::max(scale, std::fabs(want)), most = larger(most, std::fabs(found - want));
      }
    }
  return {"logits", most / std::max(scale, 1e-30), kLogits,
          std::to_string(row) + " positions, of the largest logit"};
}

VectorRow compare_text(const Json& vectors, const ModelChoice& choice, const Arguments& args,
                       Progress& progress) {
  const auto want = vectors.at("greedy").get<std::vector<int32_t>>();
  std::vector<int32_t> got;
  const Prompts prompts{vectors.at("prompts").at(0).get<std::vector<int32_t>>()};
  compute({{"command", "generate"}, {"prompts", prompts}, {"max_new_tokens", want.size()}}, choice,
          args, [&](const Json& event) {
            if (event.at("event") != "tokens") return progress.show(event);
            for (const Json& id : event.at("ids")) got.push_back(id);
          });
  const auto [differs, unused] = std::mismatch(want.begin(), want.end(), got.begin(), got.end());
  const auto same = static_cast<size_t>(differs - want.begin());
  return {"likeliest text", static_cast<double>(want.size() - same), 0,
          std::to_string(same) + " of " + std::to_string(want.size()) + " tokens alike"};
}

std::vector<float> read_tensor(const TensorFile& file, const std::string& name) {
  const int64_t index = file.find(name);
  if (index < 0) return {};
  std::vector<float> values(
      static_cast<size_t>(file.tensors()[static_cast<size_t>(index)].count()));
  file.read_f32(static_cast<size_t>(index), values.data());
  return values;
}

double norm_of(const std::vector<float>& values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * value;
  return std::sqrt(sum);
}

// Returns a rate with which one step changes the weights far beyond their rounding.
double rate_of(const Json& vectors, const TensorFile& file) {
  double least = 1e-30;
  for (const auto& [name, gradient] : vectors.at("gradients").items())
    if (const double norm = gradient.at("norm"); norm > 0)
      least = std::max(least, norm_of(read_tensor(file, name)) / norm);
  return 1e3 * least;
}

// Trains one step on the longest prompt, and returns the folder of the result.
std::string train_one_step(const Json& vectors, const ModelConfig& model, double rate,
                           const std::string& folder) {
  const Json& ids = vectors.at("prompts").back();
  write_file_durably(folder + "/rows.jsonl",
                     Json{{"input_ids", ids}, {"labels", ids}}.dump() + "\n");
  const Json rows{{"path", folder + "/rows.jsonl"}, {"format", "tokens"}};
  Json job{{"version", 1},
           {"name", "step"},
           {"output_dir", folder},
           {"model", {{"path", model.path}}},
           {"adapter", {{"type", "none"}}},
           {"objective", {{"type", "sft"}, {"train_on", "all"}}},
           {"data", {{"train", Json::array({rows})}, {"packing", false}}},
           {"train",
            {{"max_steps", 1},
             {"global_batch_size", 1},
             {"precision", "fp32"},
             {"max_grad_norm", 0}}},
           {"optimizer",
            {{"type", "sgd"}, {"learning_rate", rate}, {"momentum", 0}, {"weight_decay", 0}}},
           {"schedule", {{"type", "constant"}}},
           {"hardware", {{"device", "cpu"}}}};
  if (model.family) job["model"]["family"] = *model.family;
  write_file_durably(folder + "/step.json", job.dump(1));
  const std::optional<Arguments> run =
      parse_arguments(run_command::kCommand, {folder + "/step.json", "--quiet"});
  if (const int code = run_command::kCommand.run(*run); code != 0)
    throw Error(ErrorKind::environment,
                "one step of training ended with code " + std::to_string(code));
  return folder + "/step/model";
}

// Returns the largest difference of a parameter's gradient, relative to its norm.
double gradient_error(const Json& want, const std::vector<float>& before,
                      const std::vector<float>& after, double rate) {
  std::vector<float> gradient(before.size());
  for (size_t i = 0; i < before.size(); ++i)
    gradient[i] = static_cast<float>((static_cast<double>(before[i]) - after[i]) / rate);
  const double norm = want.at("norm"), scale = std::max(norm, 1e-30);
  double most = std::fabs(norm_of(gradient) - norm) / scale;
  for (size_t i = 0; i < want.at("at").size(); ++i) {
    const auto at = want["at"][i].get<size_t>();
    most =
        larger(most, at < gradient.size()
                         ? std::fabs(gradient[at] - want.at("values").at(i).get<double>()) / scale
                         : NAN);
  }
  return most;
}

// Compares gradients and the names of parameters.
void compare_gradients(const Json& vectors, const ModelConfig& model, const ModelSpec& spec,
                       std::vector<VectorRow>& rows) {
  const ScratchFolder scratch;
  const std::unique_ptr<TensorFile> before = open_weights(spec, model.path);
  const double rate = rate_of(vectors, *before);
  const std::unique_ptr<TensorFile> after =
      open_weights(spec, train_one_step(vectors, model, rate, scratch.path()));
  VectorRow gradients{"gradients", 0, kGradients, ""};
  size_t compared = 0;
  std::vector<std::string> elsewhere;
  for (const auto& [name, want] : vectors.at("gradients").items()) {
    const std::vector<float> first = read_tensor(*before, name), second = read_tensor(*after, name);
    if (first.empty() || second.size() != first.size()) {
      elsewhere.push_back(name);
      continue;
    }
    ++compared;
    const double error = gradient_error(want, first, second, rate);
    if (!(error <= gradients.difference))
      gradients.difference = error, gradients.note = "worst: " + name;
  }
  gradients.note = std::to_string(compared) + " parameters" +
                   (gradients.note.empty() ? "" : ", " + gradients.note);
  rows.push_back(gradients);
  rows.push_back({"names of parameters", static_cast<double>(elsewhere.size()), 0,
                  elsewhere.empty() ? "all of transformers' are in the model"
                                    : "not in the model: " + elsewhere[0]});
}

}  // namespace

Json read_vectors(const std::string& path, const ModelSpec& spec) {
  Json vectors = parse_json(read_file(path, kLargestVectors, ErrorKind::environment), path,
                            ErrorKind::environment);
  const auto broken = [&](const std::string& what) {
    return Error(ErrorKind::environment, path + ": " + what)
        .hint("scripts/family_vectors.py MODEL " + path + " writes it");
  };
  if (!vectors.is_object() || vectors.value("form", Json()) != 1)
    throw broken("is no file of vectors of form 1");
  for (const char* key : {"prompts", "logits", "greedy"})
    if (!vectors.contains(key) || !vectors[key].is_array() || vectors[key].empty())
      throw broken(std::string("has no list ") + key);
  if (!vectors.contains("gradients") || !vectors["gradients"].is_object())
    throw broken("has no gradients");
  if (!vectors.contains("stride") || !vectors["stride"].is_number_integer() ||
      vectors["stride"] < 1)
    throw broken("has no stride");
  if (vectors.value("model_type", "") != spec.family)
    throw broken("is of a " + vectors.value("model_type", "model without a type") +
                 ", and the model is a " + spec.family);
  return vectors;
}

std::vector<VectorRow> compare_vectors(const Json& vectors, const ModelConfig& model,
                                       const ModelSpec& spec, const Arguments& args,
                                       Progress& progress) {
  ModelChoice choice{.model = model.path, .text = model.path, .family = model.family};
  choice.device = Device{};
  choice.device->cpu = probe_hardware().cpu;
  std::vector<VectorRow> rows;
  try {
    rows.push_back(compare_logits(vectors, choice, args, progress));
    rows.push_back(compare_text(vectors, choice, args, progress));
    compare_gradients(vectors, model, spec, rows);
  } catch (const Json::exception& error) {
    throw Error(ErrorKind::environment,
                std::string("the file of vectors is damaged: ") + error.what());
  }
  return rows;
}

}  // namespace forge
