use super::*;
use crate::{QuantBlock, ScaleGranularity};

const X_KINDS: [ActivationKind; 4] = [
    ActivationKind::Fp8(ScaleGranularity::Block),
    ActivationKind::Quantized(FloatKind::F32, ScaleGranularity::Token),
    ActivationKind::Quantized(FloatKind::Bf16, ScaleGranularity::Block),
    ActivationKind::Plain(FloatKind::F32),
];

fn plans() -> impl Iterator<Item = CpuPlan> {
    let shapes = [
        "1x1x1:128",
        "1x4096x4096:128",
        "7x33x513:512",
        "13x100x700:256",
        "64x31x2049:128",
        "512x512x512:128",
        "700x1000x3000:256",
        "3000x70x20000:512",
    ];
    shapes.into_iter().flat_map(|shape| {
        Isa::ALL.into_iter().flat_map(move |isa| {
            Strategy::ALL.into_iter().flat_map(move |strategy| {
                X_KINDS.into_iter().flat_map(move |x| {
                    [1, 2, 3, 7].map(|threads| {
                        let problem = shape.parse::<Problem>().unwrap().with_x(x);
                        CpuPlan::new(problem, strategy, isa, threads)
                    })
                })
            })
        })
    })
}

#[test]
fn every_part_of_the_result_is_computed_once_and_in_order() {
    for plan in plans() {
        let Problem { m, n, k, .. } = plan.problem;
        let panels = n.div_ceil(PANEL);
        // How much of K each row and panel has seen.
        let mut seen = vec![0; m * panels];
        for rows in plan.strips() {
            for lane in (0..plan.lanes()).map(|index| plan.lane(index, rows.clone())) {
                assert!(lane.rows.len() <= plan.block_rows);
                let mut groups = (0..plan.groups(&lane)).map(|index| plan.group(&lane, index));
                for step in plan.steps(|| groups.next()) {
                    assert_eq!(step.depth.len(), plan.tile.slab.min(k - step.depth.start));
                    for row in step.rows.clone() {
                        let seen = &mut seen[row * panels + step.panel];
                        assert_eq!(*seen, step.depth.start, "{plan:?} {step:?}");
                        assert_eq!(step.first, *seen == 0);
                        *seen = step.depth.end;
                        assert_eq!(step.last, *seen == k);
                    }
                }
            }
        }
        assert!(seen.iter().all(|&depth| depth == k), "{plan:?}");
    }
}

#[test]
fn activations_are_decoded_before_they_are_used_and_fit_their_buffers() {
    for plan in plans() {
        for rows in plan.strips() {
            let lanes = (0..plan.lanes()).map(|index| plan.lane(index, rows.clone()));
            // Other threads claim every other group.
            let mut groups = lanes.flat_map(|lane| {
                let indices = (0..plan.groups(&lane)).step_by(2);
                indices.map(|index| plan.group(&lane, index)).collect::<Vec<_>>()
            });
            let (mut decoded_rows, mut decoded) = (0..0, 0..0);
            for step in plan.steps(|| groups.next()) {
                if let Some(depth) = step.decode.clone() {
                    let is_there = decoded_rows == step.rows && decoded == depth;
                    assert!(!is_there || depth.len() < plan.problem.k, "decoded again: {plan:?}");
                    (decoded_rows, decoded) = (step.rows.clone(), depth);
                }
                assert_eq!(decoded_rows, step.rows);
                assert_eq!(decoded.start, step.pass_start);
                assert!(decoded.start <= step.depth.start && step.depth.end <= decoded.end);
                assert!(
                    decoded.len() <= plan.pass_slabs * plan.tile.slab && step.rows.len() <= plan.block_rows
                );
                assert!(step.slot < plan.slots());
            }
        }
    }
}

