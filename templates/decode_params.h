/* The one parameter of the decode kernels: the C side fills it, the kernels read it from constant memory. Rules as in
 * prefill_params.h. Decode is prefill of s_q tokens in each of some requests, so tensors have one stride more; and keys
 * of a token may be shared among blocks of threads. */
#ifndef SMLA_DECODE_PARAMS_H
#define SMLA_DECODE_PARAMS_H

#include "prefill_params.h"

struct smla_decode_params {
    struct smla_prefill_params prefill;      /* its strides of tokens are within a request */
    long long indices_stride_request[2];     /* of each cache's lists */
    long long topk_length_stride_request[2]; /* its stride of tokens is 0 where a request has one length */
    long long query_stride_request;
    long long out_stride_request;
    long long lse_stride_request;
    long long lse_stride_head;
    float *part_out;  /* [parts, block_heads * d_v], each divided by its own sum, in the order of decode_part.cuh */
    float *part_lse;  /* [parts, block_heads], in base 2, -inf where there is no valid key */
    int *shared;      /* [blocks of threads, 2]: the item whose keys begin there and are shared, and its parts or 0;
                       * or, of fewer items, [items, 2]: where its keys begin, and its parts or 0; NULL: nothing is
                       * shared */
    int s_q;          /* tokens of a request */
    int tokens;       /* of all requests */
    int pieces;       /* items of a token and its block of heads: 1, or as many as topk has of piece_blocks */
    int piece_blocks; /* blocks of keys an item has at most */
    int main_blocks;  /* blocks of threads of the main kernel */
    int whole_items;  /* units that one of them has at most where none is cut */
    int even_share;   /* without lengths, how the row of items is divided (decode_schedule.cuh); 0: by the lengths */
    int even_item_cost;
    int even_token_cost; /* of a token's items, of all blocks of heads */
    int even_cuts;
    int even_parts; /* without lengths and with few items: parts of each, one a block of threads, of even_part_blocks
                     * blocks of keys but for the last; 0: divided by cost */
    int even_part_blocks;
    unsigned int even_parts_multiplier; /* 2^32 / even_parts, rounded up: divides what is 2^16 at most */
    int combine_runs;                   /* of decode_combine.cu: a thread has of each part */
    int starts_early; /* dependents may start beside this kernel from its beginning; 0: when its blocks come to an end
                       */
};

#endif
