/* base: what every room stands on. May include libc only.
 *
 * Status and errors, allocation, arenas, buffers, mapped files, log, time, hashing, counter-based
 * random numbers, checked number parsing. */
#ifndef HY_BASE_H
#define HY_BASE_H

#include <hayate/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HY_KIB (1024ull)
#define HY_MIB (1024ull * 1024)
#define HY_GIB (1024ull * 1024 * 1024)
#define HY_MIN(a, b) ((a) < (b) ? (a) : (b))
#define HY_MAX(a, b) ((a) > (b) ? (a) : (b))
#define HY_COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define HY_ALIGN 64 /* bytes: a cache line, and the widest vector */
#define HY_ROUND_UP(n, m) (((n) + (m) - 1) / (m) * (m))
#define HY_PRINTF(f, a) __attribute__((format(printf, f, a)))
#define HY_INLINE static inline __attribute__((always_inline))

/* ---- status ---------------------------------------------------------------------------------- */

/* Pass a failure up. The callee has filled err. */
#define HY_TRY(call)                                                                               \
    do {                                                                                           \
        hy_status hy_try_ = (call);                                                                \
        if (hy_try_ != HY_OK) return hy_try_;                                                      \
    } while (0)

/* Writes the message into *err (when not NULL) and returns `code`: `return hy_fail(err, ...)`. */
hy_status hy_fail(hy_err *err, hy_status code, const char *fmt, ...) HY_PRINTF(3, 4);

/* Puts "prefix: " in front of the message in *err; returns `code`. For adding the file's name. */
hy_status hy_err_prefix(hy_err *err, hy_status code, const char *fmt, ...) HY_PRINTF(3, 4);

/* "argument", "format", ...; never NULL. */
const char *hy_status_name(hy_status code);

/* States what our own code promised; never reachable from files, requests or flags. */
#define HY_ASSERT(cond) ((cond) ? (void)0 : hy_assert_failed(#cond, __FILE__, __LINE__))
void hy_assert_failed(const char *cond, const char *file, int line) __attribute__((noreturn));

/* ---- allocation ------------------------------------------------------------------------------ */

/* All return NULL when out of memory (or when a test asked for it) and for sizes that overflow;
 * hy_alloc(0) returns a pointer that can be freed. Thread: any. */
void *hy_alloc(size_t n_bytes);
void *hy_calloc(size_t n, size_t size);                /* zeroed; n * size is checked */
void *hy_alloc_array(size_t n, size_t size);           /* not zeroed; n * size is checked */
void *hy_realloc(void *p, size_t n_bytes);             /* old block stays valid on NULL */
void *hy_realloc_array(void *p, size_t n, size_t size);
char *hy_strdup(const char *s);
char *hy_strndup(const char *s, size_t n);             /* exactly n bytes and a NUL */
void hy_free(void *p);                                 /* accepts NULL */
#define HY_NEW(type) ((type *)hy_calloc(1, sizeof(type)))
#define HY_NEW_ARRAY(type, n) ((type *)hy_calloc((n), sizeof(type)))

/* Large, HY_ALIGN-aligned, zeroed, page-backed memory (mmap; huge pages advised). */
void *hy_alloc_big(size_t n_bytes);
void hy_free_big(void *p, size_t n_bytes);
/* Takes the advice back, before the memory is touched: what huge pages are worth is to be measured. */
void hy_big_small_pages(void *p, size_t n_bytes);
/* Gives it again, to be followed when the system finds time. */
void hy_big_huge_pages(void *p, size_t n_bytes);
/* Bytes of it that will be written now: their pages come in one go rather than one by one. */
void hy_big_need(void *p, size_t n_bytes);

hy_status hy_fail_memory(hy_err *err, const char *what, uint64_t n_bytes);

/* Test hooks. After `n` more allocations the next one fails (and only that one); n < 0 switches the
 * hook off. hy_alloc_count counts every successful allocation since start: steps must not move it. */
void hy_alloc_fail_after(int64_t n);
uint64_t hy_alloc_count(void);
uint64_t hy_alloc_count_here(void);                    /* those of the calling thread */
int64_t hy_alloc_bytes_here(void);                     /* bytes it took less those it gave back */

