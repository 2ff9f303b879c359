/* A warp's access at once. With all lanes in one region the cost is a few vector loops; with checks on, the shadow
 * hears of runs of neighbouring lanes instead of each lane. */
#include "memory_lanes.h"

#include "region.h"

void emu_lane_addresses(struct emu_warp *warp, const struct emu_operand *operand, uint64_t address[EMU_LANES])
{
    if (operand->kind != EMU_OP_ADDRESS || operand->row < 0 || (operand->bits != 32 && operand->bits != 64)) {
        uint64_t same = emu_address(warp, operand, 0);
        if (operand->space == EMU_SHARED_CTA || operand->space == EMU_SHARED_CLUSTER) {
            same |= (uint64_t)warp->cta->rank << EMU_RANK_SHIFT; /* a variable by name: the block's own */
        }
        for (int lane = 0; lane < EMU_LANES; lane++) {
            address[lane] = same;
        }
    } else if (operand->bits == 64) {
        const uint64_t *base = emu_row64(warp, operand->row);
        for (int lane = 0; lane < EMU_LANES; lane++) {
            address[lane] = base[lane] + (uint64_t)operand->imm;
        }
    } else {
        const uint32_t *base = emu_row32(warp, operand->row);
        for (int lane = 0; lane < EMU_LANES; lane++) {
            address[lane] = base[lane] + (uint32_t)operand->imm; /* wraps in 32 bits, as addresses of that size do */
        }
    }
}

/* Lanes outside the mask count as the first active one, so that the loops below need no mask. */
static void fill_inactive(uint64_t address[EMU_LANES], uint32_t mask)
{
    uint64_t first = address[emu_first_lane(mask)];
    for (uint32_t rest = ~mask; rest != 0; rest &= rest - 1) {
        address[emu_first_lane(rest)] = first;
    }
}

/* ---- The usual case: one region holds every lane ---- */

/* Host bytes of all lanes; true when all of them lie in the region, aligned. Without branches, for the vector unit:
 * the sign bit of `outside` collects offsets below 0 (huge) and above the last that fits. */
static bool hosts_in(const struct emu_region *region, uint32_t size, struct emu_lanes *lanes)
{
    const uint64_t low = region->low, last = region->high - low - size, start = lanes->address[0];
    const uint64_t host = (uint64_t)(uintptr_t)region->host, stride = region->lane_stride;
    uint64_t outside = 0, low_bits = 0, differ = 0, expected = start;
    for (int lane = 0; lane < EMU_LANES; lane++) {
        uint64_t address = lanes->address[lane], offset = address - low;
        outside |= offset | (last - offset);
        low_bits |= address;
        differ |= address ^ expected;
        expected += size;
        lanes->host[lane] = (uint8_t *)(uintptr_t)(host + offset);
    }
    if (stride != 0) {
        for (int lane = 0; lane < EMU_LANES; lane++) {
            lanes->host[lane] += (uint64_t)lane * stride;
        }
    }
    lanes->contiguous = differ == 0 && stride == 0;
    return outside >> 63 == 0 && (low_bits & (size - 1)) == 0;
}

/* Records neighbouring lanes with consecutive addresses, or with one address, as one access. */
static bool record_runs(const struct emu_region *region, const struct emu_access *access,
                        const struct emu_access_shape *shape, uint32_t mask, const uint64_t *address)
{
    struct emu_access run = *access;
    while (mask != 0) {
        int first = emu_first_lane(mask), lane = first;
        uint64_t start = address[first], end = start + shape->size;
        for (mask &= mask - 1; mask != 0; mask &= mask - 1) {
            int next = emu_first_lane(mask);
            bool follows = next == lane + 1 && address[next] == end;
            bool repeats = address[next] == start && end == start + shape->size;
            if (!follows && !repeats) {
                break;
            }
            end += follows ? shape->size : 0;
            lane = next;
        }
        run.lane_bytes = end - start > shape->size ? (uint16_t)shape->size : 0;
        if (!emu_region_record(region, &run, first, start, (size_t)(end - start), shape->size, shape->touch)) {
            return false;
        }
    }
    return true;
}

static struct emu_access access_of(struct emu_warp *warp, const struct emu_instr *instr, bool strong)
{
    const uint32_t checks = warp->cta->options->checks;
    if (emu_shadowed(checks) || (checks & EMU_CHECK_GRID)) {
        return emu_access_of(warp, instr, strong);
    }
    return (struct emu_access){.warp = warp, .instr = instr, .atomic = strong};
}

static bool record_together(struct emu_warp *warp, const struct emu_instr *instr, const struct emu_access_shape *shape,
                            uint32_t mask, const struct emu_region *region, struct emu_lanes *lanes)
{
    if (warp->cta->options->checks == 0 || shape->touch == 0) {
        return true;
    }
    struct emu_access access = access_of(warp, instr, shape->strong);
    if (lanes->contiguous) {
        access.lane_bytes = (uint16_t)shape->size;
        return emu_region_record(region, &access, 0, lanes->address[0], (size_t)shape->size * EMU_LANES, shape->size,
                                 shape->touch);
    }
    return record_runs(region, &access, shape, mask, lanes->address);
}

/* ---- Otherwise: lane by lane ---- */

static bool touch_each(struct emu_warp *warp, const struct emu_instr *instr, const struct emu_access_shape *shape,
                       uint32_t mask, struct emu_lanes *lanes)
{
    struct emu_access access = access_of(warp, instr, shape->strong);
    for (; mask != 0; mask &= mask - 1) {
        int lane = emu_first_lane(mask);
        lanes->host[lane] =
            emu_touch(warp, &access, lane, shape->space, lanes->address[lane], shape->size, shape->size, shape->touch);
        if (lanes->host[lane] == NULL) {
            return false;
        }
    }
    return true;
}

bool emu_touch_lanes(struct emu_warp *warp, const struct emu_instr *instr, const struct emu_access_shape *shape,
                     uint32_t mask, struct emu_lanes *lanes)
{
    struct emu_region region;
    if (mask != EMU_ALL_LANES) {
        fill_inactive(lanes->address, mask);
    }
    bool found = emu_region_find(warp, shape->space, lanes->address[0], &region);
    if (found && hosts_in(&region, shape->size, lanes) && !(region.read_only && (shape->touch & EMU_WRITE))) {
        return record_together(warp, instr, shape, mask, &region, lanes);
    }
    lanes->contiguous = false;
    return touch_each(warp, instr, shape, mask, lanes);
}
