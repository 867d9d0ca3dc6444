#include "core/lib/base/program_output.h"

#include <chrono>

#include "tests/test.h"

using namespace forge;
using namespace std::chrono_literals;

TEST_CASE("A program's output is returned, and its failure to start is none") {
  CHECK(program_output({"printf", "%s", "a\nb"}) == "a\nb");
  CHECK(program_output({"sh", "-c", "echo $FORGE_WORD"}, {"FORGE_WORD=said", "PATH=/usr/bin:/bin"}) == "said\n");
  CHECK(program_output({"sh", "-c", "cat; echo end; echo lost >&2"}) == "end\n");
  CHECK(program_output({"/nowhere/program"}).empty());
}

TEST_CASE("A program that does not end, or writes without end, is held to its limits") {
  const auto began = std::chrono::steady_clock::now();
  CHECK(program_output({"sh", "-c", "echo first; exec sleep 1000"}, {}, {.patience = 300ms}) == "first\n");
  CHECK(program_output({"sh", "-c", "echo closed; exec sleep 1000 >&-"}, {}, {.patience = 20s}) == "closed\n");
  const std::string endless = program_output({"yes"}, {}, {.most_bytes = 10'000});
  CHECK(endless.size() >= 10'000);
  CHECK(endless.size() < 20'000);
  CHECK(std::chrono::steady_clock::now() - began < 10s);
}
