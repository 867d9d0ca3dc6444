#pragma once
// Runs long sets of cases in parts: with FORGE_TEST_SAMPLE=<a commit's name> some of them run,
// other ones for every commit. Without it, and with scripts/test.sh --all, all run. tests/sample.py
// does the same for sets in Python.
#include <cstdint>
#include <cstdlib>
#include <string>

namespace forge {

// True if the case runs: about one of every `commits` commits runs it.
inline bool in_sample(const std::string& name, uint64_t commits) {
  const char* sample = std::getenv("FORGE_TEST_SAMPLE");
  if (!sample || !*sample) return true;
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a, then the last steps of SplitMix64, which FNV's last letters need
  for (char c : sample + ("\n" + name)) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  hash = (hash ^ hash >> 30) * 0xbf58476d1ce4e5b9;
  hash = (hash ^ hash >> 27) * 0x94d049bb133111eb;
  return (hash ^ hash >> 31) % commits == 0;
}

}  // namespace forge
