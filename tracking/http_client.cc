#include "tracking/http_client.h"

#include <curl/curl.h>

#include <array>
#include <utility>

#include "base/error.h"

namespace hookline {
namespace {

constexpr std::size_t kMostOfABody = 1'000'000;

std::size_t take(char* bytes, std::size_t size, std::size_t count, void* body) {
  std::string& text = *static_cast<std::string*>(body);
  if (text.size() < kMostOfABody) text.append(bytes, size * count);
  return size * count;
}

/// Initializes libcurl, before other threads use it, for the rest of the process.
void start_library() {
  static const CURLcode started = curl_global_init(CURL_GLOBAL_DEFAULT);
  if (started != CURLE_OK) throw Error(std::string("libcurl does not start: ") + curl_easy_strerror(started));
}

}  // namespace

struct HttpClient::Handle {
  CURL* curl = curl_easy_init();
  curl_slist* headers = nullptr;
  std::array<char, CURL_ERROR_SIZE> error{};

  ~Handle() {
    curl_slist_free_all(headers);
    curl_easy_cleanup(curl);
  }
};

HttpClient::HttpClient(HttpOptions options) : options_(std::move(options)) {
  start_library();
  handle_ = std::make_unique<Handle>();
  if (!handle_->curl) throw Error("libcurl makes no handle");
}

HttpClient::~HttpClient() = default;

HttpAnswer HttpClient::get(const std::string& url) {
  curl_easy_reset(handle_->curl);  // keeps connections
  return perform(url);
}

HttpAnswer HttpClient::post(const std::string& url, const std::string& json) {
  curl_easy_reset(handle_->curl);
  curl_easy_setopt(handle_->curl, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(json.size()));
  curl_easy_setopt(handle_->curl, CURLOPT_COPYPOSTFIELDS, json.c_str());
  return perform(url);
}

HttpAnswer HttpClient::perform(const std::string& url) {
  CURL* const curl = handle_->curl;
  const auto set = [curl](CURLoption option, auto value) { curl_easy_setopt(curl, option, value); };
  if (!handle_->headers) {
    handle_->headers = curl_slist_append(nullptr, "Content-Type: application/json");
    if (!options_.token.empty())
      handle_->headers =
          curl_slist_append(handle_->headers, ("Authorization: Bearer " + options_.token).c_str());
  }
  HttpAnswer answer;
  handle_->error[0] = '\0';
  set(CURLOPT_URL, url.c_str());
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_NOSIGNAL, 1L);  // leave signals to the program
  set(CURLOPT_HTTPHEADER, handle_->headers);
  set(CURLOPT_ERRORBUFFER, handle_->error.data());
  set(CURLOPT_WRITEFUNCTION, &take);
  set(CURLOPT_WRITEDATA, static_cast<void*>(&answer.body));
  set(CURLOPT_CONNECTTIMEOUT, static_cast<long>(options_.connect_timeout.count()));
  set(CURLOPT_TIMEOUT, static_cast<long>(options_.timeout.count()));
  if (options_.token.empty() && !(options_.user.empty() && options_.password.empty())) {
    set(CURLOPT_HTTPAUTH, static_cast<long>(CURLAUTH_BASIC));
    set(CURLOPT_USERNAME, options_.user.c_str());
    set(CURLOPT_PASSWORD, options_.password.c_str());
  }
  if (!options_.certificates.empty()) set(CURLOPT_CAINFO, options_.certificates.c_str());
  if (options_.trusts_anyone) {
    set(CURLOPT_SSL_VERIFYPEER, 0L);
    set(CURLOPT_SSL_VERIFYHOST, 0L);
  }
  const CURLcode code = curl_easy_perform(curl);
  if (code == CURLE_OK)
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &answer.status);
  else
    answer.problem = handle_->error[0] ? handle_->error.data() : curl_easy_strerror(code);
  return answer;
}

std::string HttpClient::escaped(const std::string& text) {
  start_library();
  const std::unique_ptr<char, void (*)(void*)> escaped(
      curl_easy_escape(nullptr, text.data(), static_cast<int>(text.size())), curl_free);
  if (!escaped) throw Error("libcurl can't escape '" + text + "'");
  return escaped.get();
}

}  // namespace hookline
