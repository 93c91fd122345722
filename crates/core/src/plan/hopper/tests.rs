use super::*;
use crate::{QuantBlock, ScaleLayout, device::hopper::HOPPER_GPUS, plan::BufferId};

fn problem(m: usize, n: usize, k: usize) -> Problem {
    Problem::new(m, n, k, QuantBlock::B128).unwrap().with_out(FloatKind::Bf16)
}

#[test]
fn stages_fill_the_shared_memory_that_is_left() {
    let gpu = &HOPPER_GPUS[1];
    let plan =
        HopperPlan::new(&problem(4096, 4096, 7168), gpu, Strategy::Smem, TileConfig::PLAIN, None).unwrap();
    assert_eq!((plan.units, plan.blocks, plan.stages), ((32, 32), 1024, 6));
    assert_eq!(plan.offset(BufferId::Full) % 8, 0);
    let deeper = HopperPlan::new(&problem(4096, 4096, 7168), gpu, Strategy::Smem, TileConfig::PLAIN, Some(8));
    assert!(
        matches!(deeper, Err(PlanError::DoesNotFit { needed, available: 232_448, .. }) if needed > 232_448)
    );
}

#[test]
fn a_tile_that_does_not_fit_is_rejected_with_its_bytes() {
    let shape = TileConfig { tile: GpuTile { a: 512, b: 512 }, ..TileConfig::PLAIN };
    let error =
        HopperPlan::new(&problem(4096, 4096, 4096), &HOPPER_GPUS[0], Strategy::Dma, shape, None).unwrap_err();
    assert_eq!(
        error.to_string(),
        "strategy dma needs 262176 bytes of shared memory on h100, but 232448 are available; \
         the largest buffer is b (131072 bytes)"
    );
}

#[test]
fn split_k_beyond_the_stages_is_rejected() {
    let shape = TileConfig { cluster: ClusterMode::SplitK(3), ..TileConfig::PLAIN };
    let plan = |k| HopperPlan::new(&problem(64, 64, k), &HOPPER_GPUS[1], Strategy::Strip, shape, None);
    assert!(plan(257).is_ok());
    assert!(matches!(plan(256), Err(PlanError::TooManyParts { parts: 3, blocks: 2 })));
}

#[test]
fn unquantized_activations_are_rejected() {
    let plain = problem(16, 16, 128).with_x(ActivationKind::Plain(FloatKind::Bf16));
    let error = HopperPlan::best(&plain, &HOPPER_GPUS[0], Strategy::Strip).unwrap_err();
    assert_eq!(
        error.to_string(),
        "h100 multiplies fp8 activations only: pass fp8, or have bf16, f16 or f32 quantized"
    );
}

/// The plans of all candidates but those that would share a tail where no tile is left.
fn plans_of_candidates(problem: &Problem, stages: Option<usize>) -> Vec<HopperPlan> {
    let shapes = candidates(problem).into_iter();
    let plan = |shape| match HopperPlan::new(problem, &HOPPER_GPUS[1], Strategy::Strip, shape, stages) {
        Err(PlanError::NoTail { .. }) => None,
        plan => Some(plan.unwrap()),
    };
    shapes.filter_map(plan).collect()
}

#[test]
fn every_candidate_of_every_size_can_be_planned() {
    for m in (1..300).step_by(7).chain([1024, 4096, 100_000]) {
        for n in [1, 8, 100, 576, 2112, 32_768] {
            for k in [1, 128, 1000, 16_384] {
                let problem = problem(m, n, k);
                for plan in plans_of_candidates(&problem, None) {
                    assert!(plan.stages >= 2 && plan.raster >= 1, "{plan:?}");
                    assert!(plan.shared_bytes() <= HOPPER_GPUS[1].shared_memory_per_block);
                }
                HopperPlan::best(&problem, &HOPPER_GPUS[1], Strategy::Strip).unwrap();
            }
        }
    }
}

