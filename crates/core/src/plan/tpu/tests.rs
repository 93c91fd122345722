use serde_json::json;

use super::*;
use crate::QuantBlock;

fn chip(name: &str) -> &'static TpuChip {
    TpuChip::named(name).unwrap()
}

fn plan(shape: &str, strategy: Strategy, mode: BlockMode) -> TpuPlan {
    let problem: Problem = shape.parse().unwrap();
    TpuPlan::new(&problem, chip("tpu7x"), strategy, mode).unwrap()
}

#[test]
fn aligned_tiles_are_quantization_blocks() {
    let plan = plan("1000x1111x1500:128", Strategy::Dma, BlockMode::Aligned);
    assert_eq!(plan.tile, Dims { m: 128, n: 128, k: 128 });
    assert_eq!(plan.padded, Dims { m: 1024, n: 1152, k: 1536 });
    assert_eq!(plan.grid, Dims { m: 8, n: 9, k: 12 });
    assert_eq!(plan.semaphores, 10);
}

#[test]
fn few_rows_are_not_padded_to_a_block() {
    for (m, rows) in [(1, 16), (16, 16), (17, 32), (100, 128), (500, 512)] {
        let shape = format!("{m}x512x512:512");
        assert_eq!(plan(&shape, Strategy::Auto, BlockMode::Aligned).tile.m, rows, "{shape}");
    }
}

#[test]
fn large_tiles_pad_no_more_than_aligned_ones() {
    for shape in ["1000x1111x1500:128", "1536x1536x1536:512", "640x896x1152:128", "2048x2048x2048:512"] {
        for strategy in [Strategy::Auto, Strategy::Smem] {
            let large = plan(shape, strategy, BlockMode::Large);
            let aligned = plan(shape, strategy, BlockMode::Aligned);
            assert_eq!(large.padded, aligned.padded, "{shape} {strategy}");
            assert!(large.steps() <= aligned.steps());
        }
    }
}

#[test]
fn buffers_are_padded_as_the_compiler_pads_them() {
    let bytes = |strategy, id| {
        let plan = plan("16x512x512:128", strategy, BlockMode::Aligned);
        plan.memory.get(id).unwrap().bytes
    };
    assert_eq!(bytes(Strategy::Dma, BufferId::X), 16 * 128);
    assert_eq!(bytes(Strategy::Dma, BufferId::WScale), 128 * 4);
    assert_eq!(bytes(Strategy::Smem, BufferId::WScale), 128 * 4);
    assert_eq!(bytes(Strategy::Strip, BufferId::WScale), 4 * 128 * 4);
}

/// libtpu 0.0.42, given this kernel and 4 KiB of VMEM: "Scoped allocation with size 89.0K and limit 4.0K
/// exceeded".
#[test]
fn the_memory_map_adds_up_to_the_compilers_figure() {
    let problem: Problem = "16x512x512:128".parse().unwrap();
    let problem = problem.with_x(ActivationKind::Quantized(FloatKind::Bf16, ScaleGranularity::Token));
    let plan = TpuPlan::new(&problem, chip("tpu7x"), Strategy::Dma, BlockMode::Aligned).unwrap();
    assert_eq!(plan.memory.total(MemorySpace::Vmem), 89 << 10);
    assert!(memory::vmem_budget(&plan) >= 89 << 10);
}

#[test]
fn the_better_mode_is_chosen() {
    let auto = |shape, strategy| plan(shape, strategy, BlockMode::Auto);
    for strategy in Strategy::ALL {
        let chosen = auto("2048x2048x2048:128", strategy);
        assert_eq!(chosen, plan("2048x2048x2048:128", strategy, BlockMode::Large), "{strategy}");
    }
    // One tile either way: the simpler mode.
    assert_eq!(auto("128x128x128:128", Strategy::Dma).mode, BlockMode::Aligned);
    let tile = Dims { m: 256, n: 256, k: 256 };
    let problem: Problem = "512x512x512:256".parse().unwrap();
    let chosen = TpuPlan::with_tile(&problem, chip("tpu7x"), Strategy::Dma, BlockMode::Auto, tile);
    assert_eq!(chosen.unwrap().mode, BlockMode::Aligned);
    assert_eq!("AUTO".parse(), Ok(BlockMode::Auto));
}

