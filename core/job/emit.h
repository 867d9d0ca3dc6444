#pragma once
// Writes pages and files from the field tables.
//
//   forge schema job    > schemas/job.schema.json      // job_schema_json()
//   forge schema --docs > docs/job.md                  // job_reference_markdown()
//
// The repository holds both; a test compares them, so a key cannot change without its page.
#include <string>
#include <vector>

namespace forge {

// Returns the JSON Schema 2020-12 of a job file, short forms included, for editors and other
// programs.
std::string job_schema_json();
// Returns docs/job.md: every section's keys with type, default, range and sentence, then the names
// of other tools.
std::string job_reference_markdown();
// Return the job that `forge init` writes, with other settings in comments; in JSON without
// comments. `schema` is where editors find job.schema.json; empty: not stated. `objective` is one
// of objective_names().
std::string starter_job(const std::string& schema = "", const std::string& objective = "sft");
std::string starter_job_json(const std::string& schema = "", const std::string& objective = "sft");
// Returns every name that objective.type may have, including the short names of other settings.
std::vector<std::string> objective_names();

}  // namespace forge