#[test]
fn a_tail_is_shared_where_two_ctas_are_free_for_each_of_its_tiles() {
    let shape = |cluster| TileConfig { tile: GpuTile { a: 128, b: 128 }, swapped: false, cluster };
    let plan = |tiles: usize, cluster| {
        let problem = problem(128, 128 * tiles, 1024);
        HopperPlan::new(&problem, &HOPPER_GPUS[1], Strategy::Strip, shape(cluster), None)
    };
    for (tiles, shared) in [(133, 1), (198, 66), (265, 1), (330, 66)] {
        assert_eq!(plan(tiles, ClusterMode::SplitTail).unwrap().shared_tiles(), shared);
        assert_eq!(plan(tiles, ClusterMode::Single).unwrap().shared_tiles(), 0);
    }
    for tiles in [1, 66, 132, 199, 263, 264] {
        let error = plan(tiles, ClusterMode::SplitTail).unwrap_err();
        assert_eq!(error, PlanError::NoTail { tiles, ctas: tiles.min(132) });
    }
}

#[test]
fn accumulators_of_a_shared_tail_fit_in_the_stages() {
    for m in [40, 64, 100, 300, 1000, 4096] {
        for plan in plans_of_candidates(&problem(m, 24_576, 1536), Some(2)) {
            if plan.shape.cluster == ClusterMode::SplitTail {
                let stages = plan.buffer_bytes(BufferId::A) + plan.buffer_bytes(BufferId::B);
                assert!(plan.exchange(2).share <= plan.stages * stages, "{plan:?}");
            }
        }
    }
}

#[test]
fn the_default_plan_is_the_first_candidate() {
    let gpu = &HOPPER_GPUS[1];
    for m in [1, 33, 96, 200, 320, 1100, 5000] {
        let problem = problem(m, 7168, 4608);
        let plans = HopperPlan::candidates(&problem, gpu).unwrap();
        assert_eq!(plans[0], HopperPlan::best(&problem, gpu, Strategy::Strip).unwrap());
        assert!(plans.iter().all(|plan| is_candidate(&problem, plan.shape)));
    }
}

/// Tiles of swapped operands divide a few hundred rows without padding, but for the last multiple of 8.
#[test]
fn swapped_tiles_divide_rows_evenly() {
    for m in [33, 200, 288, 700, 1100] {
        let shapes = candidates(&problem(m, 7168, 4608));
        let swapped = || shapes.iter().filter(|shape| shape.swapped);
        assert!(swapped().count() > 10);
        for shape in swapped() {
            let tiles = m.div_ceil(shape.tile.b);
            assert!(tiles * shape.tile.b < m + 8 * tiles, "{m} {shape:?}");
        }
    }
}

#[test]
fn no_tile_touches_three_scales() {
    for shape in candidates(&problem(4096, 4096, 4096)) {
        let b = shape.tile.b;
        for tile in 0..1000 {
            let (first, last) = (tile * b / 128, (tile * b + b - 1) / 128);
            assert!(last - first <= 1, "{b} {tile}");
        }
    }
    let shape = TileConfig { tile: GpuTile { a: 128, b: 176 }, ..TileConfig::PLAIN };
    let wide = HopperPlan::new(&problem(512, 512, 512), &HOPPER_GPUS[1], Strategy::Strip, shape, None);
    assert_eq!(wide.unwrap_err(), PlanError::ThreeScales { columns: 176 });
}

#[test]
fn few_rows_swap_the_operands_and_many_do_not() {
    let best = |m, n, k| HopperPlan::best(&problem(m, n, k), &HOPPER_GPUS[1], Strategy::Strip).unwrap();
    assert!(best(1, 4096, 7168).shape.swapped);
    assert!(!best(4096, 4096, 4096).shape.swapped);
}

#[test]
fn promotion_beyond_the_quantization_block_is_rejected() {
    let problem: Problem = "512x512x1024:256".parse().unwrap();
    let promoting = |strategy, every| HopperPlan::with_promotion(&problem, &HOPPER_GPUS[1], strategy, every);
    assert_eq!(promoting(Strategy::Strip, 256).unwrap().waves(), 1);
    assert_eq!(promoting(Strategy::Strip, 128), HopperPlan::best(&problem, &HOPPER_GPUS[1], Strategy::Strip));
    for (strategy, every) in [(Strategy::Strip, 512), (Strategy::Strip, 100), (Strategy::Auto, 64)] {
        assert!(matches!(promoting(strategy, every), Err(PlanError::Promotion { .. })), "{strategy} {every}");
    }
}