/* ---- arena ----------------------------------------------------------------------------------- */

/* Many allocations, one lifetime. Owner: whoever created it; not shared between threads. */
typedef struct hy_arena hy_arena;
hy_arena *hy_arena_new(size_t block_bytes);            /* NULL when out of memory */
void *hy_arena_alloc(hy_arena *a, size_t n_bytes, size_t align); /* zeroed; NULL when out of memory */
char *hy_arena_strndup(hy_arena *a, const char *s, size_t n);
void hy_arena_reset(hy_arena *a);                      /* frees nothing, forgets everything */
size_t hy_arena_bytes(const hy_arena *a);              /* memory held */
void hy_arena_free(hy_arena *a);                       /* accepts NULL */
#define HY_ARENA_NEW(a, type, n)                                                                   \
    ((size_t)(n) > SIZE_MAX / sizeof(type)                                                         \
         ? (type *)NULL                                                                            \
         : (type *)hy_arena_alloc((a), sizeof(type) * (size_t)(n), _Alignof(type)))

/* ---- buf: a growing byte string, always NUL-terminated when data is not NULL ----------------- */

typedef struct hy_buf {
    char *data;
    size_t len, cap;
    bool failed; /* an allocation failed: content is truncated; check once at the end */
} hy_buf;
void hy_buf_put(hy_buf *b, const void *data, size_t n);
void hy_buf_str(hy_buf *b, const char *s);
void hy_buf_char(hy_buf *b, char c);
void hy_buf_printf(hy_buf *b, const char *fmt, ...) HY_PRINTF(2, 3);
bool hy_buf_reserve(hy_buf *b, size_t n_more);
void hy_buf_reset(hy_buf *b);                          /* len = 0, keeps the memory */
void hy_buf_free(hy_buf *b);

/* ---- files ----------------------------------------------------------------------------------- */

/* A file mapped read-only. Regular files only; an empty file maps as data = NULL, bytes = 0. */
typedef struct hy_map {
    const uint8_t *data;
    uint64_t bytes;
    int fd;
} hy_map;
hy_status hy_map_open(hy_map *m, const char *path, hy_err *err);
void hy_map_done_with(const hy_map *m, uint64_t offset, uint64_t n); /* let the kernel drop pages */
void hy_map_need(const hy_map *m, uint64_t offset, uint64_t n); /* they are read next: all at once is cheaper */
/* A few bytes of it, which must lie inside: reading them in place would map up to 2 MiB around them. */
void hy_map_peek(const hy_map *m, uint64_t offset, size_t n, void *out);
void hy_map_close(hy_map *m);                          /* accepts a zeroed struct */

/* The whole file in memory (NUL-terminated, NUL not counted); limit in bytes. Free with hy_free. */
hy_status hy_read_file(const char *path, uint64_t limit, char **data, size_t *n, hy_err *err);
/* Under a temporary name first: a reader sees the old file or the new one, whole. */
hy_status hy_write_file(const char *path, const char *data, size_t n, hy_err *err);
bool hy_make_folders(char *path);                      /* all that end with a '/' in it */
bool hy_is_dir(const char *path);
bool hy_is_file(const char *path);

/* ---- log ------------------------------------------------------------------------------------- */

typedef enum hy_log_level {
    HY_LOG_ERROR, HY_LOG_WARN, HY_LOG_INFO, HY_LOG_DEBUG, HY_LOG_TRACE
} hy_log_level;

/* One line to the sink: time, level, event, then "key=value ..." from the printf format (or NULL).
 * Never in kernels, never per token. Thread: any. */
void hy_log(hy_log_level level, const char *event, const char *fmt, ...) HY_PRINTF(3, 4);
void hy_log_set_level(hy_log_level level);             /* default: HY_LOG_WARN */
void hy_log_set_sink(void (*sink)(void *ctx, hy_log_level, const char *line), void *ctx);

/* ---- time ------------------------------------------------------------------------------------ */

uint64_t hy_now_us(void);                              /* monotonic */
uint64_t hy_now_ns(void);

/* ---- hash, random ---------------------------------------------------------------------------- */

uint64_t hy_hash64(const void *data, size_t n, uint64_t seed);

