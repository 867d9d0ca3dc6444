// A stub of libnvidia-ml.so.1 for the cards of STUB_CARDS: free memory, and the driver's version
// STUB_DRIVER.
#include <cstring>

#include "tests/door/stub_cards.h"

using namespace stub;

struct Memory {
  unsigned long long total, free, used;
};

extern "C" {
int nvmlInit_v2() { return 0; }
int nvmlShutdown() { return 0; }
int nvmlSystemGetDriverVersion(char* version, unsigned size) {
  std::strncpy(version, text("STUB_DRIVER", "580.65.06").c_str(), size);
  return 0;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* id, void** device) {
  *device = const_cast<Card*>(&cards()[std::stoul(id)]);
  return 0;
}
int nvmlDeviceGetMemoryInfo(void* device, Memory* bytes) {
  const auto* card = static_cast<const Card*>(device);
  *bytes = {card->gib << 30, card->free_gib << 30, (card->gib - card->free_gib) << 30};
  return 0;
}
}
