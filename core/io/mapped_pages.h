#pragma once
// What is to become of the pages of a mapped file, whole or in part.
#include <memory>
#include <string_view>

namespace forge {

// They are read at once: asked for as a whole. Page by page, by threads that each read another tensor, a disk gives a tenth of what it can.
void read_ahead(std::string_view mapped);
// They need not stay in memory: those of a read-only mapping are read from the file again when needed.
void let_go(std::string_view mapped);
// The same pages under an address of their own, which the file's mapping may go before. Null for what is not of a file's shared mapping.
std::shared_ptr<const char> map_again(std::string_view mapped);

}  // namespace forge
