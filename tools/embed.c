/* embed OUT FILE...: writes a C file with the bytes of each FILE, for serve/page.h. Run by the build. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const types[][2] = {
    { ".html", "text/html; charset=utf-8" },      { ".css", "text/css; charset=utf-8" },
    { ".js", "text/javascript; charset=utf-8" },  { ".svg", "image/svg+xml" },
};

static const char *type_of(const char *name)
{
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot && i < sizeof types / sizeof *types; i++)
        if (strcmp(dot, types[i][0]) == 0) return types[i][1];
    return NULL;
}

static int fail(const char *what)
{
    perror(what);
    return 1;
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: embed OUT FILE...\n");
        return 2;
    }
    FILE *out = fopen(argv[1], "w");
    if (!out) return fail(argv[1]);
    fprintf(out, "/* Made by tools/embed.c from web/. */\n#include \"serve/page.h\"\n\n");
    for (int i = 2; i < argc; i++) {
        FILE *in = fopen(argv[i], "rb");
        if (!in) return fail(argv[i]);
        fprintf(out, "static const unsigned char file_%d[] = {", i);
        unsigned long n = 0;
        for (int c; (c = getc(in)) != EOF; n++) fprintf(out, "%s%d,", n % 24 ? "" : "\n", c);
        if (ferror(in)) return fail(argv[i]);
        fprintf(out, "0 };\n"); /* the 0 is not counted */
        fclose(in);
    }
    fprintf(out, "\nconst hy_page_file hy_page_files[] = {\n");
    for (int i = 2; i < argc; i++) {
        const char *slash = strrchr(argv[i], '/'), *name = slash ? slash + 1 : argv[i], *type = type_of(name);
        if (!type) {
            fprintf(stderr, "embed: %s: no type for this ending\n", argv[i]);
            return 1;
        }
        fprintf(out, "    { \"%s\", \"%s\", file_%d, sizeof file_%d - 1 },\n", name, type, i, i);
    }
    fprintf(out, "    { 0, 0, 0, 0 },\n};\n");
    return fclose(out) == 0 ? 0 : fail(argv[1]);
}
