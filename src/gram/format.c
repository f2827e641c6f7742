/* The formats of JSON Schema (validation, section 7.3) as regular expressions over the whole
 * string. */
#include "gram/gram_impl.h"

#define YEAR "(?:[1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])"
#define LEAP "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)"
/* RFC 3339, 5.6, with the days that each month has */
#define DATE                                                                                       \
    "(?:" YEAR                                                                                     \
    "-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"      \
    "|02-(?:0[1-9]|1[0-9]|2[0-8]))|" LEAP "-02-29)"
#define TIME                                                                                       \
    "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,9})?(?:Z|[+-](?:[01][0-9]|2[0-3]):["  \
    "0-5][0-9])"
#define LABEL "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
/* in an address no length is counted: a limit of 63 would take a state for every letter */
#define DOMAIN "[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
#define OCTET  "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
#define IPV4   OCTET "\\." OCTET "\\." OCTET "\\." OCTET
#define H16    "[0-9A-Fa-f]{1,4}"
#define LS32   "(?:" H16 ":" H16 "|" IPV4 ")"
/* RFC 3986, 3.2.2 */
#define IPV6                                                                                       \
    "(?:(?:" H16 ":){6}" LS32 "|::(?:" H16 ":){5}" LS32 "|(?:" H16 ")?::(?:" H16 ":){4}" LS32      \
    "|(?:(?:" H16 ":){0,1}" H16 ")?::(?:" H16 ":){3}" LS32 "|(?:(?:" H16 ":){0,2}" H16             \
    ")?::(?:" H16 ":){2}" LS32 "|(?:(?:" H16 ":){0,3}" H16 ")?::" H16 ":" LS32 "|(?:(?:" H16       \
    ":){0,4}" H16 ")?::" LS32 "|(?:(?:" H16 ":){0,5}" H16 ")?::" H16 "|(?:(?:" H16 ":){0,6}" H16   \
    ")?::)"
#define PCT   "%[0-9A-Fa-f]{2}"
#define UNRES "A-Za-z0-9._~\\-"
#define SUB   "!$&'()*+,;="
#define PCHAR "(?:[" UNRES SUB ":@]|" PCT ")"
#define AUTHORITY                                                                                  \
    "(?:(?:[" UNRES SUB ":]|" PCT ")*@)?(?:\\[" IPV6 "\\]|(?:[" UNRES SUB "]|" PCT ")*)(?::[0-9]*" \
                                                                                   ")?"
#define QUERY "(?:\\?(?:[/?]|" PCHAR ")*)?(?:#(?:[/?]|" PCHAR ")*)?"
#define URI                                                                                        \
    "[A-Za-z][A-Za-z0-9+.-]*:(?://" AUTHORITY "(?:/" PCHAR "*)*|/(?:" PCHAR "+(?:/" PCHAR          \
    "*)*)?|" PCHAR "+(?:/" PCHAR "*)*|)" QUERY
#define RELATIVE                                                                                   \
    "(?://" AUTHORITY "(?:/" PCHAR "*)*|/(?:" PCHAR "+(?:/" PCHAR "*)*)?|(?:[" UNRES SUB "@]|" PCT \
    ")+(?:/" PCHAR "*)*|)" QUERY
#define POINTER "(?:/(?:[^/~]|~[01])*)*"

static const struct {
    const char *name, *regex; /* NULL: known, cannot be enforced */
} formats[] = {
    {"date", DATE},
    {"time", TIME},
    {"date-time", DATE "T" TIME},
    /* RFC 3339, appendix A */
    {"duration", "P(?:[0-9]+W|(?:[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?|[0-9]+M(?:[0-9]+D)?|[0-9]+D)(?:T(?"
                 ":[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?"
                 "|[0-9]+M(?:[0-9]+S)?|[0-9]+S))?|T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-"
                 "9]+S)?|[0-9]+S))"},
    /* RFC 5321: dot-string @ domain */
    {"email", "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*@" DOMAIN
              "(?:\\." DOMAIN ")*"},
    {"hostname", LABEL "(?:\\." LABEL ")*"},
    {"ipv4", IPV4},
    {"ipv6", IPV6},
    {"uuid", "[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}"},
    {"uri", URI},
    {"uri-reference", "(?:" URI "|" RELATIVE ")"},
    {"json-pointer", POINTER},
    {"relative-json-pointer", "(?:0|[1-9][0-9]*)(?:#|" POINTER ")"},
    {"idn-email", NULL},
    {"idn-hostname", NULL},
    {"iri", NULL},
    {"iri-reference", NULL},
    {"uri-template", NULL},
    {"regex", NULL},
};

const char *hy_format_regex(const char *name, bool *known)
{
    *known = false;
    for (size_t i = 0; i < HY_COUNT(formats); i++)
        if (strcmp(formats[i].name, name) == 0) {
            *known = true;
            return formats[i].regex;
        }
    return NULL;
}