#[test]
fn warpgroups_with_several_waves_arrive_once() {
    let plan = |a, cluster| {
        let shape = TileConfig { tile: GpuTile { a, b: 128 }, swapped: false, cluster };
        HopperPlan::new(&problem(4096, 4096, 4096), &HOPPER_GPUS[1], Strategy::Strip, shape, None).unwrap()
    };
    let counts = |plan: HopperPlan| (plan.release, plan.empty_arrivals());
    assert_eq!(counts(plan(128, ClusterMode::Single)), (Release::Warp, 8));
    assert_eq!(counts(plan(192, ClusterMode::MulticastA)), (Release::Warp, 24));
    assert_eq!(counts(plan(256, ClusterMode::MulticastA)), (Release::Warpgroup, 4));
    assert_eq!(counts(plan(256, ClusterMode::MulticastA).for_racecheck()), (Release::Thread, 272));
    assert!(plan(192, ClusterMode::Single).has_single_producer_warp());
    assert!(!plan(256, ClusterMode::Single).has_single_producer_warp());
}

#[test]
fn many_scale_boundaries_have_a_loop_each() {
    let loops = |n: usize, b: usize| {
        let shape = TileConfig { tile: GpuTile { a: 128, b }, ..TileConfig::PLAIN };
        let plan =
            HopperPlan::new(&problem(128, n, 4096), &HOPPER_GPUS[1], Strategy::Strip, shape, None).unwrap();
        (plan.boundaries().len(), plan.has_loop_per_boundary(), plan.loop_unroll())
    };
    assert_eq!(loops(7168, 128), (1, false, 2));
    assert_eq!(loops(7168, 192), (2, false, 2));
    assert_eq!(loops(7168, 96), (3, false, 2), "stages overlap");
    assert_eq!(loops(7168, 112), (7, true, 1));
}

#[test]
fn stages_overlap_where_nothing_else_keeps_the_tensor_cores_busy() {
    let overlaps = |(m, n, k), a, b, cluster| {
        let shape = TileConfig { tile: GpuTile { a, b }, swapped: m < 64, cluster };
        let plan = HopperPlan::new(&problem(m, n, k), &HOPPER_GPUS[1], Strategy::Strip, shape, None);
        plan.unwrap().overlaps_stages
    };
    let alone = |size, a, b| overlaps(size, a, b, ClusterMode::Single);
    // One CTA per SM, and one more, which shares an SM.
    assert_eq!([132, 133].map(|tiles| alone((64, tiles * 64, 2048), 64, 64)), [true, false]);
    assert!(alone((64, 133 * 64, 1024), 64, 64), "short K");
    assert!(alone((64, 133 * 128, 2048), 64, 128), "one CTA per SM");
    assert!(!alone((64, 7168, 2048), 64, 192), "too many registers");
    assert!(overlaps((64, 64 * 64, 2048), 64, 64, ClusterMode::SplitK(2)));
    assert_eq!([132, 133].map(|tiles| alone((16, tiles * 64, 2048), 64, 16)), [true, false]);
    assert!(!overlaps((16, 64 * 64, 2048), 64, 16, ClusterMode::SplitK(2)));
    assert_eq!(
        [64, 96, 112, 128, 192].map(|b| alone((128, 8192, 2048), 128, b)),
        [false, true, false, true, false]
    );
    assert!(!alone((16, 8192, 2048), 128, 16) && !alone((4096, 4096, 2048), 192, 96));
    let others = Strategy::ALL.into_iter().filter(|&strategy| strategy != Strategy::Strip);
    for strategy in others {
        assert!(
            !HopperPlan::best(&problem(64, 4096, 2048), &HOPPER_GPUS[1], strategy).unwrap().overlaps_stages
        );
    }
}

#[test]
fn a_pipeline_has_at_least_two_stages() {
    let plan = |stages| {
        HopperPlan::new(
            &problem(64, 64, 300),
            &HOPPER_GPUS[1],
            Strategy::Strip,
            TileConfig::PLAIN,
            Some(stages),
        )
    };
    assert!(matches!(plan(1), Err(PlanError::TooFewStages { stages: 1 })));
    assert_eq!(plan(2).unwrap().stages, 2);
}

