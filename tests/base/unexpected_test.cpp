#include "core/lib/base/unexpected.h"

#include <filesystem>
#include <new>
#include <stdexcept>
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

TEST_CASE("what LibTorch adds for those who debug it is left out") {
  // This is LibTorch 2.11's own text, from an engine over tests/hollow.
  const std::runtime_error error(
      "r.cuStreamWriteValue32_ INTERNAL ASSERT FAILED at \"/pytorch/c10/cuda/driver_api.cpp\":22, please report a bug to PyTorch.\n"
      "Exception raised from create_driver_api at /pytorch/c10/cuda/driver_api.cpp:22 (most recent call first):\n"
      "frame #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x9d (0x7fb0791a9728 in libc10.so)\n");
  CHECK(message_of(error) ==
        "r.cuStreamWriteValue32_ INTERNAL ASSERT FAILED at \"/pytorch/c10/cuda/driver_api.cpp\":22, please report a bug to PyTorch.");
  CHECK(std::string(as_error(error).what()) == message_of(error));
}

TEST_CASE("An Error stays what it is") {
  const Error error = as_error(Error(ErrorKind::data, "message").hint("hint"));
  CHECK(error.kind() == ErrorKind::data);
  CHECK(std::string(error.what()) == "message");
  CHECK(error.hint() == "hint");
}
