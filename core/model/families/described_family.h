#pragma once
// Families made of descriptions (description.h): those of described/, which are compiled into the
// program, and those of family files that jobs and model folders bring along.
//
//   const Described& mine = described_family(read_file("family.yaml", …), "family.yaml");
//   const ReadConfig read = read_config(config, "config.json", &mine);
#include <string>

#include "core/model/families/description.h"
#include "core/model/families/family.h"

namespace forge {

struct Described {
  std::string file, text;
  Description description;
  Family family;
};

// The name of a family file in a model's or an adapter's folder.
constexpr const char* kFamilyFile = "family.yaml";

// Returns the family of a description, which is parsed once for each text and kept. `file` begins
// its faults. Throws JobErrors.
const Described& described_family(const std::string& text, const std::string& file);
// Returns the described family of a job or a model folder: that of model.family, else that of the
// folder's family.yaml if `config`, its config.json, is of a class that forge does not have. Null
// for a family of forge's own.
const Described* described_of(const ModelConfig& model, const Json& config);
// Returns the family file that the model brings along; null for a family of forge's own.
const Described* described_in(const ModelSpec& spec);
// Returns the family of a file in described/. Throws Error(internal) for a faulty one.
Family built_in_family(const std::string& file);
// Returns the text of a file in described/; empty if there is none.
std::string built_in_description(const std::string& file);

// True if the layer has rotary positions.
bool describes_rope(const Described& described);
// Throws Error(job) with the lines of the description if its layer does not fit the model's sizes,
// or cannot be trained.
void check_described(const Described& described, const ModelSpec& spec);

}  // namespace forge
