#include "core/data/rows/keys.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "core/data/rows/checks.h"
#include "core/data/rows/formats/format.h"
#include "core/lib/base/text.h"

namespace forge {
namespace {

// Lists of keys, for among(). Keys are compared as `folded` writes them.
// Keys of what a model is given besides the question, under the names used in public data sets.
constexpr std::string_view kContext =
    "system system_prompt system_message context history tools functions choices options";
// Rarer names of such keys, in rows that have an answer. Names that are harmless in some sets are
// not here but only counted: `evidence` and `source` are citations too (FEVER), `title` names an
// article (SQuAD).
constexpr std::string_view kContextToo =
    "system_instruction system_instructions sys_prompt sys_message sys_msg system_msg contexts "
    "ctxs sql_context retrieved_context retrieved_contexts document documents docs "
    "retrieved_docs passage retrieved_documents passages chat_history dialog_history "
    "dialogue_history message_history conversation_history previous_messages previous_turns "
    "available_tools tool_definitions tool_schemas function_schemas answer_choices";
constexpr std::string_view kMedia =
    "image images video videos audio audios picture pictures photo photos";
// Endings of a key such as `image_…` that points to a picture elsewhere. Ids are only counted:
// YouTube-Commons has texts with a video_id.
constexpr std::string_view kMediaPlace =
    "path paths file files filename filenames url urls uri bytes base64 data";
// Keys that some format would train on or put before the answer.
constexpr std::string_view kSaid =
    "instruction input question query prompt completion response answer answers output summary "
    "text messages conversations chosen rejected role";
constexpr std::string_view kJudged = "score rank rating reward scores ranks ratings rewards";
// Keys that say that an answer is bad, by false, 0 or a word. Other keys are only counted:
// StackExchange's `accepted`, since an answer that was not accepted is not bad, and `votes` and
// `stars`.
constexpr std::string_view kFlags =
    "label kto_tag is_correct correct desirable is_desirable preferred is_preferred is_good "
    "thumbs_up verdict feedback quality judgement judgment";
constexpr std::string_view kBadWords =
    "bad wrong incorrect rejected undesirable dispreferred thumbs_down";
// Keys that say how much a row counts, if the value is not 1 or true.
constexpr std::string_view kWeights =
    "weight weights loss_weight loss_weights sample_weight token_weights train";
constexpr std::string_view kLists =
    "messages conversations conversation prompt completion chosen rejected rejected_messages "
    "preferred_output non_preferred_output";
// Keys of a turn that are not reported. A call's id only links it, and `unsaid` finds thoughts that
// a template leaves out.
constexpr std::string_view kTurn =
    "role content from value tool_calls function_call input output tool_call_id "
    "reasoning_content reasoning thinking thought";

// Keys of a turn that tell other trainers, but not forge, which part of it is trained: a list of
// parts (axolotl's train_detail), or a flag of which 1 may mean trained or left out.
constexpr std::string_view kTurnParts =
    "mask masked train_detail training_detail train_on_turn trainable ignore_loss no_loss";

// True if the key is of a picture's path, address or bytes.
bool points_to_media(std::string_view key) {
  const size_t last = key.rfind('_');
  return last != key.npos && among(kMedia, key.substr(0, last)) && among(kMediaPlace, key.substr(last + 1));
}

bool is_blank(const Json& value) {
  if (value.is_string()) return trim(value.get_ref<const std::string&>()).empty();
  return value.is_null() || (value.is_structured() && value.empty());
}

// True if the row goes through a chat template, with the system prompt and tools next to its turns.
bool is_chat(const Json& row, RowFormat format, bool has_template) {
  const auto is_one_of = [&](std::initializer_list<RowFormat> formats) {
    return std::ranges::count(formats, format) > 0;
  };
  const Json *chosen = member(row, "chosen"), *prompt = member(row, "prompt");
  if (is_one_of({RowFormat::messages, RowFormat::sharegpt})) return true;
  if (format == RowFormat::alpaca) return has_template;
  if (format == RowFormat::preference) return !chosen || chosen->is_structured();
  return is_one_of({RowFormat::prompt_completion, RowFormat::kto, RowFormat::reward}) &&
         (member(row, "messages") || member(row, "conversations") ||
          (prompt && prompt->is_array()) || (member(row, "instruction") && has_template));
}

// Returns the keys that the format reads beside `system`, `tools` and `functions` of conversations.
std::string_view keys_read(const Json& row, RowFormat format) {
  const Json* chosen = member(row, "chosen");
  switch (format) {
    case RowFormat::tokens:  // the last four are those of `forge data --dump`
      return "input_ids ids labels attention_mask text source line label";
    case RowFormat::messages: return "messages";
    case RowFormat::sharegpt: return "conversations conversation";
    case RowFormat::alpaca: return "instruction input output history tool_calls";
    case RowFormat::prompt_completion: return "prompt completion";
    case RowFormat::text: return "text";
    case RowFormat::preference:
      if (chosen && chosen->is_object()) return "conversations chosen rejected margin";
      if (chosen) return "prompt chosen rejected margin";
      if (member(row, "preferred_output")) return "input preferred_output non_preferred_output margin";
      return "messages rejected_response rejected_messages margin";
    case RowFormat::kto:
    case RowFormat::reward:
      if (member(row, "messages")) return "messages label kto_tag score reward";
      if (member(row, "conversations")) return "conversations label kto_tag score reward";
      if (member(row, "instruction"))
        return "instruction input output history tool_calls label kto_tag score reward";
      return "prompt completion label kto_tag score reward";
    case RowFormat::automatic:
    case RowFormat::prompt: break;
  }
  return "";
}

// Collects all texts in a value, except speakers' names.
void collect_texts(const Json& value, std::vector<std::string_view>& texts) {
  if (value.is_string()) {
    if (const auto text = trim(value.get_ref<const std::string&>()); !text.empty()) texts.push_back(text);
  } else if (value.is_object()) {
    for (const auto& [key, inner] : value.items())
      if (key != "role" && key != "from") collect_texts(inner, texts);
  } else if (value.is_array()) {
    for (const Json& inner : value) collect_texts(inner, texts);
  }
}

// True if `parts` has texts, and each of them is in some of `texts`.
bool all_stand_in(const std::vector<std::string_view>& parts, const std::vector<std::string_view>& texts) {
  const auto stands = [&](std::string_view part) {
    return std::any_of(texts.begin(), texts.end(),
                       [&](std::string_view text) { return text.find(part) != text.npos; });
  };
  return !parts.empty() && std::all_of(parts.begin(), parts.end(), stands);
}

bool is_number(const Json& value) {
  if (!value.is_string()) return value.is_number();
  const auto& text = value.get_ref<const std::string&>();
  return text.find_first_not_of("0123456789.+-eE") == text.npos;
}

bool is_numbers(const Json& value) {
  return is_number(value) || (value.is_array() && !value.empty() && std::all_of(value.begin(), value.end(), is_number));
}

// True if the value says that an answer is bad. Labels may be classes: numbers and words such as
// "negative" or "no" are those of GLUE and BoolQ.
bool says_bad(std::string_view key, const Json& value) {
  if (!among(kFlags, key)) return false;
  if (value.is_boolean()) return !value.get<bool>() || key == "label";
  const std::string word = value.is_string() ? folded(value.get_ref<const std::string&>()) : "";
  if (among(kBadWords, word)) return true;
  const bool graded = key == "label" || key == "quality" || key == "feedback";
  return !graded && (value == 0 || value == -1 || word == "false" || word == "no" || word == "0");
}

// Returns the key with `other` in place of `word`; "" if the key does not contain `word`.
std::string with_word(std::string_view key, std::string_view word, std::string_view other) {
  std::vector<std::string> words = split(std::string(key), '_');
  const auto found = std::find(words.begin(), words.end(), word);
  if (found == words.end()) return "";
  *found = other;
  return join(words, "_");
}

double number_of(const Json& value) {
  return value.is_string() ? std::strtod(value.get_ref<const std::string&>().c_str(), nullptr)
                           : value.get<double>();
}

class KeyCheck {
 public:
  KeyCheck(const Json& row, const KeyRules& rules, std::vector<std::string>& unread, RowFaults& faults)
      : row_(row), rules_(rules), unread_(unread), faults_(faults), read_(keys_read(row, rules.format)) {}

