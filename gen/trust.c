#include "trust.h"

#include <string.h>

#include "smla/smla.h"

/* A row rests on the card's tests (tests/gpu, docs/verification.md) of that day. A kernel that changed a little since
 * keeps it until they are run again; the self-test is for that. A new kernel is not verified until it has a row. */
#define H200 "verified on: NVIDIA H200 (driver 580.159.04, 2026-12-01)"
#define H200_DECODE "verified on: NVIDIA H200 (driver 580.159.04, 2026-11-30)"

static const struct gen_trust table[] = {
    {"sm_90", SMLA_OP_PREFILL, "sm90_prefill_h*", SMLA_TRUST_VERIFIED, H200},
    {"sm_90", SMLA_OP_PREFILL, "sm90_prefill_persistent_h*", SMLA_TRUST_VERIFIED, H200},
    {"sm_90", SMLA_OP_PREFILL, "sm90_prefill_turned_h*", SMLA_TRUST_VERIFIED, H200},
    {"sm_90", SMLA_OP_PREFILL, "sm90_prefill_turned_persistent_h*", SMLA_TRUST_VERIFIED, H200},
    {"sm_90", SMLA_OP_PREFILL, "sm90_prefill_split_narrow_h*", SMLA_TRUST_VERIFIED, H200},
    {"sm_90", SMLA_OP_PREFILL, "sm90_prefill_split_h*", SMLA_TRUST_VERIFIED, H200},
    {"sm_90", SMLA_OP_PREFILL, "sm90_unpack_*", SMLA_TRUST_VERIFIED, H200},
    {"sm_90", SMLA_OP_PREFILL, "prefill_check", SMLA_TRUST_VERIFIED, H200},
    {"sm_90", SMLA_OP_PREFILL_REFERENCE, "*", SMLA_TRUST_VERIFIED, H200},
    {"sm_90", SMLA_OP_COMBINE, "*", SMLA_TRUST_VERIFIED, H200},
    {"sm_90", SMLA_OP_DECODE, "sm90_decode_h*", SMLA_TRUST_VERIFIED, H200_DECODE},
    {"sm_90", SMLA_OP_DECODE, "sm90_decode_turned_h*", SMLA_TRUST_VERIFIED, H200_DECODE},
    {"sm_90", SMLA_OP_DECODE, "decode_combine", SMLA_TRUST_VERIFIED, H200_DECODE},
};

const struct gen_trust *gen_trust_find(const char *family, uint32_t op, const char *variant)
{
    static const struct gen_trust none = {"", 0, "*", SMLA_TRUST_NONE, "not verified"};
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        if (table[i].op == op && strcmp(table[i].family, family) == 0 &&
            gen_name_matches(table[i].variant, strlen(table[i].variant), variant))
            return &table[i];
    return &none;
}

/* After a '*' the shortest run is tried first, and one more character for each time that the rest does not fit. */
bool gen_name_matches(const char *pattern, size_t size, const char *name)
{
    const char *const end = pattern + size;
    const char *after_star = NULL, *run_end = NULL;
    while (*name != 0) {
        if (pattern < end && *pattern == '*') {
            after_star = ++pattern;
            run_end = name;
        } else if (pattern < end && (*pattern == '?' || *pattern == *name)) {
            pattern++;
            name++;
        } else if (after_star) {
            pattern = after_star;
            name = ++run_end;
        } else {
            return false;
        }
    }
    while (pattern < end && *pattern == '*')
        pattern++;
    return pattern == end;
}
