/* SHA-256 against the examples of FIPS 180-4 (NIST's published example values). */
#include "base/base.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

static void check(const char *text, size_t repeat, size_t piece, const char *hex)
{
    hy_sha256 s;
    char out[65];
    size_t n = strlen(text);
    hy_sha256_init(&s);
    for (size_t i = 0; i < repeat; i++)
        for (size_t at = 0; at < n; at += piece) hy_sha256_put(&s, text + at, HY_MIN(piece, n - at));
    hy_sha256_hex(&s, out);
    assert_string_equal(out, hex);
}

static void test_examples(void **state)
{
    static const char two[] = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    static const char long_text[] = "abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmn"
                                    "hijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu";
    for (size_t piece = 1; piece <= 130; piece++) {
        check("", 1, piece, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        check("abc", 1, piece, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        check(two, 1, piece, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
        check(long_text, 1, piece, "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
    }
    check("a", 1000000, 1, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_examples) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
