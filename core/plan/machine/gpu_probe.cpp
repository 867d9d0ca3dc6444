// Finds NVIDIA GPUs through the driver's own libraries, loaded if they are there: libcuda.so.1
// lists the devices that CUDA would use (CUDA_VISIBLE_DEVICES included), libnvidia-ml.so.1 adds
// free memory and the driver's version without creating a context. Prototypes: CUDA driver API and
// NVML reference manuals.
#include <dlfcn.h>

#include <array>

#include "core/lib/base/format.h"
#include "core/plan/machine/hardware.h"

namespace forge {
namespace {

class Library {
 public:
  explicit Library(const char* name) : handle_(dlopen(name, RTLD_NOW | RTLD_LOCAL)) {}
  // The library is never closed: the driver has its own threads and exit handlers.
  explicit operator bool() const { return handle_ != nullptr; }
  template <class Function>
  bool load(Function& function, const char* name) const {
    function = reinterpret_cast<Function>(dlsym(handle_, name));
    return function != nullptr;
  }

 private:
  void* handle_;
};

struct Cuda {
  int (*init)(unsigned);
  int (*driver_version)(int*);
  int (*count)(int*);
  int (*get)(int*, int);
  int (*name)(char*, int, int);
  int (*attribute)(int*, int, int);
  int (*total_memory)(size_t*, int);
  int (*pci)(char*, int, int);
  int (*uuid)(std::array<unsigned char, 16>*, int);
};

bool load(const Library& library, Cuda& cuda) {
  return library.load(cuda.init, "cuInit") && library.load(cuda.driver_version, "cuDriverGetVersion") &&
         library.load(cuda.count, "cuDeviceGetCount") && library.load(cuda.get, "cuDeviceGet") &&
         library.load(cuda.name, "cuDeviceGetName") && library.load(cuda.attribute, "cuDeviceGetAttribute") &&
         library.load(cuda.total_memory, "cuDeviceTotalMem_v2") &&
         library.load(cuda.pci, "cuDeviceGetPCIBusId") && library.load(cuda.uuid, "cuDeviceGetUuid");
}

constexpr int kNoDevice = 100;                         // CUDA_ERROR_NO_DEVICE
constexpr int kComputeMajor = 75, kComputeMinor = 76;  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_*
constexpr int kMultiprocessors = 16;                   // CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT

// Returns "GPU-8a3c…" as nvidia-smi prints it.
std::string uuid_text(const std::array<unsigned char, 16>& bytes) {
  std::string text = "GPU-";
  for (size_t i = 0; i < bytes.size(); ++i) {
    text += fmt::format("{:02x}", bytes[i]);
    if (i == 3 || i == 5 || i == 7 || i == 9) text += '-';
  }
  return text;
}

bool describe(const Cuda& cuda, int index, GpuInfo& gpu) {
  int device = 0, major = 0, minor = 0, multiprocessors = 0;
  size_t total = 0;
  char name[128] = "", pci[32] = "";
  std::array<unsigned char, 16> uuid{};
  if (cuda.get(&device, index) != 0 || cuda.name(name, sizeof(name), device) != 0 ||
      cuda.attribute(&major, kComputeMajor, device) != 0 ||
      cuda.attribute(&minor, kComputeMinor, device) != 0 || cuda.total_memory(&total, device) != 0)
    return false;
  gpu.name = name;
  gpu.compute_capability = major * 10 + minor;
  gpu.memory_bytes = gpu.free_bytes = static_cast<int64_t>(total);
  if (cuda.attribute(&multiprocessors, kMultiprocessors, device) == 0) gpu.multiprocessors = multiprocessors;
  if (cuda.pci(pci, sizeof(pci), device) == 0) gpu.pci = pci;
  if (cuda.uuid(&uuid, device) == 0) gpu.uuid = uuid_text(uuid);
  return true;
}

struct NvmlMemory {
  unsigned long long total, free, used;
};

void add_free_memory(std::vector<GpuInfo>& gpus) {
  const Library library("libnvidia-ml.so.1");
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*driver)(char*, unsigned) = nullptr;
  int (*handle)(const char*, void**) = nullptr;
  int (*memory)(void*, NvmlMemory*) = nullptr;
  if (!library || !library.load(init, "nvmlInit_v2") || !library.load(shutdown, "nvmlShutdown") ||
      !library.load(driver, "nvmlSystemGetDriverVersion") ||
      !library.load(handle, "nvmlDeviceGetHandleByPciBusId_v2") ||
      !library.load(memory, "nvmlDeviceGetMemoryInfo") || init() != 0)
    return;
  char version[96] = "";
  if (driver(version, sizeof(version)) != 0) version[0] = '\0';
  for (GpuInfo& gpu : gpus) {
    gpu.driver = version;
    void* device = nullptr;
    NvmlMemory bytes{};
    if (handle(gpu.pci.c_str(), &device) == 0 && memory(device, &bytes) == 0 && bytes.free > 0)
      gpu.free_bytes = std::min(gpu.memory_bytes, static_cast<int64_t>(bytes.free));
  }
  shutdown();
}

// Returns why cuInit failed, by the driver's cuda.h, and a remedy if one is known.
std::string init_text(int code) {
  const std::string text =
      "the NVIDIA driver finds no usable device (cuInit returned " + std::to_string(code);
  switch (code) {
    case kNoDevice:
      return text + ": no device)";
    case 802:
      return text + ": the system is not ready; start nvidia-fabricmanager)";
    case 803:
      return text +
             ": its library and its kernel module are of different versions; restart the machine)";
    default:
      return text + "; nvidia-smi may say why)";
  }
}

}  // namespace

void probe_gpus(Hardware& hardware) {
  const auto none = [&](std::string why, bool fault) {
    hardware.gpu_note = std::move(why);
    hardware.gpu_fault = fault;
  };
  const Library library("libcuda.so.1");
  if (!library) return none("no NVIDIA driver (libcuda.so.1 is not installed)", false);
  Cuda cuda{};
  if (!load(library, cuda))
    return none("the NVIDIA driver is too old (libcuda.so.1 lacks a function)", true);
  if (const int code = cuda.init(0); code != 0) return none(init_text(code), code != kNoDevice);
  int count = 0, version = 0;
  if (cuda.count(&count) != 0 || count == 0)
    return none("the NVIDIA driver lists no device", false);
  if (cuda.driver_version(&version) != 0) version = 0;
  for (int index = 0; index < count; ++index) {
    GpuInfo gpu;
    if (!describe(cuda, index, gpu)) continue;
    gpu.cuda_version = version;
    hardware.gpus.push_back(std::move(gpu));
  }
  add_free_memory(hardware.gpus);
}

}  // namespace forge
