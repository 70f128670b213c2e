// Requests with JSON, to a server that may be slow, refuse, or not be there.
#pragma once

#include <chrono>
#include <memory>
#include <string>

namespace hookline {

struct HttpOptions {
  std::string user, password;  // both empty: none are sent
  std::string token;           // of "Authorization: Bearer"
  std::string certificates;    // a file of those that sign the server's; empty: the system's
  bool trusts_anyone = false;  // does not look at the server's certificate
  std::chrono::seconds connect_timeout{3}, timeout{10};
};

struct HttpAnswer {
  long status = 0;      // 200; 0: there was none
  std::string body;     // at most a megabyte of it
  std::string problem;  // why there was none
};

/// One connection, kept from request to request (libcurl). Not thread-safe. Never throws for what a server does.
class HttpClient {
 public:
  explicit HttpClient(HttpOptions options);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  HttpAnswer get(const std::string& url);
  HttpAnswer post(const std::string& url, const std::string& json);

  /// For a part of a URL: "a b" → "a%20b".
  static std::string escaped(const std::string& text);

 private:
  struct Handle;
  HttpAnswer perform(const std::string& url);

  HttpOptions options_;
  std::unique_ptr<Handle> handle_;
};

}  // namespace hookline
