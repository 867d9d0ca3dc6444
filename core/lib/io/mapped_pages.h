#pragma once
// Controls the pages of a mapped file, whole or in part.
#include <memory>
#include <string_view>

namespace forge {

// Asks for the pages as a whole, since they are read at once. A disk gives a tenth of its rate if
// threads that each read another tensor ask page by page.
void read_ahead(std::string_view mapped);
// Lets the pages leave memory: those of a read-only mapping are read from the file again when
// needed.
void let_go(std::string_view mapped);
// Maps the same pages at an address of their own. They stay mapped when the file's mapping is gone.
// Returns null for memory that is not of a file's shared mapping.
std::shared_ptr<const char> map_again(std::string_view mapped);

}  // namespace forge