#[test]
fn counts_beyond_31_bits_are_rejected() {
    let gpu = &HOPPER_GPUS[1];
    let best = |m, n, k, strategy| HopperPlan::best(&problem(m, n, k), gpu, strategy);
    let large = 999_999_999_999;
    for (m, n, k) in [(64, large, 1), (large, 64, 1), (1, 1, large)] {
        for strategy in Strategy::ALL {
            let plan = best(m, n, k, strategy);
            assert!(matches!(plan, Err(PlanError::TooLarge { .. })), "{m}x{n}x{k} {strategy}");
        }
    }
    // 2^32 tiles would wrap to 0 in 32 bits. `strip` can take larger tiles.
    let side = 1 << 24;
    for strategy in [Strategy::Dma, Strategy::Strip] {
        let error = best(side, side, 1, strategy);
        assert!(matches!(error, Err(PlanError::TooLarge { what: "tiles", .. })), "{error:?}");
    }
    let plan = best(1 << 22, 1 << 22, 1, Strategy::Strip).unwrap();
    assert!(plan.blocks <= 2 * gpu.sms && plan.units.0 * plan.units.1 < 1 << 31);
    let empty = Problem { m: 0, ..problem(1, 1, 1) };
    let error = HopperPlan::best(&empty, gpu, Strategy::Strip).unwrap_err();
    assert_eq!(error.to_string(), "the problem has 0 rows of x: it needs at least 1");
    let shape = TileConfig { tile: GpuTile { a: 128, b: 112 }, ..TileConfig::PLAIN };
    let plan = HopperPlan::new(&problem(1, i32::MAX as usize, 1), gpu, Strategy::Strip, shape, None);
    assert_eq!(plan.unwrap().boundaries().len(), 7);
}

#[test]
fn scale_boundaries_lie_between_quantization_blocks() {
    let boundaries = |n: usize, b: usize, quant_block: QuantBlock| {
        let problem = Problem::new(4096, n, 1024, quant_block).unwrap();
        let shape = TileConfig { tile: GpuTile { a: 128, b }, ..TileConfig::PLAIN };
        HopperPlan::new(&problem, &HOPPER_GPUS[1], Strategy::Strip, shape, None).unwrap().boundaries()
    };
    assert_eq!(boundaries(4096, 128, QuantBlock::B128), [None]);
    assert_eq!(boundaries(2112, 192, QuantBlock::B128), [Some(64), Some(128)]);
    assert_eq!(boundaries(576, 144, QuantBlock::B128), [Some(80), Some(96), Some(112), Some(128)]);
    assert_eq!(boundaries(384, 192, QuantBlock::B256), [None, Some(64)]);
}

#[test]
fn short_problems_have_two_ctas_per_sm() {
    let gpu = &HOPPER_GPUS[1];
    let per_sm = |k, a, b, swapped, cluster| {
        let shape = TileConfig { tile: GpuTile { a, b }, swapped, cluster };
        let plan = HopperPlan::new(&problem(1024, 1024, k), gpu, Strategy::Strip, shape, None).unwrap();
        let taken = plan.blocks_per_sm * (plan.shared_bytes() + HopperGpu::SHARED_RESERVE);
        assert!(taken <= gpu.shared_memory_per_sm, "{plan:?}");
        plan.blocks_per_sm
    };
    assert_eq!(per_sm(1024, 128, 64, false, ClusterMode::Single), 2);
    assert_eq!(per_sm(1025, 128, 64, false, ClusterMode::Single), 1);
    assert_eq!(per_sm(1024, 128, 96, false, ClusterMode::Single), 1);
    assert_eq!(per_sm(1024, 128, 64, false, ClusterMode::SplitK(2)), 1);
    assert_eq!(per_sm(4096, 64, 96, false, ClusterMode::Single), 2);
}

