//! Results of unmodified kernels.

use std::collections::HashSet;

use octile_core::{
    ActivationKind, FloatKind, Problem, QuantBlock, ScaleGranularity, ScaleLayout, Strategy,
    exact::ExactOperands,
    plan::hopper::{
        Arguments, ClusterMode, GpuTile, HopperPlan, PROMOTIONS, ResultPath, TileConfig, candidates,
    },
    sample::Operands,
};
use octile_ptx::simulate::Simulator;

use crate::{GPU, check, check_exact, is_right, problem, product, run};

const GRANULARITIES: [ScaleGranularity; 2] = [ScaleGranularity::Token, ScaleGranularity::Block];

fn best(problem: &Problem, strategy: Strategy) -> HopperPlan {
    HopperPlan::best(problem, &GPU, strategy).expect("every problem has a plan")
}

#[test]
fn every_strategy_with_every_kind_of_activation() {
    let floats = [FloatKind::Bf16, FloatKind::F16, FloatKind::F32];
    for granularity in GRANULARITIES {
        let quantized = floats.map(|float| ActivationKind::Quantized(float, granularity));
        for kind in quantized.into_iter().chain([ActivationKind::Fp8(granularity)]) {
            for ((m, n, k), out) in [(130, 300, 400), (20, 136, 520), (7, 5, 131)].into_iter().zip(floats) {
                let problem = problem(m, n, k).with_x(kind).with_out(out);
                let operands = Operands::random(problem, 7);
                let exact = ExactOperands::new(problem, 0, 7);
                for strategy in Strategy::ALL {
                    check(&best(&problem, strategy), &operands, 1);
                    check_exact(&best(&problem, strategy), &exact, 1);
                }
            }
        }
    }
}

#[test]
fn every_shape_of_tile_and_cluster() {
    let (mut forms, mut overlaps) = (HashSet::new(), HashSet::new());
    let mut ran = 0;
    let few_rows =
        [(50, 264, 600), (16, 200, 600), (50, 600, 300), (33, 7, 130), (16, 300, 1000), (16, 700, 1100)];
    let not_aligned = [(300, 202, 600), (130, 203, 1000)];
    for (m, n, k) in [(400, 456, 300), (300, 200, 300), (130, 300, 1000), (128, 200, 1100)]
        .into_iter()
        .chain(few_rows)
        .chain(not_aligned)
    {
        for granularity in GRANULARITIES {
            let problem = problem(m, n, k).with_x(ActivationKind::Fp8(granularity));
            let operands = Operands::random(problem, 8);
            let plans = candidates(&problem).into_iter();
            let plans =
                plans.filter_map(|shape| HopperPlan::new(&problem, &GPU, Strategy::Strip, shape, None).ok());
            let stores_elements = |plan: &HopperPlan| plan.result_path == ResultPath::Elements;
            for plan in plans.filter(|plan| n.is_multiple_of(4) || m < 64 || stores_elements(plan)) {
                check(&plan, &operands, 2);
                ran += 1;
                let HopperPlan { consumers, blocks_per_sm, .. } = plan;
                forms.insert((plan.shape.swapped, consumers, blocks_per_sm, plan.result_path));
                overlaps.insert((plan.shape.swapped, consumers, blocks_per_sm, plan.overlaps_stages));
            }
        }
    }
    assert!(ran > 100, "only {ran} kernels have a plan");
    // One to three consumer warpgroups, one or two CTAs per SM, and every epilogue, as far as plans combine
    // them.
    let unswapped = [(1, 1), (1, 2), (2, 1), (2, 2), (3, 1)].into_iter().flat_map(|(consumers, per_sm)| {
        let paths = [ResultPath::Direct, ResultPath::Lines, ResultPath::Elements, ResultPath::TmaStore];
        paths.map(|path| (false, consumers, per_sm, path))
    });
    let swapped = [(1, 2), (2, 1), (2, 2), (3, 1)]
        .map(|(consumers, per_sm)| (true, consumers, per_sm, ResultPath::Direct));
    // Tiles with two CTAs per SM are too narrow for this.
    let by_wave = [1, 2, 3].map(|consumers| (false, consumers, 1, ResultPath::TmaStoreByWave));
    // Only tiles with two consumer warpgroups have two waves each.
    let by_producer = [(false, 2, 1, ResultPath::TmaStoreByProducer)];
    assert_eq!(forms, unswapped.chain(swapped).chain(by_wave).chain(by_producer).collect());
    let can_overlap = [(false, 1, 1), (false, 1, 2), (false, 2, 1), (true, 1, 2)];
    let with = |overlaps| move |(swapped, consumers, per_sm)| (swapped, consumers, per_sm, overlaps);
    let never = [(false, 2, 2), (false, 3, 1), (true, 2, 1), (true, 2, 2), (true, 3, 1)];
    let without = can_overlap.into_iter().chain(never).map(with(false));
    assert_eq!(overlaps, can_overlap.into_iter().map(with(true)).chain(without).collect());
}