  void run() {
    const bool chat = is_chat(row_, rules_.format, rules_.has_template);
    for (const auto& [key, value] : row_.items()) {
      if (is_blank(value)) continue;
      const bool beside = chat && (key == "system" || key == "tools" || key == "functions");
      const bool mask = rules_.format == RowFormat::tokens &&
                        std::ranges::find(kTokenMasks, key) != std::end(kTokenMasks);
      if (!beside && !mask && !among(read_, key))
        check_unread(key, value);
      else if (among(kLists, key))
        check_turns(key, value);
    }
  }

 private:
  void check_unread(const std::string& key, const Json& value) {
    const std::string problem = rules_.stated == Stated::fields ? "" : problem_of(key, value);
    if (problem.empty())
      unread_.push_back(key);
    else
      faults_.push_back({"/" + key, key + problem, key});
  }

  // Returns how ignoring the key would change what is learned; empty if it would not.
  std::string problem_of(const std::string& name, const Json& value) const {
    const std::string key = folded(name);
    const std::string rows = std::string(" is not read in ") + name_of(rules_.format) + " rows";
    const std::string ignore = "ignore: [" + name + "]";
    if (among(kMedia, key)) return media_problem(ignore);
    // An illustration of a text is no fault: recipes and news have an image_url.
    if (points_to_media(key) && rules_.format != RowFormat::text)
      return media_problem(ignore, " points to what is not text");
    if (rules_.format == RowFormat::tokens) return token_problem(key, value);
    const bool context = among(kContext, key) ||
                         (rules_.format != RowFormat::text && among(kContextToo, key) && !value.is_number());
    if (context && !is_said(value, kPhrase))
      return rows +
             ", and the model would learn to answer without it: name its place with columns, or with "
             "prompt and completion, or leave it out with " +
             ignore;
    if (rules_.stated != Stated::nothing) return "";
    const std::string format =
        std::string(", or write format: ") + name_of(rules_.format) + " to leave it out";
    const bool chat = rules_.format == RowFormat::messages || rules_.format == RowFormat::sharegpt;
    const bool said = key != "role" && (is_said(value, 1) || repeats(value));
    if (among(kSaid, key) && !chat && !said)
      return rows +
             ", and part of what they say would not be learned: name its place with columns, or with "
             "prompt and completion" +
             format;
    if (rules_.format == RowFormat::preference)
      if (std::string problem = preference_problem(name, value); !problem.empty()) return problem;
    const bool answers = rules_.format != RowFormat::text && rules_.format != RowFormat::preference &&
                         rules_.format != RowFormat::kto && rules_.format != RowFormat::reward;
    if (answers && (says_bad(key, value) || (among(kJudged, key) && (is_numbers(value) || value == false))))
      return rows + ", and answers would be learned alike, good or bad: choose rows by it beforehand" +
             format;
    if (weighs(key, value))
      return rows + ", and all rows would count alike: leave out or repeat rows beforehand" + format;
    return "";
  }
  // Returns the problem of a judgement that says the opposite of chosen and rejected.
  std::string preference_problem(const std::string& name, const Json& value) const {
    const std::string key = folded(name), leave = "or leave it out with ignore: [" + name + "]";
    const std::string word = value.is_string() ? folded(value.get_ref<const std::string&>()) : "";
    if (key == "label" &&
        (value == false || value == 0 || value == -1 || word == "0" || word == "false" || word == "rejected"))
      return " is " + dump_json(value) +
             " next to chosen and rejected: swap the two where it says that the rejected answer is the better "
             "one, " +
             leave;
    const std::string partner = with_word(key, "chosen", "rejected");
    if (partner.empty() || !is_number(value) || is_blank(value)) return "";
    // Only scores are compared: log-probabilities and ranks may be lower, and lengths say nothing.
    bool scores = false;
    for (const char* kind : {"score", "scores", "rating", "ratings", "reward", "rewards"})
      scores |= !with_word(key, kind, "").empty();
    for (const auto& [other, judged] : row_.items())
      if (scores && folded(other) == partner && is_number(judged) && !is_blank(judged) &&
          number_of(value) < number_of(judged))
        return " is " + format_number(number_of(value)) + ", below " + other + " " +
               format_number(number_of(judged)) +
               ", so the rejected answer would be the better one: swap chosen and rejected in such rows, " +
               leave;
    return "";
  }
  // Returns the problem of masks other than those read. Masks that tokenizers add say nothing of
  // training: special_tokens_mask, Longformer's global_attention_mask; neither do token_type_ids
  // and offset_mapping.
  std::string token_problem(const std::string& key, const Json& value) const {
    const bool other = key == "special_tokens_mask" || ends_with(key, "attention_mask");
    if (!other && value.is_array() && (ends_with(key, "mask") || ends_with(key, "masks")))
      return " is not read in tokens rows, and every token would be trained: name it with columns: {mask: " +
             key + "} if 1 is trained, or leave it out with ignore";
    if (rules_.stated == Stated::nothing && weighs(key, value))
      return " is not read in tokens rows, and all tokens would count alike: give 0 and 1 as mask, or leave "
             "it out with ignore";
    return "";
  }
  static bool weighs(const std::string& key, const Json& value) {
    return among(kWeights, key) &&
           (value.is_boolean() ? !value.get<bool>() : !value.is_string() && is_numbers(value) && value != 1);
  }
  static std::string media_problem(const std::string& ignore, const std::string& what = " is not text") {
    return what +
           ", which is all that forge trains on: leave such rows out, or train on only their text with " +
           ignore;
  }
  std::vector<std::string_view> read_texts() const {
    std::vector<std::string_view> texts;
    for (const auto& [key, inner] : row_.items())
      if (among(read_, key)) collect_texts(inner, texts);
    return texts;
  }
  static constexpr size_t kPhrase = 12;  // shorter contexts occur in answers by chance
  // True if its texts, each of at least this many bytes, also occur in what is read.
  bool is_said(const Json& value, size_t least) const {
    std::vector<std::string_view> parts;
    collect_texts(value, parts);
    const bool phrases =
        std::all_of(parts.begin(), parts.end(), [&](std::string_view part) { return part.size() >= least; });
    return phrases && all_stand_in(parts, read_texts());
  }
  // True if the value is the whole row written out: the first text read, a question, occurs in it.
  bool repeats(const Json& value) const {
    const std::vector<std::string_view> read = read_texts();
    return value.is_string() && !read.empty() &&
           value.get_ref<const std::string&>().find(read[0]) != std::string::npos;
  }

