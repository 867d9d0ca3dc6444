#pragma once
// The class that transformers 5 opens a tokenizer.json with. A class of its own there takes only
// the file's vocabulary and template, and builds its normalizer and pre-tokenizer itself.
//
//   const ClassRules rules = class_rules(root, config, model_config, "model/tokenizer.json");
//   take_parts(rules, root);
//
// forge does likewise where that decides about blanks in a file of the class's kind: all of a
// SentencePiece vocabulary, add_prefix_space of a byte-level one. Elsewhere the file stands, since
// the model was trained with it, and a note says what transformers does.
#include <string>

#include "core/lib/io/json.h"

namespace forge::text {

struct ClassRules {
  std::string name;            // the class; empty where transformers reads the file itself
  bool by_model_type = false;  // config.json's model_type decides, whatever tokenizer_config.json says
  bool kind = false;           // the file's vocabulary is of the kind that the class is for
  Json normalizer, pre_tokenizer;  // the class's own; null for none
  Json taken_parts;  // members of a tokenizer.json that forge replaces; empty if the file stands
};

// `root` is a tokenizer.json, `config` the tokenizer_config.json beside it and `model_config` the
// model's config.json; both are empty objects if absent. The choice is that of transformers 5.17's
// AutoTokenizer for a folder without code of its own.
ClassRules class_rules(const Json& root, const Json& config, const Json& model_config, const std::string& where);

// Returns the decoder of a SentencePiece vocabulary, as tokenizer.json writes it. `strips`: the
// blank before a text is left out.
Json sentencepiece_decoder(bool strips);

// Replaces the parts of a tokenizer.json that are taken.
void take_parts(const ClassRules& rules, Json& root);

}  // namespace forge::text
