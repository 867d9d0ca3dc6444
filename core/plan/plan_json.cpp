// plan.json: an exact round trip, in the order in which a reader wants it.
#include "core/config/job_json.h"
#include "core/config/names.h"
#include "core/plan/plan.h"

namespace forge {
namespace {

constexpr int64_t kVersion = 1;

Json to_json(const Device& device) {
  Json json{{"cuda", device.cuda}, {"index", device.index}, {"cpu", to_json(device.cpu)}};
  if (device.cuda) json["gpu"] = to_json(device.gpu);
  return json;
}

Device device_from_json(const Json& json) {
  Device device;
  json.at("cuda").get_to(device.cuda);
  json.at("index").get_to(device.index);
  device.cpu = cpu_info_from_json(json.at("cpu"));
  if (device.cuda) device.gpu = gpu_info_from_json(json.at("gpu"));
  return device;
}

Json to_json(const Origins& origins) {
  Json json = Json::object();
  for (const auto& [key, origin] : origins)
    json[key] = Json{{"source", origin.source}, {"reason", origin.reason}};
  return json;
}

Origins origins_from_json(const Json& json) {
  Origins origins;
  for (const auto& [key, origin] : json.items())
    origins[key] = {origin.at("source").get<std::string>(), origin.at("reason").get<std::string>()};
  return origins;
}

Json to_json(const std::vector<MemoryLine>& lines) {
  Json json = Json::array();
  for (const MemoryLine& line : lines)
    json.push_back(Json{{"name", line.name}, {"bytes", line.bytes}, {"formula", line.formula}});
  return json;
}

Json to_json(const std::vector<TargetMatch>& targets) {
  Json json = Json::array();
  for (const TargetMatch& match : targets)
    json.push_back(Json{{"target", match.target}, {"modules", match.modules}});
  return json;
}

Json to_json(const std::map<std::string, std::string>& values) {
  Json json = Json::object();
  for (const auto& [key, value] : values) json[key] = value;
  return json;
}

std::map<std::string, std::string> texts_from_json(const Json& json) {
  std::map<std::string, std::string> values;
  for (const auto& [key, value] : json.items()) values[key] = value.get<std::string>();
  return values;
}

void read_memory(const Json& json, Plan& plan) {
  json.at("predicted_peak_bytes").get_to(plan.predicted_peak_bytes);
  json.at("available_bytes").get_to(plan.available_bytes);
  for (const Json& line : json.at("lines"))
    plan.memory.push_back({line.at("name").get<std::string>(), line.at("bytes").get<int64_t>(),
                           line.at("formula").get<std::string>()});
}

Plan read_plan(const Json& json, const std::string& name) {
  Plan plan;
  plan.job = job_from_json(json.at("job"), name);
  plan.origins = origins_from_json(json.at("origins"));
  plan.device = device_from_json(json.at("device"));
  json.at("profile").get_to(plan.profile);
  json.at("profile_rule").get_to(plan.profile_rule);
  json.at("engine").get_to(plan.engine);
  json.at("provider").get_to(plan.provider);
  plan.storage = enum_of<Precision>(json.at("storage").get<std::string>()).value();
  json.at("attention").get_to(plan.attention);
  json.at("loss_scaling").get_to(plan.loss_scaling);
  plan.model = model_spec_from_json(json.at("model"));
  json.at("model_hash").get_to(plan.model_hash);
  json.at("model_bytes").get_to(plan.model_bytes);
  plan.train = data_summary_from_json(json.at("data").at("train"));
  plan.eval = data_summary_from_json(json.at("data").at("eval"));
  json.at("parameters").at("total").get_to(plan.parameters.total);
  json.at("parameters").at("trainable").get_to(plan.parameters.trainable);
  for (const Json& match : json.at("targets"))
    plan.targets.push_back({match.at("target").get<std::string>(), match.at("modules").get<int64_t>()});
  read_memory(json.at("memory"), plan);
  json.at("steps").get_to(plan.steps);
  json.at("steps_per_epoch").get_to(plan.steps_per_epoch);
  json.at("disk").at("checkpoint_bytes").get_to(plan.checkpoint_bytes);
  json.at("disk").at("bytes").get_to(plan.disk_bytes);
  plan.identity = texts_from_json(json.at("identity"));
  plan.execution = texts_from_json(json.at("execution"));
  json.at("warnings").get_to(plan.warnings);
  return plan;
}

}  // namespace

Json to_json(const Plan& plan) {
  return Json{{"version", kVersion},
              {"profile", plan.profile},
              {"profile_rule", plan.profile_rule},
              {"engine", plan.engine},
              {"provider", plan.provider},
              {"parameters", {{"total", plan.parameters.total}, {"trainable", plan.parameters.trainable}}},
              {"steps", plan.steps},
              {"steps_per_epoch", plan.steps_per_epoch},
              {"memory",
               {{"predicted_peak_bytes", plan.predicted_peak_bytes},
                {"available_bytes", plan.available_bytes},
                {"lines", to_json(plan.memory)}}},
              {"disk", {{"checkpoint_bytes", plan.checkpoint_bytes}, {"bytes", plan.disk_bytes}}},
              {"storage", name_of(plan.storage)},
              {"attention", plan.attention},
              {"loss_scaling", plan.loss_scaling},
              {"targets", to_json(plan.targets)},
              {"device", to_json(plan.device)},
              {"model", to_json(plan.model)},
              {"model_hash", plan.model_hash},
              {"model_bytes", plan.model_bytes},
              {"data", {{"train", to_json(plan.train)}, {"eval", to_json(plan.eval)}}},
              {"job", to_json(plan.job)},
              {"origins", to_json(plan.origins)},
              {"identity", to_json(plan.identity)},
              {"execution", to_json(plan.execution)},
              {"warnings", plan.warnings}};
}

Plan plan_from_json(const Json& json, const std::string& name) {
  const auto refuse = [&](const std::string& what) -> Error {
    return Error(ErrorKind::environment, name + ": not a plan of this forge: " + what)
        .hint("--fresh starts the run anew");
  };
  if (!json.is_object() || json.value("version", Json()) != kVersion)
    throw refuse("expected version " + std::to_string(kVersion));
  try {
    return read_plan(json, name);
  } catch (const nlohmann::json::exception& fault) {
    throw refuse(fault.what());
  } catch (const std::bad_optional_access&) {
    throw refuse("storage is no precision");
  }
}

}  // namespace forge