  void check_turns(const std::string& list, const Json& turns) {
    if (!turns.is_array()) return;
    for (size_t i = 0; i < turns.size(); ++i) {
      if (!turns[i].is_object()) continue;
      for (const auto& [key, value] : turns[i].items()) {
        if (is_blank(value) || among(kTurn, key) || is_training_flag(key)) continue;
        std::string problem;
        if (is_media_key(key))
          problem = media_problem("ignore: [" + key + "]",
                                  among(kMedia, folded(key)) ? " is not text" : " points to what is not text");
        else if (among(kTurnParts, folded(key)))
          problem = " is not read in turns, and what it leaves out would be trained: write train: "
                    "true or false on the turn, or leave it out with ignore: [" + key + "]";
        if (!problem.empty())
          faults_.push_back({"/" + list + "/" + std::to_string(i) + "/" + key, key + problem, key});
        else if (!turns[i].contains("role") || !rules_.template_reads || !rules_.template_reads(key))
          note(list + "[]." + key);
      }
    }
  }
  // Notes a name once a row.
  void note(std::string name) {
    if (std::find(unread_.begin(), unread_.end(), name) == unread_.end()) unread_.push_back(std::move(name));
  }

  const Json& row_;
  const KeyRules& rules_;
  std::vector<std::string>& unread_;
  RowFaults& faults_;
  std::string_view read_;
};

// True if a question has <image> without a closing tag, which XML and HTML would write.
bool asks_with_picture(const Turn& turn) {
  return turn.role == "user" && turn.text.find("<image>") != std::string::npos &&
         turn.text.find("</image>") == std::string::npos;
}

}  // namespace

bool among(std::string_view words, std::string_view word) {
  if (word.empty() || word.find(' ') != word.npos) return false;
  for (size_t at = words.find(word); at != words.npos; at = words.find(word, at + 1)) {
    const size_t end = at + word.size();
    if ((at == 0 || words[at - 1] == ' ') && (end == words.size() || words[end] == ' ')) return true;
  }
  return false;
}

std::string folded(std::string_view key) {
  std::string name;
  for (size_t i = 0; i < key.size(); ++i) {
    const auto is = [&](size_t at, int (*kind)(int)) {
      return at < key.size() && kind(static_cast<unsigned char>(key[at])) != 0;
    };
    // A word begins here in chatHistory, but not in SYSTEM.
    if (i > 0 && is(i, std::isupper) && is(i - 1, std::islower)) name += '_';
    name += key[i] == ' ' || key[i] == '-' || key[i] == '.'
                ? '_'
                : static_cast<char>(std::tolower(static_cast<unsigned char>(key[i])));
  }
  return name;
}

bool is_media_key(std::string_view key) { return among(kMedia, folded(key)) || points_to_media(folded(key)); }

void check_keys(const Json& row, const KeyRules& rules, std::vector<std::string>& unread, RowFaults& faults) {
  // Reward functions read the other keys of prompt rows.
  if (rules.format != RowFormat::prompt) KeyCheck(row, rules, unread, faults).run();
}

void check_placeholders(const Row& row, RowFaults& faults) {
  if (std::ranges::any_of(text_of(row), asks_with_picture))
    faults.push_back(
        {"",
         "<image> stands for a picture, which forge does not train on: leave such rows out, or train on only "
         "their text with ignore: [images]",
         "<image>"});
}

bool stands_in(const Json& part, const Json& whole) {
  std::vector<std::string_view> parts, texts;
  collect_texts(part, parts);
  collect_texts(whole, texts);
  return all_stand_in(parts, texts);
}

}  // namespace forge
