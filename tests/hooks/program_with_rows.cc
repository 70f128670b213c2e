// A program with two hook rows in its executable, placed there as HOOKLINE_REGISTER_HOOK does. Nothing refers
// to them.
#define ROW(name, json) \
  [[gnu::used, gnu::retain, gnu::section("hookline_hooks")]] static const char name[] = json

ROW(first_row,
    R"({"name": "clip_allreduce", "summary": "Clips, then averages.", "options": [)"
    R"({"name": "max_norm", "type": "number", "default": 1.0, "at_least": 0, "help": "Largest norm."}]})");
ROW(second_row,
    R"({"name": "sign", "aliases": ["signum"], "summary": "Sends signs — 1 bit each.", "wrappable": false})");

int main() { return 0; }
