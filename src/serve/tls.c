/* Certificates, with GnuTLS beneath libmicrohttpd. That one reads its pair once, at the start. A renewed pair reaches new
 * connections by being set on their sessions before the handshake; those that are open keep the one they began with. */
#include "serve/tls.h"
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <string.h>

#define CHAIN_MAX 32           /* certificates of a file */

struct hy_tls {
    uint32_t refs;
    char *cert, *key;
    size_t n_cert, n_key;
    gnutls_certificate_credentials_t cred;
};

/* Both parts read one by one: gnutls_certificate_set_x509_key_mem loses the certificate of a broken pair (3.7). */
static int set_pair(hy_tls *t)
{
    const gnutls_datum_t cert = { (unsigned char *)t->cert, (unsigned)t->n_cert };
    const gnutls_datum_t key = { (unsigned char *)t->key, (unsigned)t->n_key };
    gnutls_x509_privkey_t own;
    int rc = gnutls_x509_privkey_init(&own);
    if (rc < 0) return rc;
    gnutls_x509_crt_t chain[CHAIN_MAX];
    unsigned n = CHAIN_MAX;
    rc = gnutls_x509_privkey_import2(own, &key, GNUTLS_X509_FMT_PEM, NULL, 0);
    if (rc >= 0) {
        rc = gnutls_x509_crt_list_import(chain, &n, &cert, GNUTLS_X509_FMT_PEM, GNUTLS_X509_CRT_LIST_IMPORT_FAIL_IF_EXCEED);
        if (rc >= 0) {
            rc = gnutls_certificate_set_x509_key(t->cred, chain, (int)n, own); /* keeps copies */
            for (unsigned i = 0; i < n; i++) gnutls_x509_crt_deinit(chain[i]);
        }
    }
    gnutls_x509_privkey_deinit(own);
    return rc;
}

static hy_status load(hy_tls *t, const char *cert_path, const char *key_path, hy_err *err)
{
    HY_TRY(hy_read_file(cert_path, HY_MIB, &t->cert, &t->n_cert, err));
    HY_TRY(hy_read_file(key_path, HY_MIB, &t->key, &t->n_key, err));
    if (gnutls_certificate_allocate_credentials(&t->cred) < 0) return hy_fail_memory(err, "certificate", t->n_cert);
    int rc = set_pair(t);
    if (rc < 0)
        return hy_fail(err, HY_E_FORMAT, "TLS: certificate %s and key %s: %s", cert_path, key_path, gnutls_strerror(rc));
    return HY_OK;
}

hy_status hy_tls_open(hy_tls **out, const char *cert_path, const char *key_path, hy_err *err)
{
    hy_tls *t = HY_NEW(hy_tls);
    if (!t) return hy_fail_memory(err, "certificate", sizeof *t);
    t->refs = 1;
    hy_status st = load(t, cert_path, key_path, err);
    if (st == HY_OK) *out = t;
    else hy_tls_unref(t);
    return st;
}

hy_tls *hy_tls_ref(hy_tls *t)
{
    t->refs++;
    return t;
}

void hy_tls_unref(hy_tls *t)
{
    if (!t || --t->refs) return;
    if (t->cred) gnutls_certificate_free_credentials(t->cred);
    if (t->key) explicit_bzero(t->key, t->n_key);
    hy_free(t->key);
    hy_free(t->cert);
    hy_free(t);
}

const char *hy_tls_cert(const hy_tls *t)
{
    return t->cert;
}

const char *hy_tls_key(const hy_tls *t)
{
    return t->key;
}

hy_status hy_tls_set(hy_tls *t, void *session, hy_err *err)
{
    int rc = gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, t->cred);
    return rc < 0 ? hy_fail(err, HY_E_INTERNAL, "TLS: %s", gnutls_strerror(rc)) : HY_OK;
}
