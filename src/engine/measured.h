/* Private to engine/: what was measured once and is kept in the user's cache folder. */
#ifndef HY_ENGINE_MEASURED_H
#define HY_ENGINE_MEASURED_H

#include "core.h"
#include "probe/probe.h"
#include "text/text.h"

/* ---- files in the cache folder: ${HAYATE_CACHE:-${XDG_CACHE_HOME:-~/.cache}}/hayate ------------- */

/* The folder's path; false when the environment names none. */
bool hy_cache_folder(hy_buf *out);
/* "<kind>-<hash of key>.json" in it; false as above. */
bool hy_cache_path(const char *kind, const char *key, hy_buf *out);
/* The object kept under a key; NULL when there is none, or it is broken or of another key. Caller decrefs. */
json_t *hy_cache_get(const char *kind, const char *key);
/* Keeps an object (its reference stays with the caller); false when it cannot be: nothing is lost by that. */
bool hy_cache_put(const char *kind, const char *key, json_t *value);
/* The path of a file in the folder, which is made when it is missing; false as above. */
bool hy_cache_file(const char *name, hy_buf *out);
void hy_cache_drop_kind(const char *kind); /* removes every file of a kind */

/* ---- the machine ------------------------------------------------------------------------------- */

/* Processor, counts, quota, features. Free with hy_free. */
char *hy_machine_text(const hy_topology *top);
/* The same and the version: what a measurement depends on. Free with hy_free. */
char *hy_machine_key(const hy_topology *top);
/* From the cache, or measured now and kept. cached: whether it came from there; may be NULL. */
hy_status hy_machine_probe(hy_probe *out, bool fresh, hy_progress_fn *progress, void *ctx, bool *cached,
                           hy_err *err);
/* What is kept of this machine, however old; false: it was never measured. */
bool hy_machine_kept(hy_probe *out);
json_t *hy_probe_json(const hy_probe *p); /* NULL when out of memory. Caller decrefs */

/* ---- steps of a session that are only measured (session.c) -------------------------------------- */

/* Empties the first `rows` sequences; checks that so many may run and that n_tok tokens fit. */
hy_status hy_session_restart(hy_session *s, uint32_t rows, uint64_t n_tok, hy_err *err);
/* `n` tokens more for each of `rows` sequences standing at pos0, in steps as large as they may be. */
hy_status hy_session_rows(hy_session *s, uint32_t rows, uint32_t pos0, uint32_t n, bool logits, hy_err *err);

#endif
