// A program whose hook the launcher can find: it contains only the hook's row (the JSON that describes
// the hook), not the hook.
[[gnu::used, gnu::retain, gnu::section("hookline_hooks")]] static const char row[] =
    R"({"name": "sample_hook", "aliases": ["sample"], "summary": "Clips gradients, then averages them.",
        "options": [{"name": "max_norm", "type": "number", "default": 1.0, "at_least": 0, "unit": "units",
                     "help": "Largest norm left alone."}],
        "source": "a test"})";

int main() { return row[0] == '{' ? 0 : 1; }
