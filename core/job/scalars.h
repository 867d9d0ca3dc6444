#pragma once
// Reads a scalar of a job file by forge's own rules instead of a library's: 010 is not a number,
// 1e-4 is one, yes is not a boolean. Each error says what to write instead.
#include <cstdint>
#include <optional>
#include <string>

#include "core/job/node.h"

namespace forge {

template <class Value>
struct Reading {
  std::optional<Value> value;
  std::string problem, hint;  // the reason why it has no value
  std::string expected;       // "a number"; empty if the problem says it
  std::string message() const { return problem + (expected.empty() ? "" : ", expected " + expected); }
};

// Reads 12, -3, 1e3. Refuses 010, 0x10, 1_000, 1.5, "12".
Reading<int64_t> read_integer(const Node& node);
// Reads a finite number by YAML 1.2: 1, 0.5, .5, 1e-4, 5E-5.
Reading<double> read_number(const Node& node);
// Reads true or false.
Reading<bool> read_boolean(const Node& node);
// Reads a text, in quotes or not. A number or boolean without quotes is not text.
Reading<std::string> read_text(const Node& node);
// Reads bytes: 1073741824, 1GiB, 80 GB (powers of 1024 with i, of 1000 without).
Reading<int64_t> read_bytes(const Node& node);
// Reads seconds: 90, 90s, 30m, 1h30m, 2d.
Reading<double> read_seconds(const Node& node);

}  // namespace forge
