#include "core/lib/base/error.h"

#include <array>

namespace forge {
namespace {

struct KindRow {
  ErrorKind kind;
  const char* name;
  int code;
};

constexpr std::array kKinds{
    KindRow{ErrorKind::usage, "usage", 2},        KindRow{ErrorKind::job, "job", 3},
    KindRow{ErrorKind::fit, "fit", 4},            KindRow{ErrorKind::environment, "environment", 5},
    KindRow{ErrorKind::data, "data", 6},          KindRow{ErrorKind::diverged, "diverged", 7},
    KindRow{ErrorKind::gate, "gate", 8},          KindRow{ErrorKind::internal, "internal", 70},
    KindRow{ErrorKind::stopped, "stopped", 75},   KindRow{ErrorKind::interrupted, "interrupted", 130},
};

const KindRow& row(ErrorKind kind) {
  for (const KindRow& candidate : kKinds)
    if (candidate.kind == kind) return candidate;
  return kKinds[7];
}

}  // namespace

int exit_code(ErrorKind kind) { return row(kind).code; }
const char* name_of(ErrorKind kind) { return row(kind).name; }

ErrorKind error_kind_of(const std::string& name) {
  for (const KindRow& candidate : kKinds)
    if (name == candidate.name) return candidate.kind;
  return ErrorKind::internal;
}

void check_failed(const char* file, int line, const char* condition, const std::string& message) {
  std::ostringstream text;
  text << message << " (" << condition << " is false at " << file << ":" << line << ")";
  throw Error(ErrorKind::internal, text.str()).hint("this is a bug in forge; please report it with the job file");
}

}  // namespace forge