#[test]
fn swapped_problems_with_many_tiles_have_two_ctas_per_sm() {
    let per_sm = |n, k, a, b| {
        let shape = TileConfig { tile: GpuTile { a, b }, swapped: true, cluster: ClusterMode::Single };
        let plan = HopperPlan::new(&problem(16, n, k), &HOPPER_GPUS[1], Strategy::Strip, shape, None);
        plan.unwrap().blocks_per_sm
    };
    assert_eq!([per_sm(132 * 128, 1536, 128, 16), per_sm(133 * 128, 1536, 128, 16)], [1, 2]);
    assert_eq!(per_sm(133 * 128, 1024, 128, 16), 1, "short K");
    assert_eq!([per_sm(133 * 128, 1536, 128, 64), per_sm(133 * 128, 1536, 128, 128)], [2, 1]);
    // One consumer warpgroup always leaves room for two.
    assert_eq!(per_sm(64, 1536, 64, 16), 2);
}

#[test]
fn tma_stores_where_other_work_overlaps_them() {
    let path = |m, n, k, a, b| {
        let shape = TileConfig { tile: GpuTile { a, b }, swapped: false, cluster: ClusterMode::Single };
        let problem = problem(m, n, k).with_out(FloatKind::Bf16);
        HopperPlan::new(&problem, &HOPPER_GPUS[1], Strategy::Strip, shape, None).unwrap().result_path
    };
    // As many tiles as resident CTAs, two per SM, and one more.
    assert_eq!(path(64, 264 * 64, 2048, 64, 64), ResultPath::Lines);
    assert_eq!(path(64, 265 * 64, 2048, 64, 64), ResultPath::TmaStore);
    assert_eq!(path(128, 132 * 64, 2048, 128, 64), ResultPath::Lines);
    assert_eq!(path(128, 133 * 64, 2048, 128, 64), ResultPath::TmaStore);
    assert_eq!(path(2048, 2048, 2048, 256, 128), ResultPath::TmaStoreByWave);
    assert_eq!(path(2048, 4096, 2048, 256, 128), ResultPath::TmaStoreByProducer, "two tiles each");
    assert_eq!(path(2048, 4096, 2048, 192, 128), ResultPath::TmaStore, "one wave");
    assert_eq!(path(2048, 2048, 2048, 192, 96), ResultPath::Lines);
    assert_eq!(path(2048, 2044, 2048, 256, 128), ResultPath::Direct);
    assert_eq!(path(2048, 2046, 2048, 256, 128), ResultPath::Elements);
}

#[test]
fn the_weight_is_read_once_where_x_stays_in_l2() {
    let raster = |m, n, k| {
        let shape =
            TileConfig { tile: GpuTile { a: 256, b: 128 }, swapped: false, cluster: ClusterMode::MulticastA };
        let plan = HopperPlan::new(&problem(m, n, k), &HOPPER_GPUS[1], Strategy::Strip, shape, None);
        plan.unwrap().raster
    };
    assert_eq!(raster(4096, 24_576, 1536), 16);
    assert_eq!(raster(4096, 7168, 16_384), 6, "x does not fit");
    assert_eq!(raster(67 * 256, 24_576, 256), 6, "not all of x is worked on at once");
}

#[test]
fn weights_are_evicted_first_where_they_are_read_once_and_do_not_fit() {
    let streams = |m, n, k| {
        HopperPlan::best(&problem(m, n, k), &HOPPER_GPUS[1], Strategy::Strip).unwrap().streams_weight
    };
    assert!(streams(1, 7168, 16_384) && streams(64, 7168, 16_384));
    assert!(!streams(64, 4096, 7168), "fits");
    assert!(!streams(4096, 7168, 16_384), "is read by many");
}

#[test]
fn split_k_has_exchange_buffers_for_the_other_ctas() {
    let bytes = |a, b, swapped, parts| {
        let shape = TileConfig { tile: GpuTile { a, b }, swapped, cluster: ClusterMode::SplitK(parts) };
        let plan = HopperPlan::new(&problem(64, 7168, 4096), &HOPPER_GPUS[1], Strategy::Strip, shape, None);
        plan.unwrap().buffer_bytes(BufferId::Exchange)
    };
    // Of seven parts of 16 columns a CTA owns up to four, each with 8 accumulators of 128 threads.
    assert_eq!(bytes(64, 112, false, 2), 4 * 8 * 128 * 4);
    // Of two parts of 8 columns each of three CTAs owns at most one, with 4 accumulators.
    assert_eq!(bytes(64, 16, true, 3), 4 * 128 * 4);
    assert_eq!(bytes(128, 64, false, 2), 2 * 8 * 256 * 4);
}

