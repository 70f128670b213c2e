// What nodes tell each other of the run's store, and of the connections that their ranks have to it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace hookline {

/// One line of a LineStream. Each node numbers its connections.
struct StoreWord {
  enum class Kind {
    reached,  // once, and first: by which address the node has reached the one that serves the store
    open,     // a rank has connected
    data,     // what it sent, or what is sent to it
    end       // the connection is closed, or is to be closed
  };
  Kind kind = Kind::end;
  std::uint64_t connection = 0;
  std::string bytes = {};  // of data; of reached: the address, in digits
  int round = 0;           // of open: the round of the run that the rank is in
};

std::string to_line(const StoreWord& word);

/// Nothing if `line` is for the launcher: nodes' messages to each other are JSON.
std::optional<StoreWord> store_word_of(std::string_view line);

}  // namespace hookline
