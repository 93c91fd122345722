//! Prints the Mosaic kernel or the StableHLO module of a plan:
//! `cargo run -p octile-kernels --example emit -- mosaic strip large 2048x2048x2048:512`.

use octile_core::{
    ActivationKind, FloatKind, Problem, ScaleGranularity,
    device::tpu::TpuChip,
    plan::tpu::{BlockMode, TpuPlan},
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let arg = |i: usize, default: &'static str| args.get(i).map_or(default, String::as_str);
    let granularity = match arg(6, "block") {
        "token" => ScaleGranularity::Token,
        _ => ScaleGranularity::Block,
    };
    let x = match arg(4, "fp8") {
        "bf16" => ActivationKind::Quantized(FloatKind::Bf16, granularity),
        "f32" => ActivationKind::Quantized(FloatKind::F32, granularity),
        "f16" => ActivationKind::Quantized(FloatKind::F16, granularity),
        "plain" => ActivationKind::Plain(FloatKind::Bf16),
        "plain-f32" => ActivationKind::Plain(FloatKind::F32),
        _ => ActivationKind::Fp8(granularity),
    };
    let out = if arg(7, "bf16") == "f32" { FloatKind::F32 } else { FloatKind::Bf16 };
    let problem: Problem = arg(3, "512x512x512:128").parse()?;
    let problem = problem.with_x(x).with_out(out);
    let chip = TpuChip::named(arg(5, "tpu7x"))?;
    let mode: BlockMode = arg(2, "aligned").parse()?;
    let plan = TpuPlan::new(&problem, chip, arg(1, "auto").parse()?, mode)?;
    let emitted = octile_kernels::tpu::emit(&plan);
    match arg(0, "mosaic") {
        "plan" => println!("{plan:#?}"),
        "stablehlo" => print!("{}", emitted.stablehlo),
        "reference" => print!("{}", octile_kernels::reference::stablehlo(&problem)),
        _ => print!("{}", emitted.mosaic),
    }
    Ok(())
}
