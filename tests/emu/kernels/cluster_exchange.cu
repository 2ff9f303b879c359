/* Blocks of a cluster read and write each other's shared memory, by every way there is. Any cluster size up to 8.
 *
 * Block `rank` of its cluster has the 64 numbers in[block * 64 …]. For each thread i < 64:
 *   sum[block][i]   the cluster's sum of number i       reads of the others' memory, shared::cluster addresses
 *   left[block][i]  number i of the block before        a generic store by the block before, a remote arrive
 *   right[block][i] number i of the block after         st.async by the block after, complete_tx
 *   total[cluster]  the cluster's integers together     atomics on the memory of block 0 */
#include "own.cuh"

enum { THREADS = 64 };

static __device__ u32 load_cluster(u32 address)
{
    u32 value;
    asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(value) : "r"(address) : "memory");
    return value;
}

/* 9.7.9.12 st.async */
static __device__ void store_async(u32 address, u32 value, u32 mbarrier)
{
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], %1, [%2];" ::"r"(address),
                 "r"(value), "r"(mbarrier)
                 : "memory");
}

/* 9.7.9.24 mapa on a generic address. */
static __device__ u32 *mapa_generic(u32 *address, u32 rank)
{
    u32 *mapped;
    asm("mapa.u64 %0, %1, %2;" : "=l"(mapped) : "l"(address), "r"(rank));
    return mapped;
}

/* 9.7.13.3, of warps that may be divergent. */
static __device__ void cluster_sync_unaligned()
{
    asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
}

extern "C" __global__ void __launch_bounds__(THREADS)
    cluster_exchange(const u32 *in, u32 *sum, u32 *left, u32 *right, u32 *total)
{
    __shared__ u32 numbers[THREADS], from_left[THREADS], from_right[THREADS], counter;
    __shared__ u64 left_came, right_came;
    const u32 i = threadIdx.x, rank = cluster_rank(), size = cluster_size(), at = blockIdx.x * THREADS + i;
    const u32 next = (rank + 1) % size, previous = (rank + size - 1) % size, value = in[at];
    numbers[i] = value;
    if (i == 0) {
        counter = 0;
        mbarrier_init(shared_address(&left_came), THREADS);
        mbarrier_init(shared_address(&right_came), 1);
        fence_mbarrier_init();
        mbarrier_arrive_expect_tx(shared_address(&right_came), sizeof(from_right));
    }
    cluster_sync(); /* NEEDED: everybody's memory is ready */

    *mapa_generic(&from_left[i], next) = value;
    mbarrier_arrive_cluster(mapa(shared_address(&left_came), next));
    store_async(mapa(shared_address(&from_right[i]), previous), value, mapa(shared_address(&right_came), previous));
    asm volatile("red.relaxed.cluster.shared::cluster.add.u32 [%0], %1;" ::"r"(mapa(shared_address(&counter), 0)),
                 "r"(value)
                 : "memory");

    u32 together = 0;
    for (u32 block = 0; block < size; block++)
        together += load_cluster(mapa(shared_address(&numbers[i]), block));
    sum[at] = together;
    mbarrier_wait_cluster(shared_address(&left_came), 0); /* NEEDED: the store of the block before */
    left[at] = from_left[i];
    mbarrier_wait_cluster(shared_address(&right_came), 0); /* NEEDED: the store of the block after */
    right[at] = from_right[i];

    cluster_sync_unaligned(); /* NEEDED: the counter is complete, and nobody reads here any more */
    if (rank == 0 && i == 0)
        total[blockIdx.x / size] = counter;
}