#[test]
fn plans_read_back_are_those_that_were_written() {
    for strategy in Strategy::ALL {
        let plan = plan("1000x1111x1500:128", strategy, BlockMode::Auto);
        let text = serde_json::to_string(&plan).unwrap();
        assert_eq!(serde_json::from_str::<TpuPlan>(&text).unwrap(), plan);
        assert_eq!(TpuPlan::deserialize(serde_json::to_value(&plan).unwrap()).unwrap(), plan);
    }
}

#[test]
fn a_plan_with_any_other_number_is_rejected() {
    let written = serde_json::to_value(plan("16x4096x4096:128", Strategy::Strip, BlockMode::Large)).unwrap();
    let changes = [
        ("/problem/m", json!(17)),
        ("/problem/n", json!(0)),
        ("/problem/k", json!(u64::MAX)),
        ("/problem/quant_block", json!(100)),
        ("/chip", json!("v5e")),
        ("/chip", json!("v9")),
        ("/strategy", json!("smem")),
        ("/mode", json!("auto")),
        ("/arithmetic", json!("dequantized")),
        ("/padded/m", json!(32)),
        ("/tile/m", json!(u64::MAX)),
        ("/tile/n", json!((1u64 << 63) - 128)),
        ("/tile/k", json!(1u64 << 63)),
        ("/grid/n", json!(0)),
        ("/chunk/0", json!(1)),
        ("/weight_pipeline/stages", json!(2)),
        ("/keeps_quantized_x", json!(true)),
        ("/memory/0/copies", json!(2)),
        ("/memory/0/id", json!("acc")),
        ("/memory/1/bytes", json!(0)),
        ("/semaphores", json!(1)),
        ("/vmem_limit", json!(1)),
        ("/cost/flops", json!(1)),
    ];
    for (pointer, value) in changes {
        let mut changed = written.clone();
        *changed.pointer_mut(pointer).unwrap() = value;
        assert!(TpuPlan::deserialize(changed).is_err(), "{pointer}");
    }
    let mut longer = written.clone();
    longer["color"] = json!("red");
    assert!(TpuPlan::deserialize(longer).is_err());
}

#[test]
fn strips_cover_k_and_pick_the_measured_tiles() {
    let strip = |shape| plan(shape, Strategy::Strip, BlockMode::Large);
    let tile = |shape| strip(shape).tile;
    // x and w fit into VMEM, and are loaded once.
    assert_eq!(tile("2048x2048x2048:512"), Dims { m: 2048, n: 2048, k: 2048 });
    assert_eq!(tile("4096x4096x4096:512"), Dims { m: 512, n: 4096, k: 4096 });
    // No tile of 640 columns, whose last 128 fill half of an MXU.
    assert_eq!(tile("3072x5120x5120:128").n % 256, 0);
    assert_eq!(strip("2048x2048x2048:512").arithmetic, Arithmetic::Fp8);
    assert_eq!(strip("2048x2048x2048:128").arithmetic, Arithmetic::Dequantized);
    let few_rows = strip("16x4096x4096:128");
    assert_eq!(few_rows.arithmetic, Arithmetic::Fp8);
    let pipeline = few_rows.weight_pipeline.unwrap();
    assert!(pipeline.stages >= 8, "all weights are in flight at once");
    assert_eq!(few_rows.semaphores, pipeline.stages + 5);
    // Blocks grow, so that multiplying begins early.
    let sizes: Vec<usize> = strip("2048x2048x2048:512").weight_blocks().iter().map(|block| block.1).collect();
    assert!(sizes[0] < sizes[1], "{sizes:?}");
}

