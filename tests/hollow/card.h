#pragma once
// The cards of the hollow GPU. All settings come from the environment:
//
//   FORGE_HOLLOW_CC=90               compute capability: 75, 80, 86, 89, 90, 100 or 120; with
//                                    commas, of card after card
//   FORGE_HOLLOW_CARDS=1             number of cards; those that FORGE_HOLLOW_CC does not name are
//                                    as its last one
//   FORGE_HOLLOW_NAME, FORGE_HOLLOW_MIB, FORGE_HOLLOW_MULTIPROCESSORS
//                                    what the driver says of a card, by default that of a card of
//                                    the capability
//   FORGE_HOLLOW_FREE_MIB            memory that is free on each card, as NVML and the runtime
//                                    tell; default: all
//   FORGE_HOLLOW_TAKEN_MIB=0         memory that another process takes of each card after NVML was
//                                    asked: the runtime refuses allocations that would need it
//   FORGE_HOLLOW_CUDA=13000          newest CUDA of the driver
//   FORGE_HOLLOW_REPORT=FILE         where each process that used a card appends its report, one
//                                    line of JSON
#include <cstddef>
#include <string>
#include <vector>

namespace forge::hollow {

struct Card {
  std::string name;
  int capability = 0;
  int multiprocessors = 0;
  size_t memory_bytes = 0;
  size_t shared_bytes = 0;  // that a block may request
  int threads = 0;          // that a multiprocessor holds
  size_t free_bytes = 0;    // before this process took any
};

struct Machine {
  std::vector<Card> all;
  int cards = 1;
  size_t taken_bytes = 0;  // of a card's free bytes; another process takes them later
  int cuda = 13000;
};

const Machine& machine();
// Returns one of machine().cards.
const Card& card_of(int card);

// Returns a card's address: "0000:01:00.0" for card 0.
std::string pci_of(int card);
// Returns the card at that address; −1 if there is none.
int card_at(const std::string& pci);

}  // namespace forge::hollow
