//! The serialized form of a kernel is the same kernel.

use octile_core::{
    ActivationKind, FloatKind, Problem, ScaleGranularity, Strategy,
    device::tpu::TpuChip,
    plan::tpu::{BlockMode, TpuPlan},
};
use octile_kernels::tpu;
use octile_mosaic::parse;

#[test]
fn serialized_kernels_upgrade_to_themselves() {
    let chip = TpuChip::named("tpu7x").unwrap();
    let granularity = ScaleGranularity::Token;
    let kinds = [
        ActivationKind::Fp8(granularity),
        ActivationKind::Quantized(FloatKind::Bf16, granularity),
        ActivationKind::Plain(FloatKind::F32),
    ];
    for strategy in Strategy::ALL {
        for (shape, x) in
            ["16x384x512:128", "300x512x1024:256"].into_iter().flat_map(|s| kinds.map(|x| (s, x)))
        {
            let problem = shape.parse::<Problem>().unwrap().with_x(x).with_out(FloatKind::Bf16);
            let plan = TpuPlan::new(&problem, chip, strategy, BlockMode::Auto).unwrap();
            let kernel = tpu::emit(&plan).mosaic;
            let serialized = kernel.stable().to_string();
            let upgraded = parse(&serialized).unwrap_or_else(|error| panic!("{strategy} {problem}: {error}"));
            let expected = parse(&kernel.to_string()).unwrap();
            assert_eq!(upgraded.functions.len(), expected.functions.len());
            for (upgraded, expected) in upgraded.functions.iter().zip(&expected.functions) {
                assert_eq!(upgraded.body, expected.body, "{strategy} {problem}");
                assert_eq!(upgraded.attributes, expected.attributes);
            }
        }
    }
}