#[test]
fn tiles_cover_a_row_block_with_rows_that_kernels_have() {
    for plan in plans() {
        for rows in [0..1, 3..plan.block_rows + 3, 5..5 + plan.block_rows.div_ceil(2)] {
            for most in [1, 3, usize::MAX] {
                let (mut next, mut tiles) = (rows.start, 0);
                for run in plan.tiles(rows.clone(), most) {
                    assert_eq!((run.rows.start, run.tiles.start), (next, tiles));
                    assert!((1..=plan.tile.rows).contains(&run.tile_rows) && run.tiles.len() <= most);
                    assert_eq!(run.rows.len(), run.tiles.len() * run.tile_rows);
                    (next, tiles) = (run.rows.end, run.tiles.end);
                }
                assert_eq!((next, tiles), (rows.end, plan.tiles(rows.clone(), most).count_tiles()));
            }
        }
    }
}

#[test]
fn tiles_are_even() {
    let tile = Isa::Avx2.tile(FloatKind::F32);
    let mut tiles = TileRuns::new(10..27, tile, usize::MAX);
    assert_eq!(tiles.next_alone(), Some(TileRun { rows: 10..16, tile_rows: 6, tiles: 0..1 }));
    assert_eq!(tiles.next(), Some(TileRun { rows: 16..22, tile_rows: 6, tiles: 1..2 }));
    assert_eq!(tiles.next(), Some(TileRun { rows: 22..27, tile_rows: 5, tiles: 2..3 }));
    assert_eq!(tiles.next(), None);
    assert_eq!(TileRuns::new(5..5, tile, 1).next(), None);
}

#[test]
fn amx_tiles_are_whole() {
    let tile = Isa::Amx.tile(FloatKind::Bf16);
    let mut tiles = TileRuns::new(10..110, tile, usize::MAX);
    assert_eq!(tiles.next(), Some(TileRun { rows: 10..106, tile_rows: 32, tiles: 0..3 }));
    assert_eq!(tiles.next(), Some(TileRun { rows: 106..110, tile_rows: 4, tiles: 3..4 }));
    assert_eq!(tiles.next(), None);
}

#[test]
fn scratch_memory_of_a_thread_stays_below_8_mib() {
    for shape in ["512x512x512:128", "1024x1024x1024:256", "2048x2048x2048:512", "1024x4096x2048:512"] {
        for x in X_KINDS {
            let problem = shape.parse::<Problem>().unwrap().with_x(x);
            for isa in Isa::ALL {
                for strategy in Strategy::ALL {
                    let plan = CpuPlan::new(problem, strategy, isa, 1);
                    let bytes = plan.thread_bytes() + plan.shared.total(MemorySpace::Cache);
                    assert!(bytes < 8 << 20, "{shape} {x} {isa} {strategy}: {bytes}");
                }
            }
        }
    }
}

#[test]
fn few_rows_stream_their_weights_and_many_share_a_buffer() {
    let path_of = |m, k, strategy| {
        let problem = Problem::new(m, 4096, k, QuantBlock::B128).unwrap();
        CpuPlan::new(problem, strategy, Isa::Avx512Bf16, 1).path
    };
    let path = |m, strategy| path_of(m, 4096, strategy);
    assert_eq!(path(1, Strategy::Strip), WeightPath::Streamed);
    assert_eq!(path(8, Strategy::Strip), WeightPath::Streamed);
    // Two tiles, in row blocks of their own.
    assert_eq!(path(12, Strategy::Strip), WeightPath::Streamed);
    assert_eq!(path(13, Strategy::Strip), WeightPath::Buffered);
    assert_eq!(path(12, Strategy::Dma), WeightPath::Buffered);
    assert_eq!(path_of(12, 8192, Strategy::Strip), WeightPath::Buffered);
    assert_eq!(path(1, Strategy::Dma), WeightPath::Buffered);
}

