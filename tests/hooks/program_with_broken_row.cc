// A program whose hook row has a misspelt field.
[[gnu::used, gnu::retain, gnu::section("hookline_hooks")]] static const char row[] =
    R"({"name": "sign", "summary": "Sends signs.", "wrapable": false})";

int main() { return 0; }