#[test]
fn a_k_too_long_for_memory_is_cut() {
    let plan = plan("4096x4096x262144:512", Strategy::Strip, BlockMode::Large);
    assert!(plan.grid.k > 1);
    assert_eq!(plan.padded.k, 262_144);
    assert!(plan.memory.get(BufferId::Acc).is_some());
}

#[test]
fn quantized_activations_are_kept_only_where_they_are_reused() {
    let problem: Problem = "512x512x512:128".parse().unwrap();
    let quantized = problem.with_x(ActivationKind::Quantized(FloatKind::Bf16, ScaleGranularity::Block));
    let plan = TpuPlan::new(&quantized, chip("tpu7x"), Strategy::Auto, BlockMode::Aligned).unwrap();
    assert!(plan.keeps_quantized_x);
    let x_q = |plan: &TpuPlan| plan.memory.get(BufferId::XQ).unwrap().copies;
    assert_eq!(x_q(&plan), 4);
    let narrow = Problem { n: 128, ..quantized };
    let plan = TpuPlan::new(&narrow, chip("tpu7x"), Strategy::Auto, BlockMode::Aligned).unwrap();
    assert!(!plan.keeps_quantized_x);
    assert_eq!(x_q(&plan), 1);
}

#[test]
fn refusals_are_one_clear_sentence() {
    let problem = Problem::new(512, 512, 512, QuantBlock::B128).unwrap();
    let error = TpuPlan::new(&problem, chip("v4"), Strategy::Auto, BlockMode::Aligned).unwrap_err();
    assert_eq!(
        error.to_string(),
        "v4 cannot multiply f8e4m3fn: choose tpu7x, v6e, v5e or v5p, or leave the activations unquantized"
    );
    let with_tile = |m, n, k| {
        let tile = Dims { m, n, k };
        let plan = TpuPlan::with_tile(&problem, chip("tpu7x"), Strategy::Dma, BlockMode::Large, tile);
        plan.unwrap_err().to_string()
    };
    assert_eq!(
        with_tile(512, 200, 512),
        "tile extent 200 along n is not a multiple of the quantization block 128"
    );
    let vmem = with_tile(16384, 16384, 128);
    assert!(vmem.starts_with("strategy dma needs "), "{vmem}");
    assert!(vmem.contains("bytes of VMEM on tpu7x, but 58720256 are available"), "{vmem}");
    let scales = Problem::new(16, 1 << 20, 1 << 16, QuantBlock::B128).unwrap();
    let smem = TpuPlan::new(&scales, chip("tpu7x"), Strategy::Strip, BlockMode::Large).unwrap_err();
    assert!(smem.to_string().contains("bytes of SMEM on tpu7x"), "{smem}");
    // All of SMEM is more than the compiler leaves: scales take 4 KiB for every 8 blocks of columns.
    let plan = |columns: usize| {
        let problem = Problem::new(16, columns * 128, 128, QuantBlock::B128).unwrap();
        TpuPlan::new(&problem, chip("tpu7x"), Strategy::Strip, BlockMode::Auto)
    };
    let message = plan(2048).unwrap_err().to_string();
    assert!(message.contains("bytes of SMEM on tpu7x, but 1046528 are available"), "{message}");
    assert!(plan(2040).is_ok());
}

/// A search over tiles would take minutes.
#[test]
fn absurd_sizes_are_refused_at_once() {
    for (m, n, k) in [(1, 1, 99_999_999_999), (1, 99_999_999_999, 1), (99_999_999_999, 1, 1)] {
        let problem = Problem::new(m, n, k, QuantBlock::B128).unwrap();
        let error = TpuPlan::new(&problem, chip("tpu7x"), Strategy::Strip, BlockMode::Auto).unwrap_err();
        let sentence = error.to_string();
        assert!(sentence.ends_with("but a kernel can index 2147483647: split the problem"), "{sentence}");
        assert_eq!(TpuPlan::candidates(&problem, chip("tpu7x"), Strategy::Strip), []);
    }
    let side = 1 << 25;
    let problem = Problem::new(side, side, side, QuantBlock::B128).unwrap();
    let tile = Dims { m: side, n: side, k: side };
    let error = TpuPlan::with_tile(&problem, chip("tpu7x"), Strategy::Strip, BlockMode::Large, tile);
    assert!(error.unwrap_err().to_string().contains("bytes of"));
}

