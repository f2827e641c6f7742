/* Private to serve/: a certificate and its key. Counted; all calls are the loop's. */
#ifndef HY_SERVE_TLS_H
#define HY_SERVE_TLS_H

#include "base/base.h"

typedef struct hy_tls hy_tls;
/* Reads and checks both PEM files: HY_E_IO where they cannot be read, HY_E_FORMAT where they are none or no pair. */
hy_status hy_tls_open(hy_tls **out, const char *cert_path, const char *key_path, hy_err *err);
hy_tls *hy_tls_ref(hy_tls *t);                 /* returns t */
void hy_tls_unref(hy_tls *t);                  /* accepts NULL */
const char *hy_tls_cert(const hy_tls *t);      /* PEM */
const char *hy_tls_key(const hy_tls *t);
/* session: a gnutls_session_t whose handshake has not begun; it uses t, which must stay as long. */
hy_status hy_tls_set(hy_tls *t, void *session, hy_err *err);

#endif
