// A program or plug-in as the launcher sees it: its build information and, if it has hooks, their rows (the
// JSON in its ELF section hookline_hooks that describes each), without the hooks themselves.
#ifdef HOOK_ROW
[[gnu::used, gnu::retain, gnu::section("hookline_hooks")]] static const char row[] = HOOK_ROW;
#endif
#ifdef SECOND_HOOK_ROW
[[gnu::used, gnu::retain, gnu::section("hookline_hooks")]] static const char second_row[] = SECOND_HOOK_ROW;
#endif
[[gnu::used, gnu::retain, gnu::section("hookline_build")]] static const char build[] = BUILT_WITH;

int main() { return 0; }
