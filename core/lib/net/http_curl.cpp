// The component that implements http.h: libcurl for the wire, OpenSSL for digests. It uses only
// what libcurl 7.76 has (RHEL 9; Ubuntu 22.04 has 7.81), which newer headers call deprecated.
#define CURL_DISABLE_DEPRECATION
#include <curl/curl.h>
#include <openssl/evp.h>

#include <array>
#include <exception>
#include <memory>
#include <mutex>
#include <utility>

#include "core/lib/base/error.h"
#include "core/lib/base/file.h"
#include "core/lib/base/format.h"
#include "core/lib/base/text.h"
#include "core/lib/net/http_component.h"

namespace forge {
namespace {

struct Transfer {
  CURL* easy;
  const HttpRequest& request;
  const HttpSink& sink;
  HttpAnswer answer{};
  bool begun = false, too_long = false;
  std::exception_ptr thrown{};  // thrown by the sink: nothing may unwind through libcurl
};

long status_of(CURL* easy) {
  long status = 0;
  curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
  return status;
}

// Reads a line of a head. Each answer of a chain of redirects starts with no headers.
size_t take_header(const char* text, size_t size, size_t count, void* user) {
  auto& answer = static_cast<Transfer*>(user)->answer;
  const std::string line(text, size * count);
  if (starts_with(line, "HTTP/")) answer.headers.clear();
  const size_t colon = line.find(':');
  if (colon != std::string::npos) answer.headers[lower(line.substr(0, colon))] = std::string(trim(line.substr(colon + 1)));
  return size * count;
}

// Another count than the one it was given ends a transfer.
size_t refused(std::string_view part) { return part.size() + 1; }

size_t take_body(const char* bytes, size_t size, size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  transfer.answer.status = status_of(transfer.easy);  // known when the body begins
  const std::string_view part(bytes, size * count);
  const bool good = transfer.answer.status / 100 == 2;
  if (!good || !transfer.sink.write) {
    transfer.too_long = static_cast<int64_t>(transfer.answer.body.size() + part.size()) > transfer.request.most_bytes;
    if (transfer.too_long) return refused(part);
    transfer.answer.body += part;
    return part.size();
  }
  try {
    if (!std::exchange(transfer.begun, true)) transfer.sink.begin(transfer.answer);
    transfer.sink.write(part);
  } catch (...) {
    transfer.thrown = std::current_exception();
  }
  return transfer.thrown ? refused(part) : part.size();
}

// Frees what a C library made.
template <auto kFree>
struct FreedBy {
  void operator()(auto* made) const { kFree(made); }
};

template <class Value>
void set(CURL* easy, CURLoption option, Value value) {
  const CURLcode code = curl_easy_setopt(easy, option, value);
  FORGE_CHECK(code == CURLE_OK, "libcurl's option " << option << ": " << curl_easy_strerror(code));
}

// Sets everything that does not depend on the transfer.
void set_request(CURL* easy, const HttpRequest& wanted) {
  const bool plain = starts_with(lower(wanted.url), "http://");  // a server that the user named: then its redirects may be plain, too
  set(easy, CURLOPT_URL, wanted.url.c_str());
  const long protocols = CURLPROTO_HTTPS | (plain ? CURLPROTO_HTTP : 0);
  set(easy, CURLOPT_PROTOCOLS, protocols);
  set(easy, CURLOPT_REDIR_PROTOCOLS, protocols);
  set(easy, CURLOPT_NOSIGNAL, 1L);
  set(easy, CURLOPT_FOLLOWLOCATION, wanted.follow ? 1L : 0L);
  set(easy, CURLOPT_MAXREDIRS, 10L);
  set(easy, CURLOPT_UNRESTRICTED_AUTH, 0L);
  set(easy, CURLOPT_USERAGENT, "forge");
  set(easy, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(wanted.connect_seconds * 1000));
  set(easy, CURLOPT_LOW_SPEED_LIMIT, static_cast<long>(wanted.least_bytes_per_second));
  set(easy, CURLOPT_LOW_SPEED_TIME, static_cast<long>(wanted.idle_seconds + 0.999));
  set(easy, CURLOPT_TIMEOUT_MS, static_cast<long>(wanted.total_seconds * 1000));
  if (!wanted.token.empty()) {
    set(easy, CURLOPT_HTTPAUTH, static_cast<long>(CURLAUTH_BEARER));
    set(easy, CURLOPT_XOAUTH2_BEARER, wanted.token.c_str());
  }
  if (wanted.method == "HEAD") set(easy, CURLOPT_NOBODY, 1L);
  if (wanted.method == "POST") {
    set(easy, CURLOPT_POST, 1L);
    set(easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(wanted.body.size()));
    set(easy, CURLOPT_POSTFIELDS, wanted.body.c_str());
  }
  // libcurl copies the text.
  if (wanted.from_byte > 0) set(easy, CURLOPT_RANGE, (std::to_string(wanted.from_byte) + "-").c_str());
}

HttpAnswer request(const HttpRequest& wanted, const HttpSink& sink) {
  static std::once_flag once;
  std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
  const std::unique_ptr<CURL, FreedBy<&curl_easy_cleanup>> easy(curl_easy_init());
  FORGE_CHECK(easy, "libcurl gives no handle");
  Transfer transfer{easy.get(), wanted, sink};
  std::array<char, CURL_ERROR_SIZE> said{};
  set_request(easy.get(), wanted);
  set(easy.get(), CURLOPT_ERRORBUFFER, said.data());
  set(easy.get(), CURLOPT_HEADERFUNCTION, &take_header);
  set(easy.get(), CURLOPT_HEADERDATA, &transfer);
  set(easy.get(), CURLOPT_WRITEFUNCTION, &take_body);
  set(easy.get(), CURLOPT_WRITEDATA, &transfer);
  if (wanted.stopped) {
    set(easy.get(), CURLOPT_NOPROGRESS, 0L);
    set(easy.get(), CURLOPT_XFERINFODATA, static_cast<void*>(const_cast<HttpRequest*>(&wanted)));
    set(easy.get(), CURLOPT_XFERINFOFUNCTION, +[](void* user, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
      return static_cast<const HttpRequest*>(user)->stopped() ? 1 : 0;
    });
  }
  std::unique_ptr<curl_slist, FreedBy<&curl_slist_free_all>> headers;
  for (const std::string& line : wanted.headers)
    headers.reset(curl_slist_append(headers.release(), line.c_str()));
  if (headers) set(easy.get(), CURLOPT_HTTPHEADER, headers.get());

  const CURLcode code = curl_easy_perform(easy.get());
  if (transfer.thrown) std::rethrow_exception(transfer.thrown);
  transfer.answer.status = status_of(easy.get());
  if (transfer.too_long)
    transfer.answer.failure = "the answer is longer than " + format_bytes(wanted.most_bytes);
  else if (code != CURLE_OK)
    transfer.answer.failure = said[0] ? said.data() : curl_easy_strerror(code);
  return std::move(transfer.answer);
}

std::string digest_of(const std::string& path, Digest digest) {
  const RegularFile file(path, ErrorKind::environment);
  const std::unique_ptr<EVP_MD_CTX, FreedBy<&EVP_MD_CTX_free>> context(EVP_MD_CTX_new());
  FORGE_CHECK(context && EVP_DigestInit_ex(context.get(), digest == Digest::sha256 ? EVP_sha256() : EVP_sha1(), nullptr) == 1,
              "OpenSSL gives no digest");
  const auto add = [&](std::string_view bytes) {
    FORGE_CHECK(EVP_DigestUpdate(context.get(), bytes.data(), bytes.size()) == 1, "OpenSSL's digest");
  };
  if (digest == Digest::git_blob) add("blob " + std::to_string(file.size()) + std::string(1, '\0'));
  std::vector<char> block(size_t{1} << 20);
  for (int64_t at = 0; at < file.size();) {
    const auto count = static_cast<size_t>(std::min<int64_t>(file.size() - at, static_cast<int64_t>(block.size())));
    file.read_at(at, {block.data(), count});
    add({block.data(), count});
    at += static_cast<int64_t>(count);
  }
  std::array<unsigned char, EVP_MAX_MD_SIZE> bytes{};
  unsigned size = 0;
  FORGE_CHECK(EVP_DigestFinal_ex(context.get(), bytes.data(), &size) == 1, "OpenSSL's digest");
  std::string text;
  for (unsigned i = 0; i < size; ++i) text += fmt::format("{:02x}", bytes[i]);
  return text;
}

}  // namespace
}  // namespace forge

extern "C" __attribute__((visibility("default"))) const forge::HttpComponent* forge_http() {
  static const forge::HttpComponent table{&forge::request, &forge::digest_of};
  return &table;
}
