#pragma once
// What to write where rows say something in a way that no format reads. Each returns a hint, or "" when it has none.
#include <string>
#include <vector>

#include "core/data/rows/rows.h"

namespace forge {

// Of answers that are judged or compared otherwise: labels of other words or numbers, two answers next to each other
// (response_0, response_1), lists of answers with ranks.
std::string judgement_advice(const std::vector<LocatedRow>& rows, RowFormat format);

// Of rows that hold whole columns: as pandas writes them without orient, or a dictionary of lists.
std::string container_advice(const std::vector<LocatedRow>& rows);

// Of rows without keys that could be mapped: lists, bare texts, numbered rows, and rows under `row`, as Hugging Face's datasets
// server answers.
std::string shape_advice(const std::vector<LocatedRow>& rows);

}  // namespace forge
