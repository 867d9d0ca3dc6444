#include "tests/kernels/flash/recording_cuda.h"

#include <cstdlib>
#include <cstring>
#include <utility>

#include "tests/hollow/card.h"
#include "tests/hollow/watch.h"

namespace forge::recording {
namespace {

std::vector<Launch> launches;
std::function<size_t(const std::string&)> argument_bytes;

void add(const hollow::Launch& given) {
  Launch launch{given.kernel};
  launch.grid[0] = given.grid.x, launch.grid[1] = given.grid.y, launch.grid[2] = given.grid.z;
  launch.block[0] = given.block.x, launch.block[1] = given.block.y, launch.block[2] = given.block.z;
  launch.shared_bytes = given.shared_bytes, launch.stream = given.stream;
  if (given.arguments && argument_bytes) launch.argument.resize(argument_bytes(launch.kernel));
  if (!launch.argument.empty()) std::memcpy(launch.argument.data(), given.arguments[0], launch.argument.size());
  launches.push_back(std::move(launch));
}

// This runs before LibTorch asks for the cards.
const bool watched = [] {
  std::string capabilities;
  for (const int capability : kCapabilities) capabilities += std::to_string(capability) + ",";
  setenv("FORGE_HOLLOW_CC", capabilities.c_str(), 1);
  hollow::watch_launches(add);
  return true;
}();

}  // namespace

std::vector<Launch> take() { return std::exchange(launches, {}); }
size_t shared_bytes(int card) { return hollow::card_of(card).shared_bytes; }
void set_argument_bytes(std::function<size_t(const std::string&)> bytes) { argument_bytes = std::move(bytes); }

}  // namespace forge::recording