/// Long problems, with rows of x that no tile and no group of four divides.
#[test]
fn scales_copied_in_bulk() {
    let tile = |a, b, cluster| TileConfig { tile: GpuTile { a, b }, swapped: false, cluster };
    for (k, shape) in [
        (5200, tile(64, 96, ClusterMode::Single)),
        (5200, tile(128, 144, ClusterMode::Single)),
        (5200, tile(192, 96, ClusterMode::MulticastA)),
        (5200, tile(64, 64, ClusterMode::MulticastB)),
        (10_300, tile(64, 112, ClusterMode::SplitK(2))),
    ] {
        let problem = problem(131, 264, k);
        let operands = Operands::random(problem, 8);
        let plan = HopperPlan::new(&problem, &GPU, Strategy::Strip, shape, None).expect("it has a plan");
        assert!(plan.copies_scales_in_bulk());
        check(&plan, &operands, 3);
    }
    // Later tiles of a CTA, and one that two of them share.
    let problem = problem(600, 264, 1000);
    for cluster in [ClusterMode::Single, ClusterMode::SplitTail] {
        let plan = HopperPlan::new(&problem, &GPU, Strategy::Strip, tile(64, 32, cluster), None);
        let plan = plan.expect("it has a plan");
        assert!(plan.copies_scales_in_bulk(), "{plan:?}");
        check(&plan, &Operands::random(problem, 8), 3);
    }
}

#[test]
fn tma_stores_by_the_producer_at_any_depth() {
    for cluster in [ClusterMode::Single, ClusterMode::MulticastA, ClusterMode::MulticastB] {
        let shape = TileConfig { tile: GpuTile { a: 256, b: 128 }, swapped: false, cluster };
        // From one stage to more stages than a tile has subtiles.
        for k in [100, 200, 300, 500, 1300] {
            let problem = problem(900, 712, k);
            let plan = HopperPlan::new(&problem, &GPU, Strategy::Strip, shape, None).expect("it has a plan");
            assert_eq!(plan.result_path, ResultPath::TmaStoreByProducer);
            assert!(plan.units.0 * plan.units.1 >= 3 * plan.blocks / cluster.ctas());
            check(&plan, &Operands::random(problem, 12), 6);
        }
        // The shortest pipeline, and several wgmma chains in a stage.
        let problem = problem(700, 584, 500);
        let operands = Operands::random(problem, 12);
        let mut plan =
            HopperPlan::new(&problem, &GPU, Strategy::Strip, shape, Some(2)).expect("it has a plan");
        for promote_every in [32, 64, 128] {
            plan.promote_every = promote_every;
            check(&plan, &operands, 6);
        }
    }
}

#[test]
fn tails_that_two_ctas_share() {
    let mut paths = HashSet::new();
    // Of four CTAs, one cluster shares a tile behind one full wave or two, or both clusters do.
    for (tile, swapped, m, n) in [
        (GpuTile { a: 64, b: 128 }, false, 300, 200),
        (GpuTile { a: 128, b: 64 }, false, 600, 60),
        (GpuTile { a: 128, b: 96 }, false, 300, 264),
        (GpuTile { a: 128, b: 192 }, false, 600, 296),
        (GpuTile { a: 192, b: 128 }, false, 1000, 100),
        (GpuTile { a: 256, b: 128 }, false, 1030, 136),
        (GpuTile { a: 128, b: 72 }, true, 140, 330),
        (GpuTile { a: 192, b: 72 }, true, 140, 520),
    ] {
        // One stage for each CTA, an odd number, and more than the pipeline holds.
        for k in [200, 600, 1900] {
            let problem = problem(m, n, k);
            let shape = TileConfig { tile, swapped, cluster: ClusterMode::SplitTail };
            let plan = HopperPlan::new(&problem, &GPU, Strategy::Strip, shape, None)
                .expect("tiles are left to share");
            check(&plan, &Operands::random(problem, 12), 6);
            check_exact(&plan, &ExactOperands::new(problem, 0, 7), 5);
            paths.insert(plan.result_path);
        }
    }
    let all = [ResultPath::Direct, ResultPath::Lines, ResultPath::TmaStore, ResultPath::TmaStoreByProducer];
    assert_eq!(paths, HashSet::from(all));
}