#[test]
fn aligned_scales_have_room_for_whole_copies() {
    let shape = (5, 3);
    assert_eq!(ScaleLayout::k_major(shape).extent(shape), 15);
    assert_eq!(ScaleLayout::mn_major(shape).extent(shape), 15);
    let aligned = ScaleLayout::aligned(shape);
    assert_eq!((aligned.k, aligned.extent(shape)), (8, 24));
    let k_major: Vec<f32> = (0..15).map(|at| at as f32).collect();
    let arranged = aligned.arrange(&k_major, 3);
    assert_eq!(arranged[8..16], [1.0, 4.0, 7.0, 10.0, 13.0, 0.0, 0.0, 0.0]);
}

#[test]
fn strides_that_wrap_in_bytes_are_rejected() {
    let of = |out: FloatKind| {
        let problem = problem(2, 64, 300).with_out(out);
        let plan = HopperPlan::best(&problem, &HOPPER_GPUS[1], Strategy::Strip).unwrap();
        (plan, Arguments::packed(&problem))
    };
    let (plan, packed) = of(FloatKind::F32);
    assert!(packed.numbers(&plan).is_some());
    let with_stride = |out_stride| Arguments { out_stride, ..packed };
    assert!(with_stride((1 << 30) - 1).numbers(&plan).is_some());
    assert!(with_stride(1 << 30).numbers(&plan).is_none());
    assert!(with_stride(usize::MAX).numbers(&plan).is_none());
    let (narrow, packed) = of(FloatKind::Bf16);
    assert!(Arguments { out_stride: 1 << 30, ..packed }.numbers(&narrow).is_some());
    assert!(Arguments { out_stride: 1 << 31, ..packed }.numbers(&narrow).is_none());
    for layout in [ScaleLayout { row: 1 << 30, k: 1 }, ScaleLayout { row: 1, k: 1 << 30 }] {
        assert!(Arguments { x_scales: layout, ..packed }.numbers(&narrow).is_none());
        assert!(Arguments { w_scales: layout, ..packed }.numbers(&narrow).is_none());
    }
    let floats = ActivationKind::Quantized(FloatKind::F32, crate::ScaleGranularity::Token);
    let problem = problem(2, 64, 300).with_x(floats);
    let layout = packed.x_scales;
    assert!(quantize_numbers(&problem, (1 << 30) - 1, 304, layout).is_some());
    assert!(quantize_numbers(&problem, 1 << 30, 304, layout).is_none());
    assert!(quantize_numbers(&problem, 300, 304, ScaleLayout { row: 1 << 30, k: 1 }).is_none());
}

#[test]
fn the_extent_of_a_layout_saturates() {
    let layout = ScaleLayout { row: usize::MAX / 2, k: usize::MAX / 2 };
    assert_eq!(layout.extent((1 << 20, 1 << 20)), usize::MAX);
}

#[test]
fn a_constant_weight_is_opt_in() {
    let problem = problem(2, 64, 300);
    assert!(!Arguments::packed(&problem).constant_weight && !Arguments::fastest(&problem).constant_weight);
    assert!(Arguments::fastest(&problem).with_constant_weight().constant_weight);
}

#[test]
fn registers_of_all_roles_fit_on_an_sm() {
    for m in [16, 64, 128, 4096] {
        let problem = problem(m, 7168, 1024);
        for plan in plans_of_candidates(&problem, None) {
            let Some(split) = plan.register_split() else {
                assert_eq!(plan.consumers, 1);
                continue;
            };
            let consumers = 128 * plan.consumers;
            let per_cta = consumers * split.consumer + (plan.threads() - consumers) * split.producer;
            assert!(plan.blocks_per_sm * per_cta <= HopperGpu::REGISTERS_PER_SM, "{plan:?}");
            assert!(split.consumer.is_multiple_of(8) && split.producer.is_multiple_of(8));
        }
    }
}