#[test]
fn threads_get_equal_lanes() {
    let grid =
        |shape: &str, isa, threads| CpuPlan::new(shape.parse().unwrap(), Strategy::Strip, isa, threads).grid;
    assert_eq!(grid("2048x2048x2048:512", Isa::Avx512Bf16, 2), (4, 1));
    assert_eq!(grid("1x4096x4096:128", Isa::Avx2, 16), (1, 16));
    // Too few columns for every thread: the rows are cut, too, so that threads can help each other.
    assert_eq!(grid("2048x32x64:128", Isa::Avx512Bf16, 4), (16, 1));
    assert_eq!(grid("338x256x2048:128", Isa::Avx512Bf16, 2), (4, 1));
    assert_eq!(grid("12x256x4096:128", Isa::Avx512Bf16, 1), (2, 1));
    // Single tiles decode weights in registers, and few columns are decoded again at little cost.
    assert_eq!(grid("24x128x8192:128", Isa::Avx512Bf16, 2), (3, 1));
    assert_eq!(grid("24x1536x2048:128", Isa::Avx512Bf16, 2), (1, 2));
    // Decoded activations are worth more to AMX.
    assert_eq!(grid("2048x2048x2048:512", Isa::Amx, 16), (8, 2));
    let plan = CpuPlan::new("2048x2048x2048:512".parse().unwrap(), Strategy::Strip, Isa::Amx, 16);
    assert_eq!(plan.lane(3, 0..2048), Lane { rows: 256..512, panels: 32..64 });
    assert_eq!((plan.workers(), plan.own_lanes(3)), (16, 3..4));
}

#[test]
fn lanes_differ_by_a_row_unless_tiles_are_whole() {
    let rows = |shape: &str, isa| {
        let plan = CpuPlan::new(shape.parse().unwrap(), Strategy::Strip, isa, 2);
        let lanes = (0..plan.lanes()).map(|index| plan.lane(index, 0..plan.problem.m).rows.len());
        (lanes.collect::<Vec<_>>(), plan.block_rows)
    };
    // Not a tile of eight rows and one of a single row.
    assert_eq!(rows("9x4096x256:128", Isa::Avx512Bf16), (vec![5, 4], 5));
    assert_eq!(rows("34x128x4096:128", Isa::Avx512Bf16), (vec![17, 17], 17));
    assert_eq!(rows("80x32x4096:128", Isa::Amx), (vec![64, 16], 64));
}

#[test]
fn cheap_panels_are_claimed_together() {
    let panels =
        |shape: &str, isa| CpuPlan::new(shape.parse().unwrap(), Strategy::Strip, isa, 2).group_panels;
    assert_eq!(panels("9x4096x256:128", Isa::Avx512Bf16), 12);
    assert_eq!(panels("9x1024x256:128", Isa::Avx512Bf16), 4);
    assert_eq!(panels("9x4096x256:128", Isa::Amx), 1);
}

#[test]
fn k_is_decoded_slab_by_slab_where_that_costs_nothing() {
    let blocks = |shape: &str, isa| {
        let plan = CpuPlan::new(shape.parse().unwrap(), Strategy::Strip, isa, 2);
        (plan.pass_slabs, plan.group_panels)
    };
    assert_eq!(blocks("96x512x4096:128", Isa::Avx512Bf16), (1, 32));
    // More panels than a group has, rows that stay in the L2 cache, and a single slab.
    assert_eq!(blocks("206x4096x2048:128", Isa::Avx512Bf16), (4, 1));
    assert_eq!(blocks("48x512x2048:128", Isa::Avx512Bf16), (4, 1));
    assert_eq!(blocks("512x512x512:128", Isa::Avx512Bf16), (1, 1));
}

#[test]
fn plans_read_back_are_those_that_were_written() {
    let plan = CpuPlan::new("7x33x513:512".parse().unwrap(), Strategy::Smem, Isa::Avx2, 3);
    let written = serde_json::to_value(&plan).unwrap();
    assert_eq!(CpuPlan::deserialize(&written).unwrap(), plan);
    for (pointer, value) in [("/threads", 1u64 << 40), ("/block_rows", 1), ("/memory/0/bytes", 0)] {
        let mut changed = written.clone();
        *changed.pointer_mut(pointer).unwrap() = value.into();
        assert!(CpuPlan::deserialize(changed).is_err(), "{pointer}");
    }
}
