#include "launcher/supervise/stacks.h"

#include <string>

#include "launcher/supervise/child.h"
#include "launcher/supervise/environment.h"
#include "launcher/supervise/program.h"
#include "launcher/supervise/rank_stream.h"

namespace hookline {

pid_t start_writing_stacks(pid_t process, const std::filesystem::path& file) {
  try {
    const Program gdb = find_program(
        {"gdb", "-nx", "-batch", "-p", std::to_string(process), "-ex", "thread apply all -s backtrace"},
        search_path());
    const FileDescriptor out = open_log(file);
    ChildSpec child;
    child.program = gdb.executable;
    child.arguments = gdb.arguments;
    child.environment = own_environment();
    child.standard_output = child.standard_error = out.get();
    return spawn(child);
  } catch (const std::exception&) {
    return -1;
  }
}

}  // namespace hookline
