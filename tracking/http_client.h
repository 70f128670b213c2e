// Sends JSON requests to a server that may be slow, refuse them, or not exist.
#pragma once

#include <chrono>
#include <memory>
#include <string>

namespace hookline {

struct HttpOptions {
  std::string user, password;  // sent unless both are empty, or there is a token
  std::string token;           // for "Authorization: Bearer"
  std::string certificates;    // a CA file; empty: the system's
  bool trusts_anyone = false;  // accept any server certificate
  std::chrono::seconds connect_timeout{3}, timeout{10};
};

struct HttpAnswer {
  long status = 0;      // 200, for example; 0: there was no answer
  std::string body;     // at most a megabyte of it
  std::string problem;  // why there was no answer
};

/// Keeps one connection for all requests (libcurl). Not thread-safe. Whatever the server does, it throws
/// nothing.
class HttpClient {
 public:
  explicit HttpClient(HttpOptions options);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  HttpAnswer get(const std::string& url);
  HttpAnswer post(const std::string& url, const std::string& json);

  /// Escapes a part of a URL: "a b" → "a%20b".
  static std::string escaped(const std::string& text);

 private:
  struct Handle;
  HttpAnswer perform(const std::string& url);

  HttpOptions options_;
  std::unique_ptr<Handle> handle_;
};

}  // namespace hookline
