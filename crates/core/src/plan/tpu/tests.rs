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
fn buffers_count_whole_tiles_of_memory() {
    // Per buffer: fp8 rows come in 32s, scales in (8,128) tiles of f32 in vector memory and rows of 128 in
    // scalar memory.
    let bytes = |strategy, name| {
        let plan = plan("16x512x512:128", strategy, BlockMode::Aligned);
        plan.memory.regions().iter().find(|r| r.name == name).unwrap().bytes
    };
    assert_eq!(bytes(Strategy::Dma, "x"), 32 * 128);
    assert_eq!(bytes(Strategy::Dma, "w_scale"), 8 * 128 * 4);
    assert_eq!(bytes(Strategy::Smem, "w_scale"), 128 * 4);
    assert_eq!(bytes(Strategy::Strip, "w_scale"), 4 * 128 * 4);
}

#[test]
fn strips_cover_k_and_pick_the_measured_tiles() {
    let strip = |shape| plan(shape, Strategy::Strip, BlockMode::Large);
    let tile = |shape| strip(shape).tile;
    assert_eq!(tile("2048x2048x2048:512"), Dims { m: 1024, n: 1024, k: 2048 });
    assert_eq!(tile("4096x4096x4096:512"), Dims { m: 1024, n: 1024, k: 4096 });
    assert_eq!(strip("2048x2048x2048:512").arithmetic, Arithmetic::Fp8);
    assert_eq!(strip("2048x2048x2048:128").arithmetic, Arithmetic::Dequantized);
    let few_rows = strip("16x4096x4096:128");
    assert_eq!(few_rows.arithmetic, Arithmetic::Fp8);
    assert_eq!(few_rows.ring, Some(Ring { columns: 512, slots: 8 }));
    assert_eq!(few_rows.semaphores, 12);
}

#[test]
fn a_k_too_long_for_memory_is_cut() {
    let plan = plan("4096x4096x262144:512", Strategy::Strip, BlockMode::Large);
    assert!(plan.grid.k > 1);
    assert_eq!(plan.padded.k, 262_144);
    assert!(plan.memory.regions().iter().any(|r| r.name == "acc"));
}

#[test]
fn quantized_activations_are_kept_only_where_they_are_reused() {
    let problem: Problem = "512x512x512:128".parse().unwrap();
    let quantized = problem.with_x(ActivationKind::Quantized(FloatKind::Bf16, ScaleGranularity::Block));
    let plan = TpuPlan::new(&quantized, chip("tpu7x"), Strategy::Auto, BlockMode::Aligned).unwrap();
    assert!(plan.keeps_quantized_x);
    let x_q = |plan: &TpuPlan| plan.memory.regions().iter().find(|r| r.name == "x_q").unwrap().buffers;
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
        "v4 has no f8e4m3fn matrix product: choose tpu7x, v6e, v5e or v5p, or leave the activations unquantized"
    );
    let with_tile = |m, n, k| {
        let tile = Dims { m, n, k };
        let plan = TpuPlan::with_tile(&problem, chip("tpu7x"), Strategy::Dma, BlockMode::Large, tile);
        plan.unwrap_err().to_string()
    };
    assert_eq!(
        with_tile(512, 200, 512),
        "a tile of 200 along n is no multiple of the quantization block 128"
    );
    let vmem = with_tile(16384, 16384, 128);
    assert!(vmem.starts_with("strategy dma needs "), "{vmem}");
    assert!(vmem.contains("bytes of VMEM on tpu7x, but 58720256 are available"), "{vmem}");
    let scales = Problem::new(16, 1 << 20, 1 << 16, QuantBlock::B128).unwrap();
    let smem = TpuPlan::new(&scales, chip("tpu7x"), Strategy::Strip, BlockMode::Large).unwrap_err();
    assert!(smem.to_string().contains("bytes of SMEM on tpu7x"), "{smem}");
}

#[test]
fn an_aligned_strip_is_cut_where_all_of_k_does_not_fit() {
    let plan = plan("1024x1024x131072:512", Strategy::Strip, BlockMode::Aligned);
    assert_eq!((plan.tile.m, plan.tile.n), (512, 512));
    assert!(plan.grid.k > 1 && plan.padded.k == 131_072, "{:?}", plan.tile);
}

#[test]
fn few_rows_take_smaller_pieces_or_none_where_k_is_long() {
    let ring = |shape| plan(shape, Strategy::Strip, BlockMode::Large).ring;
    assert_eq!(ring("16x1024x131072:128"), Some(Ring { columns: 128, slots: 2 }));
    assert_eq!(ring("16x1024x524288:128"), None);
}
