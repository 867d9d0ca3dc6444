#pragma once
// HTTP requests through libcurl, which only the commands that ask for it load.
//
//   HttpAnswer answer = http_request({.url = "https://huggingface.co/api/models/org/name"});
//   if (answer.status == 200) parse(answer.body);
//
// libcurl stands in a component of its own, libforge-http.so: forge starts without it, and no other command can open a
// connection. Redirects are followed; a token goes to the first host alone.
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace forge {

struct HttpRequest {
  std::string url;
  std::string method = "GET";
  std::vector<std::string> headers{};  // "Name: value"
  std::string token{};                 // sent as Authorization: Bearer; empty: none
  std::string body{};
  int64_t from_byte = 0;               // asks for what follows, by Range
  int64_t most_bytes = int64_t{64} << 20;  // of a body that is kept in memory
  bool follow = true;
  double connect_seconds = 20;
  double idle_seconds = 60;            // with fewer bytes than least_bytes_per_second
  int64_t least_bytes_per_second = 1;
  double total_seconds = 0;            // 0: no limit
  std::function<bool()> stopped{};     // asked about once a second; true: the request is given up
};

struct HttpAnswer {
  int64_t status = 0;  // 0: no answer came
  std::map<std::string, std::string> headers;  // of the last answer; names in lower case
  std::string body;
  std::string failure;  // why the connection ended before the answer did, in libcurl's words; empty when it did not
};

// Where a body goes instead of HttpAnswer::body. `begin` is called once, before the first byte of a 2xx answer; either may
// return false to stop, which leaves HttpAnswer::failure empty.
struct HttpSink {
  std::function<bool(const HttpAnswer& head)> begin;
  std::function<bool(std::string_view bytes)> write;
};

// Throws Error(environment) when the component is not there. A network that fails is an answer.
HttpAnswer http_request(const HttpRequest& request, const HttpSink& sink = {});

enum class Digest {
  sha256,
  git_blob,  // SHA-1 of "blob SIZE\0" and the content, as git names a file
};

// Of a file's content, in lower-case hexadecimal digits. Throws Error(environment) when it cannot be read.
std::string file_digest(const std::string& path, Digest digest);

}  // namespace forge
