#pragma once
// Tells if two plans are of the same job.
#include <map>
#include <string>
#include <vector>

#include "core/plan/stages/setup.h"

namespace forge {

struct Plan;

// `identity` is what makes two jobs the same job, `execution` is how it is executed: key → the
// value that the user asked for. A run folder holds another job when `identity` differs; a change
// in `execution` alone means planning again.
struct Identity {
  std::map<std::string, std::string> identity, execution;
};

// Returns both for a job as the user wrote it; `plan` has the model and the data.
Identity identity_of(const Job& asked, const Setup& plan);

// Returns the keys of which two maps have different values, or one has none and the other not the
// key's default.
std::vector<std::string> differing_keys(const std::map<std::string, std::string>& before,
                                        const std::map<std::string, std::string>& after);

// Returns the keys of `identity` whose values differ, and the names of the start files that do;
// empty for the same job. If one of the plans does not list its files, files are not compared.
std::vector<std::string> identity_differences(const Plan& old_plan, const Plan& new_plan);

}  // namespace forge
