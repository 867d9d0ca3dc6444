#include "core/plan/machine/device.h"

#include <algorithm>

#include "core/base/key_error.h"
#include "core/base/text.h"
#include "core/plan/machine/gpu_database.h"

namespace forge {
namespace {

Device cpu_device(const Hardware& hardware) {
  Device device;
  device.cpu = hardware.cpu;
  return device;
}

Device gpu_device(const Hardware& hardware, size_t index) {
  Device device = cpu_device(hardware);
  device.cuda = true;
  device.index = static_cast<int64_t>(index);
  device.gpu = hardware.gpus[index];
  return device;
}

size_t most_free(const std::vector<GpuInfo>& gpus) {
  const auto best = std::max_element(gpus.begin(), gpus.end(), [](const GpuInfo& a, const GpuInfo& b) {
    return a.free_bytes < b.free_bytes;
  });
  return static_cast<size_t>(best - gpus.begin());
}

// A card of that name in this machine, else from the database: then it can only be planned for.
Device named_card(const Hardware& hardware, const std::string& name) {
  const GpuCard& card = find_gpu(name);
  for (size_t i = 0; i < hardware.gpus.size(); ++i)
    if (gpu_card_of(hardware.gpus[i]) == &card) return gpu_device(hardware, i);
  Device device = cpu_device(hardware);
  device.cuda = true;
  device.gpu = gpu_info(card);
  return device;
}

bool whole_number(const std::string& text) {
  return !text.empty() && text.size() < 6 && text.find_first_not_of("0123456789") == std::string::npos;
}

Device indexed(const Hardware& hardware, const std::string& number, const std::string& key,
               const std::string& asked, ErrorKind kind) {
  const size_t index = std::stoul(number);
  if (index < hardware.gpus.size()) return gpu_device(hardware, index);
  const std::string there = hardware.gpus.empty()
                                ? "there is no GPU: " + hardware.gpu_note
                                : "GPUs are 0 to " + std::to_string(hardware.gpus.size() - 1);
  throw KeyError(kind, key, asked + ": no such device, " + there);
}

}  // namespace

Device choose_device(const Hardware& hardware, const HardwareConfig& config) {
  const std::string key = "hardware.device";
  if (config.device == "cpu") return cpu_device(hardware);
  if (config.device == "auto")
    return hardware.gpus.empty() ? cpu_device(hardware) : gpu_device(hardware, most_free(hardware.gpus));
  if (config.device == "cuda") {
    if (!hardware.gpus.empty()) return gpu_device(hardware, most_free(hardware.gpus));
    throw KeyError(ErrorKind::environment, key, "cuda: no GPU here: " + hardware.gpu_note,
                   "hardware.device: auto uses the CPU where there is no GPU");
  }
  const std::string number = starts_with(config.device, "cuda:") ? config.device.substr(5) : "";
  if (!number.empty() && !whole_number(number)) {
    try {
      return named_card(hardware, number);
    } catch (const Error& error) {
      throw KeyError(ErrorKind::job, key, error.what());
    }
  }
  if (!whole_number(number))
    throw KeyError(ErrorKind::job, key, config.device + ": expected auto, cpu, cuda or cuda:N");
  return indexed(hardware, number, key, config.device, ErrorKind::environment);
}

Device device_by_name(const Hardware& hardware, const std::string& name) {
  if (name == "auto" || name == "cpu" || name == "cuda" || starts_with(name, "cuda:")) {
    HardwareConfig config;
    config.device = name;
    return choose_device(hardware, config);
  }
  // Numbers larger than any index are card names: 4090 is a card.
  constexpr unsigned long kFirstCardNumber = 100;
  if (whole_number(name) && std::stoul(name) < kFirstCardNumber)
    return indexed(hardware, name, "", "--gpu " + name, ErrorKind::usage);
  Device device = cpu_device(hardware);
  device.cuda = true;
  device.gpu = gpu_info(find_gpu(name));
  return device;
}

}  // namespace forge
