//! The thread that tells the copy engine what to fetch.

use octile_core::plan::hopper::{STAGE_K, Together};

use super::{
    frame::Frame,
    ptx::{B32, Ptx, TmaLoad},
    ring::Cursor,
    schedule::for_each_tile,
};

pub(super) fn emit(ptx: &mut Ptx, frame: &Frame<'_>) {
    let plan = frame.plan;
    let tile = plan.shape.tile;
    let (map_a, map_b) = (ptx.tensor_map("map_a"), ptx.tensor_map("map_b"));
    let cursor = Cursor::new(ptx);
    // In a sharing cluster each block fetches its half for both.
    let half = |ptx: &mut Ptx, rows: usize| {
        let rank = ptx.cluster_rank();
        ptx.mul(rank, (rows / 2) as u32)
    };
    let a_part = (plan.shape.together == Together::ShareA).then(|| half(ptx, tile.a));
    let b_part = (plan.shape.together == Together::ShareB).then(|| half(ptx, tile.b));
    for_each_tile(ptx, frame, |ptx, work| {
        let k_block = ptx.variable(work.first);
        ptx.while_(
            |ptx| ptx.lt(k_block, work.end),
            |ptx| {
                let empty = frame.buffer(ptx, "empty", cursor.stage);
                let full = frame.buffer(ptx, "full", cursor.stage);
                // Before the first turn every stage is empty: waiting for the turn before it passes at once.
                let turn_before = ptx.xor(cursor.turn, 1);
                ptx.wait(empty, turn_before);
                ptx.arrive_expecting(full, ((tile.a + tile.b) * STAGE_K) as u32);
                let column = ptx.mul(k_block, STAGE_K as u32);
                let operands = [("a", map_a, work.a_row, a_part), ("b", map_b, work.b_row, b_part)];
                for (name, map, row, part) in operands {
                    let mut load = TmaLoad {
                        destination: frame.buffer(ptx, name, cursor.stage),
                        map,
                        column,
                        row,
                        barrier: full,
                        multicast: None,
                    };
                    if let Some(part) = part {
                        load = for_both(ptx, load, part);
                    }
                    ptx.tma_load(load);
                }
                cursor.advance(ptx, frame);
                ptx.increase(k_block, 1);
            },
        );
    });
}

/// The part of a tile that this block fetches for both blocks of the cluster.
fn for_both(ptx: &mut Ptx, load: TmaLoad, first_row: B32) -> TmaLoad {
    TmaLoad {
        destination: ptx.mad(first_row, STAGE_K as u32, load.destination),
        row: ptx.add(load.row, first_row),
        multicast: Some(0b11),
        ..load
    }
}
