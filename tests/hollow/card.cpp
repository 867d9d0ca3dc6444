#include "tests/hollow/card.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <sstream>

namespace forge::hollow {
namespace {

struct Known {
  int capability;
  const char* name;
  int multiprocessors;
  size_t memory_mib, shared_bytes;
  int threads;
};
// Cards with the names that their drivers give them. Shared memory and threads are from the table
// of compute capabilities in the CUDA C++ programming guide.
constexpr Known kKnown[] = {
    {75, "Tesla T4", 40, 15102, 65536, 1024},
    {80, "NVIDIA A100-SXM4-40GB", 108, 40442, 166912, 2048},
    {86, "NVIDIA GeForce RTX 3090", 82, 24250, 101376, 1536},
    {89, "NVIDIA GeForce RTX 4070", 46, 11902, 101376, 1536},
    {90, "NVIDIA H100 80GB HBM3", 132, 81079, 232448, 2048},
    {100, "NVIDIA B200", 148, 182642, 232448, 2048},
    {120, "NVIDIA GeForce RTX 5090", 170, 32119, 101376, 1536},
};
constexpr size_t kMib = size_t{1} << 20;

long number(const char* name, long otherwise) {
  const char* text = std::getenv(name);
  return text && *text ? std::strtol(text, nullptr, 10) : otherwise;
}

const Known& known_card(long capability) {
  for (const Known& card : kKnown)
    if (card.capability == capability) return card;
  std::fprintf(stderr, "hollow GPU: FORGE_HOLLOW_CC=%ld is none of 75, 80, 86, 89, 90, 100, 120\n",
               capability);
  std::abort();
}

Card card_from_environment(const Known& known) {
  const char* name = std::getenv("FORGE_HOLLOW_NAME");
  const long mib = number("FORGE_HOLLOW_MIB", static_cast<long>(known.memory_mib));
  return {.name = name ? name : known.name,
          .capability = known.capability,
          .multiprocessors =
              static_cast<int>(number("FORGE_HOLLOW_MULTIPROCESSORS", known.multiprocessors)),
          .memory_bytes = static_cast<size_t>(mib) * kMib,
          .shared_bytes = known.shared_bytes,
          .threads = known.threads,
          .free_bytes = static_cast<size_t>(number("FORGE_HOLLOW_FREE_MIB", mib)) * kMib};
}

Machine from_environment() {
  Machine m;
  const char* capabilities = std::getenv("FORGE_HOLLOW_CC");
  std::istringstream listed(capabilities && *capabilities ? capabilities : "90");
  for (std::string one; std::getline(listed, one, ',');)
    m.all.push_back(card_from_environment(known_card(std::strtol(one.c_str(), nullptr, 10))));
  m.cards = static_cast<int>(number("FORGE_HOLLOW_CARDS", static_cast<long>(m.all.size())));
  m.all.resize(std::max<size_t>(1, static_cast<size_t>(m.cards)), Card(m.all.back()));
  m.taken_bytes = static_cast<size_t>(number("FORGE_HOLLOW_TAKEN_MIB", 0)) * kMib;
  m.cuda = static_cast<int>(number("FORGE_HOLLOW_CUDA", 13000));
  return m;
}

}  // namespace

const Machine& machine() {
  static const auto* const instance = new Machine(from_environment());
  return *instance;
}
const Card& card_of(int card) { return machine().all.at(static_cast<size_t>(card)); }

std::string pci_of(int card) {
  char text[32];
  std::snprintf(text, sizeof text, "0000:%02x:00.0", card + 1);
  return text;
}
int card_at(const std::string& pci) {
  // NVML's addresses have a domain of eight digits.
  for (int card = 0; card < machine().cards; ++card)
    if (pci.ends_with(pci_of(card))) return card;
  return -1;
}

}  // namespace forge::hollow
