#include "core/plan/machine/gpu_database.h"

#include <cctype>

#include "core/lib/base/text.h"

namespace forge {
namespace {

// Returns "rtx2080ti" for "NVIDIA GeForce RTX 2080 Ti".
std::string key_of(const std::string& name) {
  std::string text = lower(name);
  for (const char* word : {"nvidia", "geforce", "tesla", "graphics", "quadro "}) {
    const size_t at = text.find(word);
    if (at != std::string::npos) text.erase(at, std::string(word).size());
  }
  std::string key;
  for (char c : text)
    if (std::isalnum(static_cast<unsigned char>(c))) key += c;
  // "24gib" and "24gb" are the same card.
  if (ends_with(key, "gib")) key.replace(key.size() - 3, 3, "gb");
  return key;
}

const GpuCard* find_key(const std::string& key) {
  for (const GpuCard& card : gpu_cards()) {
    if (key_of(card.name) == key) return &card;
    for (const std::string& alias : split(card.aliases, '|'))
      if (!alias.empty() && key_of(alias) == key) return &card;
  }
  return nullptr;
}

constexpr double kGib = 1024.0 * 1024 * 1024;

}  // namespace

// Values of the vendor's data sheets. Consumer cards: dense tensor rate with fp32 accumulation
// (half of the fp16-accumulation rate that Turing, Ampere, Ada and Blackwell GeForce are advertised
// with).
const std::vector<GpuCard>& gpu_cards() {
  static const std::vector<GpuCard> cards{
      // name, aliases, architecture, cc, multiprocessors, GiB, GB/s, bf16, fp16, fp32
      {"P100", "P100 16GB|P100-PCIE-16GB|P100-SXM2-16GB", "pascal", 60, 56, 16, 732, 0, 21.2, 10.6},
      {"P100 12GB", "P100-PCIE-12GB", "pascal", 60, 56, 12, 549, 0, 18.7, 9.3},
      {"P40", "", "pascal", 61, 30, 24, 347, 0, 0, 11.8},
      {"P4", "", "pascal", 61, 20, 8, 192, 0, 0, 5.5},
      {"GTX 1050 Ti", "", "pascal", 61, 6, 4, 112, 0, 0, 2.1},
      {"GTX 1060", "GTX 1060 6GB", "pascal", 61, 10, 6, 192, 0, 0, 4.4},
      {"GTX 1070", "", "pascal", 61, 15, 8, 256, 0, 0, 6.5},
      {"GTX 1070 Ti", "", "pascal", 61, 19, 8, 256, 0, 0, 8.2},
      {"GTX 1080", "", "pascal", 61, 20, 8, 320, 0, 0, 8.9},
      {"GTX 1080 Ti", "", "pascal", 61, 28, 11, 484, 0, 0, 11.3},
      {"TITAN Xp", "TITAN X Pascal", "pascal", 61, 30, 12, 548, 0, 0, 12.1},
      {"V100", "V100 16GB|V100-SXM2-16GB|V100-PCIE-16GB", "volta", 70, 80, 16, 900, 0, 125, 15.7},
      {"V100 32GB", "V100-SXM2-32GB|V100-SXM3-32GB|V100-PCIE-32GB|V100S-PCIE-32GB", "volta", 70, 80, 32, 900, 0,
       125, 15.7},
      {"TITAN V", "", "volta", 70, 80, 12, 653, 0, 110, 14.9},
      {"GTX 1650", "", "turing", 75, 14, 4, 128, 0, 6.0, 3.0},
      {"GTX 1650 Super", "GTX 1650S", "turing", 75, 20, 4, 192, 0, 8.8, 4.4},
      {"GTX 1660", "", "turing", 75, 22, 6, 192, 0, 10.0, 5.0},
      {"GTX 1660 Super", "GTX 1660S", "turing", 75, 22, 6, 336, 0, 10.0, 5.0},
      {"GTX 1660 Ti", "", "turing", 75, 24, 6, 288, 0, 11.0, 5.4},
      {"RTX 2060", "", "turing", 75, 30, 6, 336, 0, 25.8, 6.5},
      {"RTX 2060 12GB", "", "turing", 75, 34, 12, 336, 0, 28.7, 7.2},
      {"RTX 2060 Super", "RTX 2060S", "turing", 75, 34, 8, 448, 0, 28.7, 7.2},
      {"RTX 2070", "", "turing", 75, 36, 8, 448, 0, 29.9, 7.5},
      {"RTX 2070 Super", "RTX 2070S", "turing", 75, 40, 8, 448, 0, 36.3, 9.1},
      {"RTX 2080", "", "turing", 75, 46, 8, 448, 0, 40.3, 10.1},
      {"RTX 2080 Super", "RTX 2080S", "turing", 75, 48, 8, 496, 0, 44.6, 11.2},
      {"RTX 2080 Ti", "", "turing", 75, 68, 11, 616, 0, 53.8, 13.4},
      {"TITAN RTX", "", "turing", 75, 72, 24, 672, 0, 130.5, 16.3},
      {"T4", "", "turing", 75, 40, 16, 320, 0, 65, 8.1},
      {"Quadro RTX 5000", "", "turing", 75, 48, 16, 448, 0, 89, 11.2},
      {"Quadro RTX 6000", "", "turing", 75, 72, 24, 672, 0, 130.5, 16.3},
      {"Quadro RTX 8000", "", "turing", 75, 72, 48, 672, 0, 130.5, 16.3},
      {"A100 40GB", "A100|A100-SXM4-40GB|A100-PCIE-40GB", "ampere", 80, 108, 40, 1555, 312, 312, 19.5},
      {"A100 80GB", "A100-SXM4-80GB|A100 80GB PCIe|A100-PCIE-80GB", "ampere", 80, 108, 80, 2039, 312, 312, 19.5},
      {"A30", "", "ampere", 80, 56, 24, 933, 165, 165, 10.3},
      {"A10", "A10G", "ampere", 86, 72, 24, 600, 125, 125, 31.2},
      {"A16", "", "ampere", 86, 10, 16, 200, 18, 18, 4.5},
      {"A2", "", "ampere", 86, 10, 16, 200, 18, 18, 4.5},
      {"A40", "", "ampere", 86, 84, 48, 696, 149.7, 149.7, 37.4},
      {"RTX A2000", "RTX A2000 12GB", "ampere", 86, 26, 12, 288, 32, 32, 8.0},
      {"RTX A4000", "", "ampere", 86, 48, 16, 448, 76.7, 76.7, 19.2},
      {"RTX A5000", "", "ampere", 86, 64, 24, 768, 111, 111, 27.8},
      {"RTX A6000", "", "ampere", 86, 84, 48, 768, 154.8, 154.8, 38.7},
      {"RTX 3050", "RTX 3050 8GB", "ampere", 86, 20, 8, 224, 18.2, 18.2, 9.1},
      {"RTX 3060", "RTX 3060 12GB", "ampere", 86, 28, 12, 360, 25.3, 25.3, 12.7},
      {"RTX 3060 Ti", "", "ampere", 86, 38, 8, 448, 32.4, 32.4, 16.2},
      {"RTX 3070", "", "ampere", 86, 46, 8, 448, 40.6, 40.6, 20.3},
      {"RTX 3070 Ti", "", "ampere", 86, 48, 8, 608, 43.5, 43.5, 21.7},
      {"RTX 3080", "RTX 3080 10GB", "ampere", 86, 68, 10, 760, 59.5, 59.5, 29.8},
      {"RTX 3080 12GB", "", "ampere", 86, 70, 12, 912, 61.3, 61.3, 30.6},
      {"RTX 3080 Ti", "", "ampere", 86, 80, 12, 912, 68.2, 68.2, 34.1},
      {"RTX 3090", "", "ampere", 86, 82, 24, 936, 71.2, 71.2, 35.6},
      {"RTX 3090 Ti", "", "ampere", 86, 84, 24, 1008, 80, 80, 40.0},
      {"Jetson AGX Orin", "Orin|Jetson Orin", "ampere", 87, 16, 64, 205, 42, 42, 5.3},
      {"RTX 4060", "", "ada", 89, 24, 8, 272, 30.2, 30.2, 15.1},
      {"RTX 4060 Ti", "RTX 4060 Ti 8GB", "ada", 89, 34, 8, 288, 44.1, 44.1, 22.1},
      {"RTX 4060 Ti 16GB", "", "ada", 89, 34, 16, 288, 44.1, 44.1, 22.1},
      {"RTX 4070", "", "ada", 89, 46, 12, 504, 58.3, 58.3, 29.1},
      {"RTX 4070 Super", "RTX 4070S", "ada", 89, 56, 12, 504, 71, 71, 35.5},
      {"RTX 4070 Ti", "", "ada", 89, 60, 12, 504, 80.2, 80.2, 40.1},
      {"RTX 4070 Ti Super", "", "ada", 89, 66, 16, 672, 88.2, 88.2, 44.1},
      {"RTX 4080", "", "ada", 89, 76, 16, 717, 97.5, 97.5, 48.7},
      {"RTX 4080 Super", "RTX 4080S", "ada", 89, 80, 16, 736, 104.4, 104.4, 52.2},
      {"RTX 4090", "", "ada", 89, 128, 24, 1008, 165.2, 165.2, 82.6},
      {"RTX 4090 D", "", "ada", 89, 114, 24, 1008, 147, 147, 73.5},
      {"RTX 2000 Ada", "RTX 2000 Ada Generation", "ada", 89, 22, 16, 224, 48, 48, 12.0},
      {"RTX 4000 Ada", "RTX 4000 Ada Generation", "ada", 89, 48, 20, 360, 106.9, 106.9, 26.7},
      {"RTX 5000 Ada", "RTX 5000 Ada Generation", "ada", 89, 100, 32, 576, 261, 261, 65.3},
      {"RTX 6000 Ada", "RTX 6000 Ada Generation|L40G", "ada", 89, 142, 48, 960, 364.2, 364.2, 91.1},
      {"L4", "", "ada", 89, 58, 24, 300, 121, 121, 30.3},
      {"L40", "", "ada", 89, 142, 48, 864, 181, 181, 90.5},
      {"L40S", "", "ada", 89, 142, 48, 864, 362, 362, 91.6},
      {"H100", "H100 80GB|H100 SXM|H100 80GB HBM3|H100 SXM5", "hopper", 90, 132, 80, 3352, 989, 989, 66.9},
      {"H100 PCIe", "H100 80GB PCIe", "hopper", 90, 114, 80, 2039, 756, 756, 51.2},
      {"H100 NVL", "", "hopper", 90, 132, 94, 3938, 835, 835, 60.0},
      {"H200", "H200 SXM|H200 141GB", "hopper", 90, 132, 141, 4800, 989, 989, 66.9},
      {"H200 NVL", "", "hopper", 90, 132, 141, 4800, 835, 835, 60.0},
      {"H20", "H20 96GB", "hopper", 90, 78, 96, 4000, 148, 148, 44.0},
      {"H800", "H800 80GB", "hopper", 90, 132, 80, 3352, 989, 989, 66.9},
      {"GH200", "GH200 96GB|GH200 480GB", "hopper", 90, 132, 96, 4000, 989, 989, 66.9},
      {"B200", "B200 180GB", "blackwell", 100, 148, 180, 8000, 2250, 2250, 75.0},
      {"GB200", "", "blackwell", 100, 152, 186, 8000, 2500, 2500, 80.0},
      {"B300", "GB300|B300 288GB", "blackwell", 103, 148, 270, 8000, 2250, 2250, 75.0},
      {"RTX 5050", "", "blackwell", 120, 20, 8, 320, 26.4, 26.4, 13.2},
      {"RTX 5060", "", "blackwell", 120, 30, 8, 448, 38.4, 38.4, 19.2},
      {"RTX 5060 Ti", "RTX 5060 Ti 8GB", "blackwell", 120, 36, 8, 448, 47.4, 47.4, 23.7},
      {"RTX 5060 Ti 16GB", "", "blackwell", 120, 36, 16, 448, 47.4, 47.4, 23.7},
      {"RTX 5070", "", "blackwell", 120, 48, 12, 672, 61.7, 61.7, 30.9},
      {"RTX 5070 Ti", "", "blackwell", 120, 70, 16, 896, 87.9, 87.9, 43.9},
      {"RTX 5080", "", "blackwell", 120, 84, 16, 960, 112.6, 112.6, 56.3},
      {"RTX 5090", "", "blackwell", 120, 170, 32, 1792, 209.5, 209.5, 104.8},
      {"RTX PRO 6000",
       "RTX PRO 6000 Blackwell|RTX PRO 6000 Blackwell Workstation Edition|RTX PRO 6000 Blackwell Server "
       "Edition",
       "blackwell", 120, 188, 96, 1792, 503.8, 503.8, 126.0},
      {"RTX PRO 5000", "RTX PRO 5000 Blackwell", "blackwell", 120, 110, 48, 1344, 294, 294, 73.7},
      {"RTX PRO 4500", "RTX PRO 4500 Blackwell", "blackwell", 120, 82, 32, 896, 219, 219, 54.9},
      {"RTX PRO 4000", "RTX PRO 4000 Blackwell", "blackwell", 120, 70, 24, 672, 187, 187, 46.9},
      {"GB10", "DGX Spark", "blackwell", 121, 48, 119, 273, 100, 100, 30.0},
      {"Thor", "Jetson AGX Thor|Jetson Thor", "blackwell", 110, 20, 122, 273, 130, 130, 8.0},
  };
  return cards;
}

const GpuCard& find_gpu(const std::string& name) {
  // People omit the series: 4090, 1080 Ti, 6000 Ada.
  for (const char* series : {"", "rtx", "gtx", "rtxpro"})
    if (const GpuCard* card = find_key(series + key_of(name))) return *card;
  std::vector<std::string> keys;
  for (const GpuCard& card : gpu_cards()) keys.push_back(key_of(card.name));
  const std::string close = nearest(key_of(name), keys);
  const std::string suggestion =
      close.empty() ? "" : std::string(" (did you mean \"") + find_key(close)->name + "\"?)";
  throw Error(ErrorKind::usage, "unknown GPU \"" + name + "\"" + suggestion)
      .hint("`forge list gpus` prints the cards forge knows");
}

const GpuCard* gpu_card_of(const GpuInfo& gpu) {
  if (const GpuCard* card = find_key(key_of(gpu.name))) return card;
  // Laptop and vendor editions have longer names: the longest card name that is a prefix of theirs,
  // on the same silicon, is taken.
  const GpuCard* best = nullptr;
  for (const GpuCard& card : gpu_cards())
    if (card.compute_capability == gpu.compute_capability &&
        starts_with(key_of(gpu.name), key_of(card.name)) &&
        (!best || key_of(card.name).size() > key_of(best->name).size()))
      best = &card;
  return best;
}

GpuInfo gpu_info(const GpuCard& card) {
  GpuInfo gpu;
  gpu.name = card.name;
  gpu.compute_capability = card.compute_capability;
  gpu.multiprocessors = card.multiprocessors;
  gpu.memory_bytes = gpu.free_bytes = static_cast<int64_t>(card.memory_gib * kGib);
  gpu.probed = false;
  return gpu;
}

}  // namespace forge
