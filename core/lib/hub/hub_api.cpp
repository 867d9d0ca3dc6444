#include "core/lib/hub/hub_api.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "core/lib/base/error.h"
#include "core/lib/base/file.h"
#include "core/lib/base/format.h"
#include "core/lib/base/text.h"
#include "core/lib/io/json.h"
#include "core/lib/net/http_many.h"

namespace forge {
namespace {

constexpr int kAttempts = 6;  // consecutive ones that brought next to nothing
constexpr int64_t kLeastBytesPerSecond = 64;  // over a minute: less is no transfer
constexpr int64_t kWorthAnAttempt = 4096;     // bytes: more than such a minute brings
constexpr double kAnswerSeconds = 600;        // a listing, which is at most 64 MiB
constexpr double kFirstWait = 0.5, kLongestWait = 300;

std::string encode(const std::string& text, bool slashes) {
  std::string url;
  for (const char letter : text) {
    const auto c = static_cast<unsigned char>(letter);
    if (std::isalnum(c) || c == '-' || c == '_' || c == '.' || c == '~' || (slashes && c == '/'))
      url += letter;
    else
      url += fmt::format("%{:02X}", c);
  }
  return url;
}

std::string file_url(const HubServer& server, const HubRepository& repository, const std::string& commit, const std::string& path) {
  return server.endpoint + (repository.kind == HubKind::dataset ? "/datasets/" : "/") + repository.name + "/resolve/" + commit + "/" +
         encode(path, true);
}

std::string header(const HttpAnswer& answer, const std::string& name) {
  const auto found = answer.headers.find(name);
  return found == answer.headers.end() ? "" : found->second;
}

std::string without_quotes(std::string tag) {
  if (starts_with(tag, "W/")) tag.erase(0, 2);
  std::erase(tag, '"');
  return lower(tag);
}

int64_t number_or(const std::string& text, int64_t otherwise) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && value >= 0 ? value : otherwise;
}

std::string reason_of(const HttpAnswer& answer) {
  if (!answer.failure.empty()) return answer.failure;
  if (answer.status == 429) return "the server asks to wait (429)";
  return "the server answered " + std::to_string(answer.status);
}

[[noreturn]] void refuse(const HubServer& server, const HubRepository& repository, const HttpAnswer& answer, const std::string& what) {
  const std::string code = header(answer, "x-error-code"), said = header(answer, "x-error-message");
  const std::string place = repository.name + (what.empty() ? "" : "/" + what);
  const auto fail = [&](const std::string& problem, const std::string& hint) {
    throw Error(ErrorKind::environment, place + ": " + problem).hint(hint);
  };
  const bool gated = code == "GatedRepo" || answer.status == 403;
  if (code == "RevisionNotFound") fail("has no revision " + repository.revision, "see the branches and tags at " + server.endpoint + "/" + repository.name);
  if (code == "EntryNotFound") fail("is not in revision " + repository.revision, "");
  if (gated && server.token.empty())
    fail("is gated: it needs the token of an account that accepted its terms", "accept them on its page, then set HF_TOKEN");
  if (gated) fail("is gated, and this token's owner has not been granted access", "accept its terms on its page with the account of HF_TOKEN");
  if (answer.status == 401 && !server.token.empty()) fail("the hub does not accept this token", "check HF_TOKEN, or log in again: hf auth login");
  if (answer.status == 401 || answer.status == 404 || code == "RepoNotFound")
    fail(std::string("is not on ") + server.endpoint + (server.token.empty() ? ", or is private" : ""),
         server.token.empty() ? "check the name; for a private repository set HF_TOKEN" : "check the name and whether the token may read it");
  throw Error(ErrorKind::environment, place + ": " + reason_of(answer) + (said.empty() ? "" : ": " + said))
      .hint("try again; what was fetched is kept");
}

// Waits before another attempt, or throws if there is none left.
void wait_or_refuse(const HubServer& server, const HubRepository& repository, const HttpAnswer& answer, const std::string& what,
                    int attempt) {
  if (!worth_another(answer) || attempt + 1 >= kAttempts) refuse(server, repository, answer, what);
  const double backoff = kFirstWait * static_cast<double>(1 << attempt);
  const auto asked = static_cast<double>(number_or(header(answer, "retry-after"), -1));
  const double seconds = std::min(answer.status == 429 && asked >= 0 ? std::max(asked, 0.1) : backoff, kLongestWait);
  if (server.say) server.say(repository.name + ": " + reason_of(answer) + "; trying again in " + format_number(seconds) + " s");
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

HttpAnswer ask(const HubServer& server, const HubRepository& repository, HttpRequest request, const std::string& what) {
  request.token = server.token;
  request.total_seconds = kAnswerSeconds;
  for (int attempt = 0;; ++attempt) {
    HttpAnswer answer = http_request(request);
    if (answer.failure.empty() && (answer.status / 100 == 2 || answer.status / 100 == 3)) return answer;
    wait_or_refuse(server, repository, answer, what, attempt);
  }
}

// True if a path stays in the snapshot. A repository names its files itself, so no name may lead
// out of it.
bool stays_inside(const std::string& path) {
  const std::vector<std::string> parts = split(path, '/');
  return !path.empty() && path.size() < 1024 && std::all_of(parts.begin(), parts.end(), [](const std::string& part) {
    return !part.empty() && part != "." && part != ".." && part.size() < 256 &&
           std::none_of(part.begin(), part.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f || c == '\\'; });
  });
}

bool is_digest(const std::string& text) {
  return (text.size() == 40 || text.size() == 64) && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

HubFile file_of(const Json& item, const std::string& name) {
  HubFile file{.path = item.at("rfilename").get<std::string>()};
  if (!stays_inside(file.path)) throw Error(ErrorKind::environment, name + ": names a file " + dump_json(file.path) + ", which leads out of its folder");
  const Json* lfs = item.contains("lfs") && item["lfs"].is_object() ? &item["lfs"] : nullptr;
  if (item.contains("size") && item["size"].is_number_integer()) file.size = item["size"].get<int64_t>();
  if (lfs && lfs->contains("sha256") && lfs->at("sha256").is_string())
    file.hash = lfs->at("sha256").get<std::string>();
  else if (!lfs && item.contains("blobId") && item["blobId"].is_string())
    file.hash = item["blobId"].get<std::string>();
  if (!is_digest(file.hash)) file.hash.clear();
  return file;
}

// Appends the content of answers to a file.
class Download {
 public:
  Download(const std::string& path, const HubFile& file, const std::function<void(int64_t)>& shown)
      : path_(path), file_(file), shown_(shown), handle_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)) {
    if (handle_ < 0) throw Error(ErrorKind::environment, path + ": cannot be written: " + std::strerror(errno));
    have_ = std::max<int64_t>(0, ::lseek(handle_, 0, SEEK_END));
    if (file_.size >= 0 && have_ > file_.size) restart();
  }
  ~Download() { ::close(handle_); }
  Download(const Download&) = delete;
  Download& operator=(const Download&) = delete;

