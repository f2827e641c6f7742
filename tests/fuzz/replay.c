/* Runs a fuzz target over every file of the folders (or files) given, without libFuzzer: so the
 * corpus, with each crash ever found, is part of the ordinary tests under any compiler.
 *
 * Each input goes into a block of exactly its size, so that ASan sees a read past the end, and is
 * run a few more times cut short or with a byte changed, which costs little and finds much. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum { MUTATIONS = 64 };

static int run_bytes(const uint8_t *data, size_t n)
{
    uint8_t *block = malloc(n ? n : 1);
    if (!block) return 1;
    if (n) memcpy(block, data, n);
    LLVMFuzzerTestOneInput(block, n);
    free(block);
    return 0;
}

/* xorshift: the same mutations in every run */
static uint32_t next(uint32_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 17;
    *seed ^= *seed << 5;
    return *seed;
}

static int run_mutated(uint8_t *data, size_t n)
{
    uint32_t seed = (uint32_t)n * 2654435761u + 1;
    int bad = run_bytes(data, n);
    for (int i = 0; i < MUTATIONS && n > 0; i++) {
        size_t at = next(&seed) % n;
        uint8_t old = data[at];
        data[at] = (uint8_t)next(&seed);
        bad |= run_bytes(data, n);
        data[at] = old;
        bad |= run_bytes(data, next(&seed) % n);
    }
    return bad;
}

static int run_file(const char *path)
{
    FILE *in = fopen(path, "rb");
    long n = -1;
    if (in && fseek(in, 0, SEEK_END) == 0) n = ftell(in);
    uint8_t *data = n < 0 ? NULL : malloc((size_t)n + 1);
    int bad = 1;
    if (data) {
        rewind(in);
        bad = fread(data, 1, (size_t)n, in) != (size_t)n || run_mutated(data, (size_t)n);
    }
    if (bad) fprintf(stderr, "cannot replay %s\n", path);
    if (in) fclose(in);
    free(data);
    return bad;
}

static int run_folder(const char *path, int *n_file)
{
    DIR *d = opendir(path);
    int bad = !d;
    if (!d) fprintf(stderr, "cannot open the folder %s\n", path);
    for (struct dirent *e; d && (e = readdir(d));) {
        char name[4096];
        if (e->d_name[0] == '.') continue;
        snprintf(name, sizeof(name), "%s/%s", path, e->d_name);
        bad |= run_file(name);
        ++*n_file;
    }
    if (d) closedir(d);
    return bad;
}

int main(int argc, char **argv)
{
    int n_file = 0, bad = 0;
    for (int i = 1; i < argc; i++) {
        struct stat st;
        if (stat(argv[i], &st) == 0 && S_ISREG(st.st_mode)) {
            bad |= run_file(argv[i]);
            n_file++;
        } else {
            bad |= run_folder(argv[i], &n_file);
        }
    }
    printf("%d inputs, each with %d mutations twice\n", n_file, MUTATIONS);
    if (n_file == 0) fprintf(stderr, "nothing to replay\n");
    return bad || n_file == 0;
}
