#pragma once
// Output of a short-lived program: a loader that lists libraries, an interpreter that tells its
// path.
//
//   std::string folders = program_output({"python3", "-c", "import sys; print(sys.path)"});
#include <chrono>
#include <string>
#include <vector>

namespace forge {

struct ProgramLimits {
  std::chrono::milliseconds patience{30'000};  // a cold network disk takes seconds
  size_t most_bytes = 1 << 20;
};

// Runs command[0] (looked for in PATH) with an empty standard input and its standard error dropped,
// and returns what it writes to its standard output. A program that reaches a limit is killed and
// what it wrote until then is returned; empty if it cannot be started. `environment` holds
// NAME=VALUE words; empty: this process's.
std::string program_output(std::vector<std::string> command, std::vector<std::string> environment = {},
                           const ProgramLimits& limits = {});

}  // namespace forge
