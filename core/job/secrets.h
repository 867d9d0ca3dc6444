#pragma once
// Values from the environment that are neither shown nor stored. Shown text has *** in their place.
// Stored text names the variable, so that it can be read again where the variable is set.
//
//   Json stored = seal_secrets(to_json(plan), loaded.secrets);   // "path": "${env:DATA_TOKEN}/model"
//   Json plan = unseal_secrets(stored, environment);             // "path": "s3cret/model"
#include <string>
#include <vector>

#include "core/job/layers.h"
#include "core/lib/io/json.h"

namespace forge {

struct Job;

// Adds the credentials in headers that the job states in so many letters: of "Bearer abc" the part
// "abc". They have no variable, so they can be hidden but not sealed.
void add_header_secrets(const Job& job, std::vector<Secret>& secrets);

std::string hide_secrets(std::string text, const std::vector<Secret>& secrets);
// Like hide_secrets(), for every text in `value`, names of members included.
Json hide_secrets(const Json& value, const std::vector<Secret>& secrets);

// Returns a text as it is shown in files and messages that may be passed on: without the given
// secrets, without the user and password of URLs, without words in the shape of a token (hf_…,
// sk-…, ghp_…).
std::string redacted(std::string text, const std::vector<Secret>& secrets = {});
Json redacted(const Json& value, const std::vector<Secret>& secrets = {});

// Returns `value` with its secrets replaced by references. An object's sealed form lists the
// variables under "secrets"; without secrets of variables it is the object itself.
Json seal_secrets(const Json& value, const std::vector<Secret>& secrets);
// Returns the object that was sealed. Throws Error(environment) naming the variables that are not
// set. `name` begins the message.
Json unseal_secrets(const Json& sealed, const Environment& environment, const std::string& name);
// Returns the secrets that a sealed object names, if they are set.
std::vector<Secret> sealed_secrets(const Json& sealed, const Environment& environment);
// Convert the secrets for the exchange between program and engine.
Json to_json(const std::vector<Secret>& secrets);
std::vector<Secret> secrets_from_json(const Json& list);
// Returns the process's variables.
Environment process_environment();

}  // namespace forge
