#include "why.h"

#include <stdarg.h>
#include <stdio.h>

bool rt_refuse(char why[RT_WHY_BYTES], const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    if (vsnprintf(why, RT_WHY_BYTES, format, arguments) < 0)
        why[0] = '\0';
    va_end(arguments);
    return false;
}