  int64_t have() const { return have_; }
  bool complete() const { return file_.size >= 0 && have_ == file_.size; }

  void restart() {
    if (::ftruncate(handle_, 0) != 0) fail();
    have_ = 0;
    ::lseek(handle_, 0, SEEK_SET);
  }

  // Called where the answer begins. A server without support for ranges sends the whole file.
  void begin(const HttpAnswer& head) {
    const std::string range = header(head, "content-range");
    if (have_ > 0 && !(head.status == 206 && starts_with(range, "bytes " + std::to_string(have_) + "-"))) restart();
  }

  void write(std::string_view bytes) {
    if (file_.size >= 0 && have_ + static_cast<int64_t>(bytes.size()) > file_.size)
      throw Error(ErrorKind::environment, file_.path + ": the server sends more than the " + format_count(file_.size) + " bytes it stated");
    while (!bytes.empty()) {
      const ssize_t count = ::write(handle_, bytes.data(), bytes.size());
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) fail();
      have_ += count;
      bytes.remove_prefix(static_cast<size_t>(count));
    }
    if (shown_) shown_(have_);
  }

  void sync() {
    if (::fsync(handle_) != 0) fail();
  }

 private:
  [[noreturn]] void fail() const {
    throw Error(ErrorKind::environment, path_ + ": cannot be written: " + std::strerror(errno));
  }

  const std::string& path_;
  const HubFile& file_;
  const std::function<void(int64_t)>& shown_;
  int handle_ = -1;
  int64_t have_ = 0;
};

}  // namespace

