#include "decode_share.h"

#include "error.h"

static smla_status refuse_sizes(int64_t b, int64_t s_q, const int64_t topk[2])
{
    return rt_fail(SMLA_ERROR_INVALID_ARGUMENT,
                   "b %lld, s_q %lld, topk %lld, extra_topk %lld: more than 2^30 blocks of 64 keys, counting some more "
                   "for each token, which is what one call counts",
                   (long long)b, (long long)s_q, (long long)topk[0], (long long)topk[1]);
}

static int32_t sms_of(const smla_kernel *kernel, int32_t sm_limit)
{
    return sm_limit > 0 && sm_limit < kernel->sm_count ? sm_limit : kernel->sm_count;
}

static const smla_kernel *choose(const smla_kernel *kernel, int64_t tokens, const int64_t topk[2], int32_t sms)
{
    return gen_companion_takes(&kernel->takes_companion, tokens, topk, sms) ? kernel->companion : kernel;
}

smla_status rt_decode_share(const smla_kernel *kernel, int64_t b, int64_t s_q, const int64_t topk[2], int32_t sm_limit,
                            const smla_kernel **taken, struct gen_decode_share *share)
{
    const int32_t sms = sms_of(kernel, sm_limit);

    if (b * s_q > INT32_MAX)
        return refuse_sizes(b, s_q, topk);
    *taken = choose(kernel, b * s_q, topk, sms);
    return gen_decode_make(&(*taken)->decode, b * s_q, topk, sms, share) ? SMLA_OK : refuse_sizes(b, s_q, topk);
}

const char *rt_decode_variant(const smla_kernel *kernel, int64_t b, int64_t s_q, const int64_t topk[2],
                              int32_t sm_limit)
{
    return choose(kernel, b * s_q, topk, sms_of(kernel, sm_limit))->name;
}

smla_status rt_decode_workspace(const smla_kernel *kernel, int64_t b, int64_t s_q, const int64_t topk[2],
                                uint64_t *bytes)
{
    struct gen_decode_share share;
    int64_t companion = 0;

    if (b * s_q > INT32_MAX || !gen_decode_make(&kernel->decode, b * s_q, topk, kernel->sm_count, &share))
        return refuse_sizes(b, s_q, topk);
    const int64_t own = gen_decode_workspace(&share);
    if (kernel->companion)
        companion = gen_companion_workspace(&kernel->takes_companion, &kernel->companion->decode, b * s_q, topk,
                                            kernel->sm_count);
    *bytes = (uint64_t)(own > companion ? own : companion);
    return SMLA_OK;
}
