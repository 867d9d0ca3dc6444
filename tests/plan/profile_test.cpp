#include "core/plan/machine/profile.h"

#include "core/plan/explain.h"
#include "core/plan/machine/gpu_database.h"
#include "tests/test.h"

namespace forge {
namespace {

Device card(const std::string& name) { return device_by_name(Hardware(), name); }

Device cpu_with(std::vector<std::string> isa) {
  Device device;
  device.cpu.name = "cpu";
  device.cpu.isa = std::move(isa);
  return device;
}

}  // namespace

TEST_CASE("each card gets the profile of its generation") {
  const std::pair<const char*, const char*> rows[] = {
      {"GTX 1080 Ti", "pascal"}, {"P100", "pascal"},
      {"V100", "volta"},         {"GTX 1660 Ti", "turing_no_tensor_cores"},
      {"RTX 2080 Ti", "turing"}, {"T4", "turing"},
      {"A100", "ampere"},        {"RTX 3090", "ampere"},
      {"RTX 4070", "ada"},       {"L40S", "ada"},
      {"H100", "hopper"},        {"H200", "hopper"},
      {"B200", "blackwell"},     {"RTX 5090", "blackwell"}};
  for (const auto& [name, profile] : rows) {
    INFO(name);
    CHECK(pick_profile(card(name), {}).name == profile);
  }
  // Every card of the database has a profile, of its own architecture.
  for (const GpuCard& gpu : gpu_cards())
    CHECK(pick_profile(card(gpu.name), {}).name.find(gpu.architecture) == 0);
}

TEST_CASE("precision, attention and engine follow the generation") {
  const auto pick = [](const char* name) { return pick_profile(card(name), {}); };
  CHECK(pick("RTX 4070").precision.value == Precision::bf16);
  CHECK(pick("RTX 2080 Ti").precision.value == Precision::fp16);
  CHECK(pick("RTX 2080 Ti").loss_scaling.value == "dynamic");
  CHECK(pick("RTX 2080 Ti").residual.value == Residual::fp32);
  CHECK(pick("RTX 2080 Ti").attention.value == "efficient");
  CHECK(pick("GTX 1080 Ti").precision.value == Precision::fp32);
  CHECK(pick("GTX 1080 Ti").storage.value == Precision::fp16);
  CHECK(pick("GTX 1080 Ti").engine.value == kNoEngine);
  CHECK(pick("V100").engine.value == kNoEngine);
  CHECK(pick("V100").residual.value == Residual::fp32);
  CHECK(pick("T4").engine.value == "cuda13");
  CHECK_THAT(pick("GTX 1650").rule, Catch::Contains("compute capability 7.5, its name contains \"GTX 16\""));
}

TEST_CASE("a processor takes bf16 only where it multiplies it") {
  CHECK(pick_profile(cpu_with({"avx2"}), {}).precision.value == Precision::fp32);
  CHECK(pick_profile(cpu_with({"avx2", "avx512_bf16"}), {}).precision.value == Precision::fp32);
  CHECK(pick_profile(cpu_with({"avx2", "avx512_bf16", "fast_avx512_bf16"}), {}).precision.value == Precision::bf16);
  CHECK(pick_profile(cpu_with({"amx_bf16"}), {}).rule == "the device is the CPU, it has amx_bf16");
}

TEST_CASE("a profile can be named, within its kind of device") {
  HardwareConfig config;
  config.profile = "ampere";
  CHECK(pick_profile(card("RTX 4070"), config).rule == "hardware.profile names it");
  CHECK_THAT(error_of([&] { pick_profile(cpu_with({}), config); }), Catch::Contains("ampere is for GPUs"));
  config.profile = "hoper";
  CHECK_THAT(error_of([&] { pick_profile(card("H100"), config); }),
             Catch::Contains("unknown profile \"hoper\" (did you mean \"hopper\"?)"));
  Device kepler = card("P100");
  kepler.gpu.compute_capability = 35;
  CHECK_THAT(error_of([&] { pick_profile(kepler, {}); }),
             Catch::Contains("compute capability 3.5, forge needs Pascal"));
}

TEST_CASE("a profile file is checked strictly, all faults at once") {
  const std::string text(embedded_profiles()[0].text);
  CHECK(error_of([&] { parse_profile(text, "p.yaml"); }) == "no error");
  std::string broken = text;
  broken.replace(broken.find("precision:"), 10, "precission:");
  broken.replace(broken.find("value: tiles"), 12, "value: fast!");
  broken.replace(broken.find("value: compute"), 14, "value: fp64");
  const std::string faults = error_of([&] { parse_profile(broken, "p.yaml"); });
  CHECK_THAT(faults, Catch::Contains("precision: is missing"));
  CHECK_THAT(faults, Catch::Contains("p.yaml:4:1: precission: unknown key"));
  CHECK_THAT(faults, Catch::Contains("residual.value: \"fp64\" is not one of compute, fp32"));
  CHECK_THAT(faults, Catch::Contains("attention.value: \"fast!\" is not one of tiles, efficient, flash"));
}

TEST_CASE("a profile is explained with its rule and reasons") {
  const Device device = card("RTX 2080 Ti");
  const std::string text = explain_profile(device, pick_profile(device, {}));
  CHECK_THAT(text, Catch::Contains("profile turing"));
  CHECK_THAT(text, Catch::Contains("(not in this machine)"));
  CHECK_THAT(text, Catch::Contains("Turing's tensor cores multiply fp16; it has no bf16"));
}

}  // namespace forge
