#include "core/plan/machine/device.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "core/lib/base/key_error.h"
#include "core/lib/base/text.h"
#include "core/plan/machine/gpu_database.h"

namespace forge {
namespace {

Device cpu_device(const Hardware& hardware) { return {.cpu = hardware.cpu}; }

Device gpu_device(const Hardware& hardware, size_t index) {
  return {.cuda = true, .index = static_cast<int64_t>(index), .cpu = hardware.cpu, .gpu = hardware.gpus[index]};
}

// Returns a card of the database as if it were in this machine.
Device planned_card(const Hardware& hardware, const GpuCard& card) {
  return {.cuda = true, .cpu = hardware.cpu, .gpu = gpu_info(card)};
}

// Returns the indices of the GPUs, most free memory first.
std::vector<size_t> by_free_memory(const std::vector<GpuInfo>& gpus) {
  std::vector<size_t> order(gpus.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::greater(), [&](size_t index) { return gpus[index].free_bytes; });
  return order;
}

std::string idle_text(const Hardware& hardware, size_t used) {
  const size_t count = hardware.gpus.size();
  if (count < 2) return "";
  return std::to_string(count) + " GPUs are here and forge uses one, cuda:" + std::to_string(used) +
         " (" + hardware.gpus[used].name +
         "); the others stay idle (hardware.device: cuda:N gives each its own job)";
}

// Returns a card of that name in this machine, else from the database: then it can only be planned
// for.
Device named_card(const Hardware& hardware, const std::string& name) {
  const GpuCard& card = find_gpu(name);
  for (size_t i = 0; i < hardware.gpus.size(); ++i)
    if (gpu_card_of(hardware.gpus[i]) == &card) return gpu_device(hardware, i);
  return planned_card(hardware, card);
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

std::string text_of(const CardFault& fault) {
  return fault.remedy.empty() ? fault.what : fault.what + "; " + fault.remedy;
}

// The choice of a device by the user's setting.
struct Choosing {
  const Hardware& hardware;
  const std::string& asked;
  const JudgeCard& judge;
  const std::string& key;

  // Returns "hardware.device: cpu", or "--device cpu".
  std::string setting(const char* value) const {
    return key + (starts_with(key, "--") ? " " : ": ") + value;
  }

  CardFault fault_of(const Device& device) const {
    return judge && device.gpu.probed ? judge(device) : CardFault();
  }

  [[noreturn]] void refuse(const Device& device, const CardFault& fault) const {
    throw KeyError(ErrorKind::environment, key, asked + ": " + device.gpu.name + ": " + fault.what,
                   fault.remedy + (fault.remedy.empty() ? "" : "; or ") + setting("cpu"));
  }

  // Chooses for auto and cuda: the GPU with the most free memory that has no fault.
  DeviceChoice emptiest() const {
    std::optional<std::pair<Device, CardFault>> first;
    for (const size_t index : by_free_memory(hardware.gpus)) {
      const Device device = gpu_device(hardware, index);
      const CardFault fault = fault_of(device);
      if (!fault) return {device, "", idle_text(hardware, index)};
      if (!first) first = {device, fault};
    }
    if (asked == "cuda" && first) refuse(first->first, first->second);
    if (asked == "cuda")
      throw KeyError(ErrorKind::environment, key, "cuda: no GPU here: " + hardware.gpu_note,
                     setting("auto") + " uses the CPU if there is no GPU");
    if (first)
      return {cpu_device(hardware),
              "the CPU computes, not the " + first->first.gpu.name + ": " + text_of(first->second),
              ""};
    return {cpu_device(hardware),
            hardware.gpu_fault ? "the CPU computes: " + hardware.gpu_note : "", ""};
  }

  // Chooses for cuda:N, or cuda:NAME.
  Device stated() const {
    const std::string number = starts_with(asked, "cuda:") ? asked.substr(5) : "";
    if (number.empty())
      throw KeyError(ErrorKind::job, key, asked + ": expected auto, cpu, cuda or cuda:N");
    const Device device = whole_number(number)
                              ? indexed(hardware, number, key, asked, ErrorKind::environment)
                              : named(number);
    if (const CardFault fault = fault_of(device)) refuse(device, fault);
    return device;
  }

 private:
  Device named(const std::string& name) const {
    try {
      return named_card(hardware, name);
    } catch (const Error& error) {
      throw KeyError(ErrorKind::job, key, error.what());
    }
  }
};

}  // namespace

DeviceChoice choose_device(const Hardware& hardware, const HardwareConfig& config,
                           const JudgeCard& judge, const std::string& key) {
  const Choosing choosing{hardware, config.device, judge, key};
  if (config.device == "cpu") return {cpu_device(hardware), "", ""};
  if (config.device == "auto" || config.device == "cuda") return choosing.emptiest();
  return {choosing.stated(), "", ""};
}

Device device_by_name(const Hardware& hardware, const std::string& name) {
  if (name == "auto" || name == "cpu" || name == "cuda" || starts_with(name, "cuda:"))
    return choose_device(hardware, {.device = name}).device;
  // Numbers larger than any index are names of cards: 4090 is a card.
  constexpr unsigned long kFirstCardNumber = 100;
  if (whole_number(name) && std::stoul(name) < kFirstCardNumber)
    return indexed(hardware, name, "", "--gpu " + name, ErrorKind::usage);
  return planned_card(hardware, find_gpu(name));
}

}  // namespace forge
