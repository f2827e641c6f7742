/* Status codes and error messages: shared by the public header and by every room. */
#ifndef HAYATE_STATUS_H
#define HAYATE_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

/* What went wrong, in kinds that a caller can act on. serve/ maps these to HTTP in one table. */
typedef enum hy_status {
    HY_OK = 0,
    HY_E_ARG,         /* a caller's value is wrong: flag, request field, parameter */
    HY_E_FORMAT,      /* a file or a text does not follow its format */
    HY_E_LIMIT,       /* well formed, but beyond a limit (context, pages, queue, depth) */
    HY_E_MEMORY,      /* an allocation failed */
    HY_E_IO,          /* the operating system refused to open, read, write or map */
    HY_E_UNSUPPORTED, /* well formed, but not something this build can do */
    HY_E_CANCELLED,   /* stopped because the caller asked */
    HY_E_BUSY,        /* well formed and possible, but not now: queue full, draining; try again later */
    HY_E_INTERNAL     /* our own promise was broken: a bug */
} hy_status;

/* Filled by a failing call, untouched by a succeeding one. The message names the thing, the value
 * and the limit. May be passed as NULL where the caller wants only the status. */
typedef struct hy_err {
    hy_status code;
    char msg[512];
} hy_err;

#ifdef __cplusplus
}
#endif
#endif
