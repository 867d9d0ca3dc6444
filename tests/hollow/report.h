#pragma once
// Counts what happened on the hollow GPU, for the report of the process.
#include <cstdint>
#include <string>

namespace forge::hollow {

// Counts an event by name.
void count(const std::string& what, int64_t times = 1);
// Counts work by the card that it was given to.
void count_on_card(const char* what, int card);
// Reports a violated rule of CUDA, also on stderr.
void violation(const std::string& what);
// Notes a recorded graph and the amount of its work.
void captured(int64_t kernels, int64_t products, int64_t copies);
// Notes the bytes that are now held of a card.
void holds(int card, int64_t bytes);
// Writes the report, once.
void write_report();

}  // namespace forge::hollow
