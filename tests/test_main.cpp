// Runs Catch2's main with the instruction set that FORGE_CPU states.
#define CATCH_CONFIG_RUNNER
#include <cstdio>

#include "core/lib/base/error.h"
#include "core/lib/base/instruction_set.h"
#include "tests/catch.h"

int main(int count, char** words) {
  constexpr int kSkipped = 4;  // ctest's SKIP_RETURN_CODE
  try {
    forge::hold_libraries_to_statement();
  } catch (const forge::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return kSkipped;
  }
  return Catch::Session().run(count, words);
}
