#pragma once
// Similarity of an answer to a reference, from 0 to 1, computed like the field's reference
// programs. Of several references the one with the highest value counts, for each measure by
// itself.
//
//   exact_match  SQuAD's: equal after normalisation (lower case; without ASCII punctuation and the
//                articles a, an, the; one blank between words)
//   f1           SQuAD's: harmonic mean of precision and recall over the normalised words; where
//                one side has no words, 1 if neither has (like SQuAD 2.0's script)
//   rouge_l      ROUGE-L's F measure like the rouge_score package, without stemming: words are runs
//                of a-z and 0-9 after lower case, and the longest common subsequence is divided by
//                both lengths
//
// Sources: Rajpurkar et al., SQuAD (2016, evaluate-v2.0.py); Lin, ROUGE (2004); rouge_score 0.1.2.
#include <string>
#include <string_view>
#include <vector>

namespace forge {

struct TextMetrics {
  double exact_match = 0, f1 = 0, rouge_l = 0;
};

// Returns the metrics. `answer` and `references` are valid UTF-8; there is at least one reference.
TextMetrics text_metrics(std::string_view answer, const std::vector<std::string>& references);

}  // namespace forge