/// Where the compiler pipelines tiles, it clips the last ones, and DMAs of the kernel end where operands do.
/// Only weights that one step copies in equal parts are padded.
#[test]
fn operands_are_not_padded() {
    let plan_of = |shape: &str, tile| {
        let problem: Problem = shape.parse().unwrap();
        TpuPlan::with_tile(&problem, chip("tpu7x"), Strategy::Strip, BlockMode::Large, tile).unwrap()
    };
    let tile = Dims { m: 512, n: 1024, k: 2048 };
    let pipelined = plan_of("1027x1024x2048:128", tile);
    assert_eq!((pipelined.given().m, pipelined.padded.m, pipelined.padding_cycles()), (1027, 1536, 0.0));
    let columns = plan_of("1024x1900x2048:128", tile);
    assert_eq!((columns.given().n, columns.padded.n, columns.padding_cycles()), (1900, 2048, 0.0));
    let quantized = ActivationKind::Quantized(FloatKind::Bf16, ScaleGranularity::Token);
    let problem: Problem = "1027x1000x2000:128".parse().unwrap();
    let problem = problem.with_x(quantized);
    let tile = Dims { m: 1056, ..tile };
    let streamed =
        TpuPlan::with_tile(&problem, chip("tpu7x"), Strategy::Strip, BlockMode::Large, tile).unwrap();
    assert!(streamed.weight_pipeline.unwrap().is_resident);
    assert_eq!((streamed.held(), streamed.padding_cycles()), (Dims { m: 1027, n: 1000, k: 2000 }, 0.0));
    assert_eq!(streamed.weight_blocks().iter().map(|(_, columns)| columns).sum::<usize>(), 1000);
    assert_eq!((streamed.block_length(0), streamed.block_length(15)), (128, 80));
    let steps = plan_of("16x1900x65536:128", Dims { m: 16, n: 128, k: 65_536 });
    assert_eq!((steps.given().n, steps.short_columns(), steps.padding_cycles()), (1900, Some(108), 0.0));
    let parts = plan_of("16x1900x65536:128", Dims { m: 16, n: 1920, k: 65_536 });
    assert_eq!((parts.given().n, parts.padded.n), (1920, 1920));
    assert!(parts.padding_cycles() > 0.0);
}

#[test]
fn only_rows_with_scales_of_their_own_are_cut_inside_of_blocks() {
    let block: Problem = "879x4096x4096:128".parse().unwrap();
    let token = block.with_x(ActivationKind::Fp8(ScaleGranularity::Token));
    let tile = Dims { m: 448, n: 1024, k: 4096 };
    let plan_of =
        |problem, tile| TpuPlan::with_tile(problem, chip("tpu7x"), Strategy::Strip, BlockMode::Large, tile);
    assert!(
        TpuPlan::candidates(&token, chip("tpu7x"), Strategy::Strip).iter().any(|plan| plan.tile.m == 448)
    );
    assert_eq!(plan_of(&token, tile).unwrap().padded.m, 896);
    let refused = "tile extent 448 along m is not a multiple of the quantization block 128";
    assert_eq!(plan_of(&block, tile).unwrap_err().to_string(), refused);
    assert!(plan_of(&token, Dims { m: 440, ..tile }).is_err());
}

