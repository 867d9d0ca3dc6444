#pragma once
// Advice on what to write if rows say something in a way that no format reads. Each function
// returns a hint, or "" if it has none.
#include <string>
#include <vector>

#include "core/data/rows/rows.h"

namespace forge {

// Advice for answers that are judged or compared in other ways: labels of other words or numbers,
// two answers next to each other (response_0, response_1), lists of answers with ranks.
std::string judgement_advice(const std::vector<LocatedRow>& rows, RowFormat format);

// Advice for rows that hold whole columns: as pandas writes them without orient, or a dictionary of
// lists.
std::string container_advice(const std::vector<LocatedRow>& rows);

// Advice for rows of the file `path` without keys that could be mapped: lists, bare texts, numbered
// rows, and rows under `row`, as in the answers of Hugging Face's datasets server.
std::string shape_advice(const std::vector<LocatedRow>& rows, const std::string& path);

// Returns the path of the first list of rows below members that are objects ("data.train"), after
// `path`; empty if there is none.
std::string list_of_rows(const Json& object, const std::string& path = "");

}  // namespace forge