#[test]
fn every_m_up_to_256() {
    for m in 1..=256 {
        let problem = problem(m, 72, 200);
        let (plan, operands) = (best(&problem, Strategy::Strip), Operands::random(problem, m as u64));
        check(&plan, &operands, 3);
        // K-major scales, which are copied one by one.
        if m % 2 == 1 {
            let arguments = Arguments::packed(&problem).with_constant_weight();
            let machine = Simulator { gpu: &GPU, resident_ctas: 8, seed: 3 };
            let (bytes, _) = product(&plan)
                .run(&operands, arguments, machine)
                .unwrap_or_else(|fault| panic!("{m}: {fault}"));
            assert!(is_right(&plan, &operands, &bytes), "{m}");
        }
    }
}

#[test]
fn every_quantization_block_and_promotion() {
    for quant_block in QuantBlock::ALL {
        let problem = Problem { quant_block, ..problem(200, 600, 1100) };
        let operands = Operands::random(problem, 9);
        for promotion in PROMOTIONS.into_iter().filter(|&promotion| promotion <= quant_block.size()) {
            let plan = HopperPlan::with_promotion(&problem, &GPU, Strategy::Strip, promotion)
                .expect("it is possible");
            check(&plan, &operands, 4);
        }
    }
}

#[test]
fn kernels_for_racecheck() {
    for (m, n, k) in [(400, 456, 300), (16, 300, 1000), (16, 700, 1100)] {
        let problem = problem(m, n, k);
        let operands = Operands::random(problem, 10);
        for shape in candidates(&problem) {
            if let Ok(plan) = HopperPlan::new(&problem, &GPU, Strategy::Strip, shape, None) {
                check(&plan.for_racecheck(), &operands, 5);
            }
        }
    }
}

#[test]
fn padded_operands_and_scales_in_any_layout() {
    let problem = problem(150, 264, 500);
    let operands = Operands::random(problem, 11);
    let (rows, k_blocks) = problem.x_scale_shape().expect("x has scales");
    let packed = Arguments::packed(&problem);
    let layouts = [ScaleLayout::k_major((rows, k_blocks)), ScaleLayout::mn_major((rows, k_blocks))];
    for strategy in Strategy::ALL {
        let plan = best(&problem, strategy);
        for x_scales in layouts {
            let out_stride = 272;
            let strides = Arguments { x_stride: 528, w_stride: 512, out_stride, ..packed };
            let arguments = Arguments { x_scales, constant_weight: x_scales.k == 1, ..strides };
            let machine = Simulator { gpu: &GPU, resident_ctas: 8, seed: 6 };
            let (bytes, _) =
                product(&plan).run(&operands, arguments, machine).unwrap_or_else(|fault| panic!("{fault}"));
            let rows: Vec<&[u8]> = bytes.chunks(2 * out_stride).collect();
            let (inside, gaps): (Vec<&[u8]>, Vec<&[u8]>) =
                rows.iter().map(|row| row.split_at(2 * problem.n)).unzip();
            assert!(is_right(&plan, &operands, &inside.concat()), "{strategy}");
            assert!(gaps.concat().iter().all(|&byte| byte == 0xff), "{strategy} wrote outside the result");
        }
    }
}

#[test]
fn results_do_not_depend_on_the_schedule() {
    let problem = problem(300, 392, 600);
    let operands = Operands::random(problem, 12);
    for strategy in Strategy::ALL {
        let product = product(&best(&problem, strategy));
        let results =
            [1, 2, 3, 4].map(|seed| run(&product, &operands, seed).unwrap_or_else(|fault| panic!("{fault}")));
        assert!(results.iter().all(|result| *result == results[0]), "{strategy}: results differ");
    }
}