#[test]
fn an_aligned_strip_is_cut_where_all_of_k_does_not_fit() {
    let plan = plan("1024x1024x131072:512", Strategy::Strip, BlockMode::Aligned);
    assert_eq!((plan.tile.m, plan.tile.n), (512, 512));
    assert!(plan.grid.k > 1 && plan.padded.k == 131_072, "{:?}", plan.tile);
}

#[test]
fn few_rows_take_smaller_stages_or_none_where_k_is_long() {
    let pipeline = |shape| plan(shape, Strategy::Strip, BlockMode::Large).weight_pipeline;
    assert_eq!(
        pipeline("16x1024x131072:128"),
        Some(WeightPipeline { columns: 128, stages: 2, is_resident: false, ends: (128, 128) })
    );
    assert_eq!(pipeline("16x1024x524288:128"), None);
}

#[test]
fn weights_that_fit_stay_while_rows_stream() {
    let token = |shape: &str| {
        let problem: Problem = shape.parse().unwrap();
        let problem = problem.with_x(ActivationKind::Fp8(ScaleGranularity::Token));
        TpuPlan::new(&problem, chip("tpu7x"), Strategy::Strip, BlockMode::Auto).unwrap()
    };
    for shape in ["217x128x4096:128", "1024x256x2880:128", "6145x192x2048:128", "16384x384x4096:128"] {
        let plan = token(shape);
        let pipeline = plan.row_pipeline.unwrap();
        let dequantizes = plan.tile.n > 128;
        assert_eq!(plan.arithmetic == Arithmetic::Dequantized, dequantizes, "{shape}");
        assert_eq!(plan.weight_pipeline, None, "{shape}");
        let rows: usize = plan.row_blocks().iter().map(|&(_, rows)| rows).sum();
        assert_eq!(rows, plan.held().m, "{shape}");
        let whole = if plan.grid.m > 1 { (plan.grid.m - 1) * plan.tile.m } else { 0 };
        assert_eq!(whole + plan.short_rows(), plan.problem.m, "{shape}");
        assert_eq!(plan.padding_cycles(), 0.0, "{shape}");
        assert!(pipeline.stages <= plan.grid.m, "{shape}");
        let value = serde_json::to_value(&plan).unwrap();
        assert_eq!(TpuPlan::deserialize(value).unwrap(), plan, "{shape}");
    }
    assert_eq!(token("4096x8192x8192:128").row_pipeline, None);
    assert_eq!(token("64x128x4096:128").row_pipeline, None);
    let plan = token("16384x384x4096:128");
    assert!(plan.grid.m > plan.row_pipeline.unwrap().stages, "the pipeline turns: {}", plan.tile);
}

#[test]
fn weight_blocks_cover_all_columns() {
    for (columns, ends) in [(512, (128, 256)), (1024, (256, 1024)), (128, (128, 128)), (384, (384, 128))] {
        let pipeline = WeightPipeline { columns, stages: 1, is_resident: true, ends };
        for n in (128..3000).step_by(128) {
            let blocks = weights::blocks(n, pipeline);
            let mut next = 0;
            for (begins, size) in blocks {
                assert_eq!(begins, next);
                assert!(size > 0 && size <= columns, "{n} {pipeline:?}");
                next += size;
            }
            assert_eq!(next, n, "{pipeline:?}");
        }
    }
}

/// The compiler refuses DMAs of other parts of a result.
#[test]
fn parts_of_results_are_whole_tiles() {
    let most_parts = |m, out| {
        let problem = Problem::new(m, 768, 1024, QuantBlock::B128).unwrap().with_out(out);
        let token = problem.with_x(ActivationKind::Fp8(ScaleGranularity::Token));
        let plans = TpuPlan::candidates(&token, chip("tpu7x"), Strategy::Strip);
        plans.iter().map(|plan| plan.row_blocks().len()).max()
    };
    for out in [FloatKind::Bf16, FloatKind::F16, FloatKind::F32] {
        assert!(most_parts(856, out) > Some(1), "{out:?}");
        for m in [850, 853, 1021, 2100] {
            assert!(most_parts(m, out) <= Some(1), "{m} {out:?}");
        }
    }
}