HubServer hub_server(const EnvironmentLookup& environment) {
  const auto set = [&](const char* name) -> std::string { return environment(name).value_or(""); };
  HubServer server{.endpoint = set("HF_ENDPOINT")};
  if (server.endpoint.empty()) server.endpoint = "https://huggingface.co";
  if (!starts_with(server.endpoint, "http://") && !starts_with(server.endpoint, "https://"))
    throw Error(ErrorKind::environment, "HF_ENDPOINT is \"" + server.endpoint + "\", which is not a URL").hint("write https:// in front");
  while (server.endpoint.ends_with('/')) server.endpoint.pop_back();
  const std::string implicit = lower(set("HF_HUB_DISABLE_IMPLICIT_TOKEN"));
  if (implicit == "1" || implicit == "true" || implicit == "yes" || implicit == "on") return server;
  server.token = set("HF_TOKEN");
  if (server.token.empty()) server.token = set("HUGGING_FACE_HUB_TOKEN");
  if (!server.token.empty()) return server;
  const std::string stated = set("HF_TOKEN_PATH"), path = stated.empty() ? hub_home(environment) + "/token" : stated;
  if (file_exists(path)) server.token = std::string(trim(read_file(path, 4096, ErrorKind::environment)));
  return server;
}

HubListing list_files(const HubServer& server, const HubRepository& repository) {
  const std::string kind = repository.kind == HubKind::model ? "models/" : "datasets/";
  const std::string url = server.endpoint + "/api/" + kind + repository.name + "/revision/" + encode(repository.revision, false) + "?blobs=true";
  return listing_of(ask(server, repository, {.url = url}, "").body, url, repository.name);
}

HubListing listing_of(const std::string& body, const std::string& url, const std::string& name) {
  const Json said = parse_json(body, url, ErrorKind::environment);
  const auto broken = [&](const std::string& what) { return Error(ErrorKind::environment, url + ": " + what + "; this is not the answer of a hub"); };
  if (!said.is_object() || !said.contains("sha") || !said["sha"].is_string() || !said.contains("siblings") || !said["siblings"].is_array())
    throw broken("holds no sha and siblings");
  HubListing listing{.commit = said["sha"].get<std::string>()};
  if (!is_commit(listing.commit)) throw broken("sha is not a commit");
  for (const Json& item : said["siblings"]) {
    if (!item.is_object() || !item.contains("rfilename") || !item["rfilename"].is_string()) throw broken("a sibling has no rfilename");
    listing.files.push_back(file_of(item, name));
  }
  return listing;
}

HubFile look_up(const HubServer& server, const HubRepository& repository, const std::string& commit, const HubFile& file) {
  // The answer before a redirect is the hub's own. It states the hash.
  const HttpAnswer answer =
      ask(server, repository, {.url = file_url(server, repository, commit, file.path), .method = "HEAD", .follow = false}, file.path);
  const auto either = [&](const char* linked, const char* own) {
    const std::string text = header(answer, linked);
    return text.empty() ? header(answer, own) : text;
  };
  HubFile known = file;
  known.hash = without_quotes(either("x-linked-etag", "etag"));
  if (!is_digest(known.hash))
    throw Error(ErrorKind::environment, repository.name + "/" + file.path + ": the server states no hash to check it with");
  known.size = number_or(either("x-linked-size", "content-length"), -1);
  return known;
}

void download(const HubServer& server, const HubRepository& repository, const std::string& commit, const HubFile& file,
              const std::string& path, const std::function<void(int64_t bytes)>& shown) {
  Download to(path, file, shown);
  const HttpSink sink{[&](const HttpAnswer& head) { to.begin(head); }, [&](std::string_view bytes) { to.write(bytes); }};
  HttpRequest request{.url = file_url(server, repository, commit, file.path), .token = server.token};
  request.least_bytes_per_second = kLeastBytesPerSecond;
  bool begun_anew = false;
  for (int attempt = 0; !to.complete();) {
    const int64_t before = to.have();
    request.from_byte = before;
    const HttpAnswer answer = http_request(request, sink);
    const bool whole = answer.failure.empty() && answer.status / 100 == 2;
    if (whole && (file.size < 0 || to.complete())) break;
    if (whole && to.have() == 0 && file.size == 0) break;
    // The bytes there do not begin this file.
    if (answer.status == 416 && before > 0 && !begun_anew) {
      to.restart();
      begun_anew = true;
      continue;
    }
    attempt = to.have() - before >= kWorthAnAttempt ? 0 : attempt + 1;
    HttpAnswer told = answer;
    if (whole) told.failure = "the answer ended after " + format_count(to.have()) + " of " + format_count(file.size) + " bytes";
    wait_or_refuse(server, repository, told, file.path, attempt);
  }
  to.sync();
}

}  // namespace forge
