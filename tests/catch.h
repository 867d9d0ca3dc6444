#pragma once
// Catch2, in the names of its second version, which Debian 12 has; Debian 13 has the third.
//
// torch defines CHECK too, and its CHECK would abort the process: it is undefined here unless it is
// Catch2's.
#if defined(CHECK) && !defined(TWOBLUECUBES_SINGLE_INCLUDE_CATCH_HPP_INCLUDED) && \
    !defined(CATCH_TEST_MACROS_HPP_INCLUDED)
#undef CHECK
#endif
#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>

#include <string>

using Catch::Approx;

namespace Catch {

using Matchers::EndsWith;
using Matchers::Equals;
using Matchers::StartsWith;
inline auto Contains(const std::string& part) { return Matchers::ContainsSubstring(part); }

}  // namespace Catch
#else
#include <catch2/catch.hpp>
#endif