/* SHA-256 (FIPS 180-4): downloads, API keys. */
typedef struct hy_sha256 {
    uint32_t h[8];
    uint64_t n;                /* bytes so far */
    uint8_t block[64];
} hy_sha256;
void hy_sha256_init(hy_sha256 *s);
void hy_sha256_put(hy_sha256 *s, const void *data, size_t n);
/* 64 lower-case hex digits and a NUL. s must be initialised again before more is put. */
void hy_sha256_hex(hy_sha256 *s, char out[65]);

/* Counter-based random bits: a pure function of (seed, stream, counter), well mixed. */
uint64_t hy_rng_at(uint64_t seed, uint64_t stream, uint64_t counter);
/* Uniform in (0, 1): never 0, never 1. */
double hy_rng_unit(uint64_t bits);

/* ---- numbers about measurements (stats.c) ----------------------------------------------------- */

/* v: [n], n >= 1; it is sorted. q in 0..1, interpolated between ranks. */
double hy_quantile(double *v, uint32_t n, double q);
double hy_median(double *v, uint32_t n);
/* Mann and Whitney's rank test, two-sided: how likely it is that two samples of one distribution differ as much as
 * these. Exact for up to 40 values without equal ones, else by the normal distribution. Writes to neither. */
double hy_rank_test(const double *a, uint32_t n_a, const double *b, uint32_t n_b);
/* Did a speed change? Only if the lower of the medians is below the other by more than `floor` (a share of the other, so
 * that a change and its undoing are judged alike) and the rank test gives less than 5 %. Sorts both.
 * ratio: of the medians, now / before. p: of the test. */
typedef enum hy_change { HY_CHANGE_NONE, HY_CHANGE_FASTER, HY_CHANGE_SLOWER } hy_change;
hy_change hy_speed_change(double *before, uint32_t n_before, double *now, uint32_t n_now, double floor, double *ratio, double *p);

/* ---- rows of logits, in blocks ----------------------------------------------------------------- */

/* What is known of a row of logits without reading it again. The last matrix product keeps it while its outputs are
 * hot, the sampler reads it; block b is tokens [b * HY_LOGIT_BLOCK, (b + 1) * HY_LOGIT_BLOCK). */
#define HY_LOGIT_BLOCK 256
typedef struct hy_logit_row {
    float temperature;         /* of sum; 0: no sums */
    float *max;                /* [blocks] the largest logit of each */
    float *sum;                /* [blocks] the sum of exp(logit / temperature - max / temperature) */
} hy_logit_row;
HY_INLINE uint32_t hy_logit_blocks(uint32_t n_vocab)
{
    return n_vocab / HY_LOGIT_BLOCK + (n_vocab % HY_LOGIT_BLOCK != 0);
}
/* Measures one block: n logits at x, n <= HY_LOGIT_BLOCK; sum NULL: not wanted. */
typedef void hy_logit_block_fn(const void *ctx, const float *x, uint32_t n, float temperature, float *max, float *sum);

/* ---- numbers from text ----------------------------------------------------------------------- */

/* The whole string must be the number; `what` names it in the message, which gives the limits. */
hy_status hy_parse_u64(const char *what, const char *s, uint64_t min, uint64_t max, uint64_t *out,
                       hy_err *err);
hy_status hy_parse_i64(const char *what, const char *s, int64_t min, int64_t max, int64_t *out,
                       hy_err *err);
/* NaN and infinities are refused. */
hy_status hy_parse_f64(const char *what, const char *s, double min, double max, double *out,
                       hy_err *err);
/* "512", "16K", "4.5GiB", "2g" -> bytes (K = 1024). */
hy_status hy_parse_bytes(const char *what, const char *s, uint64_t *out, hy_err *err);

/* False on overflow, *out untouched. */
HY_INLINE bool hy_mul_u64(uint64_t a, uint64_t b, uint64_t *out)
{
    uint64_t r;
    if (__builtin_mul_overflow(a, b, &r)) return false;
    *out = r;
    return true;
}
HY_INLINE bool hy_add_u64(uint64_t a, uint64_t b, uint64_t *out)
{
    uint64_t r;
    if (__builtin_add_overflow(a, b, &r)) return false;
    *out = r;
    return true;
}

#endif
