#include "core/base/unexpected.h"

#include <filesystem>
#include <new>
#include <system_error>

#include "tests/test.h"

using namespace forge;

TEST_CASE("What the system refuses is no bug in forge") {
  CHECK(as_error(std::bad_alloc()).kind() == ErrorKind::fit);
  CHECK(as_error(std::system_error(std::make_error_code(std::errc::not_enough_memory))).kind() ==
        ErrorKind::fit);
  const Error thread =
      as_error(std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again)));
  CHECK(thread.kind() == ErrorKind::environment);
  CHECK(thread.hint().find("ulimit -u") != std::string::npos);
  CHECK(as_error(std::filesystem::filesystem_error("x", std::make_error_code(std::errc::io_error))).kind() ==
        ErrorKind::environment);
  CHECK(as_error(std::logic_error("x")).kind() == ErrorKind::internal);
}

TEST_CASE("An Error stays what it is") {
  const Error error = as_error(Error(ErrorKind::data, "message").hint("hint"));
  CHECK(error.kind() == ErrorKind::data);
  CHECK(std::string(error.what()) == "message");
  CHECK(error.hint() == "hint");
}
