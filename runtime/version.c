#include "smla/smla.h"

#define TEXT_OF(x) #x
#define VERSION_TEXT(major, minor, patch) TEXT_OF(major) "." TEXT_OF(minor) "." TEXT_OF(patch)

/* Raised with every change that an existing caller could misread. */
enum { ABI_VERSION = 1 };

const char *smla_version(void)
{
    return VERSION_TEXT(SMLA_VERSION_MAJOR, SMLA_VERSION_MINOR, SMLA_VERSION_PATCH);
}

uint32_t smla_abi_version(void)
{
    return ABI_VERSION;
}
