#pragma once
// Pages and files written from the field tables.
//
//   forge schema job    > schemas/job.schema.json      // job_schema_json()
//   forge schema --docs > docs/job.md                  // job_reference_markdown()
//
// The repository holds both; a test compares them, so a key cannot change without its page.
#include <string>
#include <vector>

namespace forge {

// JSON Schema 2020-12 of a job file, short forms included; for editors and for other programs.
std::string job_schema_json();
// docs/job.md: every section's keys with type, default, range and sentence, then the names of other tools.
std::string job_reference_markdown();
// What `forge init` writes: a job that says in comments what else can be said; in JSON without the comments. `schema` is
// where editors find job.schema.json; empty: not said. `objective` is one of objective_names().
std::string starter_job(const std::string& schema = "", const std::string& objective = "sft");
std::string starter_job_json(const std::string& schema = "", const std::string& objective = "sft");
// All that objective.type may be, the short names of others' settings included.
std::vector<std::string> objective_names();

}  // namespace forge