/// Whatever the plan: every place is multiplied over all of K, sums are taken before their accumulators are
/// used again, and all operands are loaded.
#[test]
fn assigned_matmuls_cover_the_product() {
    let mut plans = 0;
    for (m, n, k) in [
        (300, 1100, 1100),
        (527, 1508, 5100),
        (1050, 1030, 901),
        (144, 11_000, 512),
        (600, 2300, 384),
        (1073, 3584, 8192),
        (2565, 7168, 2048),
        (256, 6144, 12_288),
        (768, 2112, 7168),
    ] {
        for granularity in [ScaleGranularity::Token, ScaleGranularity::Block] {
            let problem = Problem::new(m, n, k, QuantBlock::B128).unwrap();
            let problem = problem.with_x(ActivationKind::Fp8(granularity)).with_out(FloatKind::Bf16);
            let candidates = TpuPlan::candidates(&problem, chip("tpu7x"), Strategy::Strip).into_iter();
            for plan in candidates.filter(|plan| plan.mxu_pipeline.is_some()) {
                covers_the_product(&plan);
                let value = serde_json::to_value(&plan).unwrap();
                assert_eq!(TpuPlan::deserialize(value).unwrap(), plan, "{problem}");
                plans += 1;
            }
        }
    }
    assert!(plans > 16, "only {plans} plans");
}

fn covers_the_product(plan: &TpuPlan) {
    let (problem, tile) = (plan.problem, plan.tile);
    let name = format!("{problem} tile {tile}");
    let rows: usize = plan.row_chunks().iter().map(|rows| rows.1).sum();
    assert_eq!(rows, problem.m, "{name}");
    let later = (plan.grid.n - 1) * tile.n;
    assert_eq!(plan.first_step_columns() + later, problem.n, "{name}");
    for is_first in [true, false].into_iter().take(plan.grid.n) {
        let turns = plan.turns(is_first);
        let columns = if is_first { plan.first_step_columns() } else { tile.n };
        let area: usize = plan.places(is_first).iter().map(|place| place.rows.1 * place.columns.1).sum();
        assert_eq!(area, problem.m * columns, "{name}");
        for place in plan.places(is_first) {
            let own = turns.iter().filter(|turn| turn.place == place);
            let mut slices: Vec<_> =
                own.flat_map(|turn| [turn.of_mxu(0), turn.of_mxu(1)]).map(|(_, slice)| slice).collect();
            slices.sort_unstable();
            let times = if place.halves { 1 } else { 2 };
            let expected: Vec<_> = (0..plan.mxu_slices()).flat_map(|slice| vec![slice; times]).collect();
            assert_eq!(slices, expected, "{name}");
        }
        // The sums of a place are taken during the turn after its last one.
        for (number, turn) in turns.iter().enumerate().filter(|(_, turn)| turn.number == 0) {
            let before = &turns[..number];
            let open = before.iter().rev().take(1).filter(|turn| turn.is_last).map(|turn| turn.place);
            let begun = before.iter().map(|turn| turn.place);
            let unfinished =
                begun.filter(|place| !before.iter().any(|turn| turn.place == *place && turn.is_last));
            for place in open.chain(unfinished) {
                assert_ne!(place.address, turn.place.address, "{name}");
            }
        }
        let last = turns.last().unwrap().place;
        assert_eq!((last.address, last.rows.0 + last.rows.1), (0, problem.m), "{name}");
    }
    let loaded = |loads: Vec<super::Load>| loads.iter().map(|load| load.rows.1 * load.k.1).sum::<usize>();
    assert_eq!(loaded(plan.x_loads()), problem.m * problem.k, "{name}");
    assert_eq!(loaded(plan.first_loads()), plan.first_step_columns() * problem.k, "{name}");
}
