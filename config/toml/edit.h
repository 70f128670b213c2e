// Changes of a TOML text that leave the rest of it as it was: comments, order, spacing.
#pragma once

#include <stdexcept>
#include <string>

#include "config/toml/source_text.h"
#include "config/toml/toml_keys.h"

namespace hookline {

/// A text that can't be changed as asked; what() says why.
class EditError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The text with `key` set to `value`, as TOML writes it ("2", "\"fp16\""). A key that is not there is added
/// below the comment that shows it, if there is one, else behind the others of its table; a table that is
/// not there comes last. Throws EditError for a text that
/// is not valid TOML.
std::string with_key(const SourceText& text, const KeyPath& key, const std::string& value);

/// The text without `key`, and without the comment behind it. Throws EditError if it is not there, or as
/// with_key does.
std::string without_key(const SourceText& text, const KeyPath& key);

/// The value of `key` as the text writes it; empty if it is not there.
std::string value_in(const SourceText& text, const KeyPath& key);

/// "ddp.comm_hook"; names that TOML would not read bare are quoted.
std::string key_text(const KeyPath& key);

}  // namespace hookline
