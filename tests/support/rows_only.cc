// A program or plug-in as far as the launcher can see it: a hook's row, and what it was built with. No hook is behind it.
#ifdef HOOK_ROW
[[gnu::used, gnu::retain, gnu::section("hookline_hooks")]] static const char row[] = HOOK_ROW;
#endif
#ifdef SECOND_HOOK_ROW
[[gnu::used, gnu::retain, gnu::section("hookline_hooks")]] static const char second_row[] = SECOND_HOOK_ROW;
#endif
[[gnu::used, gnu::retain, gnu::section("hookline_build")]] static const char build[] = BUILT_WITH;

int main() { return 0; }
