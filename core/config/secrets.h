#pragma once
// Values from the environment that are neither shown nor stored. What is shown has *** in their place; what is stored
// names the variable, so that it can be read again where the variable is set.
//
//   Json stored = seal_secrets(to_json(plan), loaded.secrets);   // "path": "${env:DATA_TOKEN}/model"
//   Json plan = unseal_secrets(stored, environment);             // "path": "s3cret/model"
#include <string>
#include <vector>

#include "core/config/layers.h"
#include "core/io/json.h"

namespace forge {

std::string hide_secrets(std::string text, const std::vector<Secret>& secrets);
// Of every text in `value`, names of members included.
Json hide_secrets(const Json& value, const std::vector<Secret>& secrets);

// A text as a file or a message that may be passed on shows it: without the secrets given, without the user
// and password of URLs, without words in the shape of a token (hf_…, sk-…, ghp_…).
std::string redacted(std::string text, const std::vector<Secret>& secrets = {});
Json redacted(const Json& value, const std::vector<Secret>& secrets = {});

// An object's sealed form lists the variables under "secrets"; without secrets it is the object itself.
Json seal_secrets(const Json& value, const std::vector<Secret>& secrets);
// Throws Error(environment) naming the variables that are not set. `name` begins the message.
Json unseal_secrets(const Json& sealed, const Environment& environment, const std::string& name);
// The secrets that a sealed object names, where they are set.
std::vector<Secret> sealed_secrets(const Json& sealed, const Environment& environment);
// Between program and engine.
Json to_json(const std::vector<Secret>& secrets);
std::vector<Secret> secrets_from_json(const Json& list);
// The process's variables.
Environment process_environment();

}  // namespace forge
