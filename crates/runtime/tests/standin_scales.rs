//! Scales whose product overflows are refused before anything is copied to the GPU.

#![forbid(unsafe_code)]

use octile_core::{
    ActivationKind, Mat, Problem, QuantBlock, QuantizedActivation, QuantizedWeight, ScaleGranularity,
};
use octile_runtime::cuda::{DeviceOperands, Gpu, HostActivations};
use octile_standin_driver::StandIn;

#[test]
fn scales_that_overflow_together_are_refused() {
    let _driver = StandIn::load();
    let gpu = Gpu::open(0).unwrap();
    let zeros = [0; 128];
    let zeros = Mat::new(&zeros, 1, 128).unwrap();
    let granularity = ScaleGranularity::Token;
    let problem = Problem::new(1, 1, 128, QuantBlock::B128).unwrap().with_x(ActivationKind::Fp8(granularity));
    let upload = |x_scale: f32, w_scale: f32| {
        let x = QuantizedActivation::from_parts(zeros, &[x_scale], QuantBlock::B128, granularity).unwrap();
        let weight = QuantizedWeight::from_parts(zeros, &[w_scale], QuantBlock::B128).unwrap();
        DeviceOperands::new(&gpu, &problem, HostActivations::Fp8(&x), &weight).map(drop)
    };
    let error = upload(1e20, 1e20).unwrap_err().to_string();
    assert!(error.contains("activation scale 1e20") && error.contains("overflows f32"), "{error}");
    upload(1e20, 1e18).unwrap();
}
