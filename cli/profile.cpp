// forge profile: shows the machine, and the settings chosen for it.
#include "cli/command.h"
#include "cli/console.h"
#include "core/job/names.h"
#include "core/plan/explain.h"

namespace forge::profile_command {
namespace {

constexpr Option kOptions[] = {
    {"--gpu", "NAME",
     "auto, an index, cpu, or any card by name (\"RTX 2080 Ti\"), installed or not"},
    {"--profile", "NAME", "use this profile instead of the matching one"},
};

template <class T>
Json choice(const T& value, const std::string& reason) {
  return {{"value", value}, {"reason", reason}};
}

Json describe(const Device& device, const Profile& profile) {
  Json json{{"profile", profile.name}, {"title", profile.title}, {"rule", profile.rule}};
  json["device"] = device.cuda ? Json(device.gpu) : Json(device.cpu);
  json["choices"] = {
      {"precision", choice(name_of(profile.precision.value), profile.precision.reason)},
      {"storage", choice(name_of(profile.storage.value), profile.storage.reason)},
      {"loss_scaling", choice(profile.loss_scaling.value, profile.loss_scaling.reason)},
      {"residual", choice(name_of(profile.residual.value), profile.residual.reason)},
      {"attention", choice(profile.attention.value, profile.attention.reason)},
      {"engine", choice(profile.engine.value, profile.engine.reason)},
      {"micro_batch_tokens", choice(profile.micro_batch_tokens.value, profile.micro_batch_tokens.reason)},
      {"reserve_bytes", choice(profile.reserve_bytes.value, profile.reserve_bytes.reason)}};
  return json;
}

int run(const Arguments& args) {
  Device device = device_by_name(probe_hardware(), args.text("--gpu").value_or("auto"));
  HardwareConfig config;
  config.profile = args.text("--profile").value_or("auto");
  Profile profile = pick_profile(device, config);
  if (args.json())
    print(describe(device, profile).dump(2) + "\n");
  else
    print(explain_profile(device, profile));
  return 0;
}

}  // namespace

constexpr Command kCommand{
    "profile", "", 0, 0,
    "show the machine and its hardware profile, with the rule for each choice",
    kOptions, run};

}  // namespace forge::profile_command
