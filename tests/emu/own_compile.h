/* PTX of the own kernels (kernels/), by NVRTC in memory: SMLA_NVRTC, else the one found. */
#ifndef EMU_TESTS_OWN_COMPILE_H
#define EMU_TESTS_OWN_COMPILE_H

/* Compiles kernels/<name>.cu for sm_90a, without its line number `without` of those marked NEEDED; 0: all of it. The
 * text is the caller's, to free(); NULL, with the reason on standard error. */
char *own_compile(const char *name, int without);
/* How many lines are marked; line: the source's line of mark number `mark`, or NULL. */
int own_marks(const char *name, int mark, int *line);
void own_compile_end(void);

#endif
