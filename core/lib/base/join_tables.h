#pragma once
// One constant table of several.
//
//   constexpr auto kOptions = join_tables(kModelOptions, kOwnOptions);
#include <array>
#include <cstddef>

namespace forge {

template <class Row, size_t... counts>
constexpr std::array<Row, (counts + ...)> join_tables(const Row (&... tables)[counts]) {
  std::array<Row, (counts + ...)> all{};
  size_t next = 0;
  const auto append = [&](const auto& table) {
    for (const Row& row : table) all[next++] = row;
  };
  (append(tables), ...);
  return all;
}

}  // namespace forge
