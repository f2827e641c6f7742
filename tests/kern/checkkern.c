/* checkkern: every kernel of every ISA that this machine can run, against scalar; one program to
 * carry to a machine that is to be proven (docs/isa.md). `checkkern --bench` times instead. */
#include <stdio.h>

int check_mm(int argc, char **argv);
int check_vec(int argc, char **argv);

int main(int argc, char **argv)
{
    int mm = check_mm(argc, argv), vec = check_vec(argc, argv);
    printf("checkkern: matmul %s, the rest %s\n", mm ? "FAILED" : "ok", vec ? "FAILED" : "ok");
    return mm || vec;
}
