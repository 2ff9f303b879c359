/* Generates a plan with an installed smla; exits 0 when all of it works. */
#include <smla/smla.h>
#include <stdio.h>
#include <string.h>

static int32_t print(void *user, const void *bytes, size_t size_bytes)
{
    (void)user;
    return fwrite(bytes, 1, size_bytes, stdout) == size_bytes ? 0 : 5;
}

int main(void)
{
    smla_context_desc where = {.struct_size = sizeof where, .cache_policy = SMLA_CACHE_OFF};
    smla_kernel_desc desc = {.struct_size = sizeof desc, .op = SMLA_OP_PREFILL, .h_q = 64, .d_qk = 512, .target = "90"};
    smla_context *context = NULL;
    smla_status status = smla_context_create(&where, &context);

    if (status == SMLA_OK)
        status = smla_generate(context, &desc, SMLA_EMIT_PLAN, print, NULL);
    if (status != SMLA_OK) {
        smla_error_info error = {.struct_size = sizeof error};
        smla_last_error(&error);
        fprintf(stderr, "%s: %s\n", smla_status_text(status), error.message);
    }
    smla_context_destroy(context);
    return status != SMLA_OK || strcmp(smla_version(), "0.1.0") != 0;
}
