/* PTX of the probes, by NVRTC as for the own kernels: no nvcc is needed. ptx FILE */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "own_compile.h"

int main(int count, char **arguments)
{
    if (count != 2) {
        fprintf(stderr, "usage: %s FILE\n", arguments[0]);
        return 2;
    }
    char *ptx = own_compile("../probes/probes", 0);
    FILE *file = ptx ? fopen(arguments[1], "w") : NULL;
    bool written = file && fputs(ptx, file) >= 0;
    if (file)
        written = fclose(file) == 0 && written;
    free(ptx);
    own_compile_end();
    return written ? 0 : 1;
}
