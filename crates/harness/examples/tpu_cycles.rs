//! Static cycles of TPU plans, with DMAs at the chip's rates, and their distance from the bounds:
//! `LIBTPU=libtpu.so tpu_cycles [--chip NAME] [--all | --tile MxNxK] [--x KIND] SHAPE...`.
//!
//! Without an option the default plan of each shape is compiled, with `--all` every candidate. `--x` is
//! `token` (fp8 with a scale per row, the default), `block` (fp8 with a scale per block), `bf16` (quantized
//! by the kernel, a scale per row) or `plain` (bf16, not quantized). `model` is what the planner expected,
//! with `padding`, the modelled cycles of what surrounds the kernel.

use std::{env, process::ExitCode};

use anyhow::{Context, Result, bail};
use octile_core::{
    ActivationKind, FloatKind, Problem, ScaleGranularity, Strategy,
    device::tpu::TpuChip,
    plan::tpu::{BlockMode, Dims, TpuPlan},
};
use octile_harness::static_cycles::{CycleBound, StaticCounter};
use octile_runtime::pjrt::compile::serve;

/// Argument of the child process.
const CHILD: &str = "--compile-child";

fn main() -> ExitCode {
    if env::args().nth(1).as_deref() == Some(CHILD) {
        return if serve(std::io::stdin(), std::io::stdout()).is_ok() { ExitCode::SUCCESS } else { 2.into() };
    }
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            2.into()
        }
    }
}

fn run() -> Result<()> {
    let libtpu = env::var_os("LIBTPU").context("set LIBTPU to the path of libtpu.so")?;
    let mut chip = TpuChip::named("tpu7x")?;
    let mut x = ActivationKind::Fp8(ScaleGranularity::Token);
    let (mut all, mut tile, mut shapes) = (false, None, Vec::new());
    let mut arguments = env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--all" => all = true,
            "--chip" => chip = TpuChip::named(&arguments.next().context("--chip takes a name")?)?,
            "--tile" => tile = Some(parse_tile(&arguments.next().context("--tile takes MxNxK")?)?),
            "--x" => x = parse_x(&arguments.next().context("--x takes a kind")?)?,
            shape => shapes.push(shape.parse::<Problem>()?),
        }
    }
    if shapes.is_empty() {
        bail!("give shapes, for example 2048x2048x2048:512");
    }
    let child = vec![env::current_exe()?.into(), CHILD.into()];
    let counter = StaticCounter::new(libtpu.into(), child, chip);
    println!(
        "shape tile arithmetic steps cycles stalled mxu_busy MiB code mxu hbm padding ratio \
         ratio_with_padding floor model pieces"
    );
    for shape in shapes {
        let problem = shape.with_x(x).with_out(FloatKind::Bf16);
        let plans = match (all, tile) {
            (true, _) => TpuPlan::candidates(&problem, chip, Strategy::Strip),
            (false, Some(tile)) => {
                vec![TpuPlan::with_tile(&problem, chip, Strategy::Strip, BlockMode::Auto, tile)?]
            }
            (false, None) => vec![TpuPlan::new(&problem, chip, Strategy::Strip, BlockMode::Auto)?],
        };
        for plan in plans {
            report(&counter, &plan);
        }
    }
    Ok(())
}

fn report(counter: &StaticCounter, plan: &TpuPlan) {
    let (problem, tile) = (plan.problem, plan.tile);
    match counter.count(plan) {
        Err(error) => println!("{problem} {tile} {error}"),
        Ok(cycles) => {
            let bound = CycleBound::new(&problem, plan.chip, plan.arithmetic);
            print!(
                "{problem} {tile} {:?} {} {:.0} {:.0} {:.0} {:.1} {} ",
                plan.arithmetic,
                plan.steps(),
                cycles.total(),
                cycles.stalled,
                cycles.mxu_busy,
                cycles.hbm_bytes as f64 / f64::from(1 << 20),
                cycles.code_bundles,
            );
            println!(
                "{:.0} {:.0} {:.0} {:.3} {:.3} {:.3} {:.0} {}",
                bound.mxu,
                bound.hbm,
                plan.padding_cycles(),
                cycles.total() / bound.larger(),
                (cycles.total() + plan.padding_cycles()) / bound.larger(),
                cycles.total() / (bound.larger() + bound.latency),
                plan.modelled_cycles(),
                pieces(plan),
            );
        }
    }
}

/// Rows or columns of the blocks of a step.
fn pieces(plan: &TpuPlan) -> String {
    let blocks = [plan.row_blocks(), plan.weight_blocks()].concat();
    blocks.iter().map(|(_, size)| size.to_string()).collect::<Vec<_>>().join("+")
}

fn parse_x(text: &str) -> Result<ActivationKind> {
    Ok(match text {
        "token" => ActivationKind::Fp8(ScaleGranularity::Token),
        "block" => ActivationKind::Fp8(ScaleGranularity::Block),
        "bf16" => ActivationKind::Quantized(FloatKind::Bf16, ScaleGranularity::Token),
        "plain" => ActivationKind::Plain(FloatKind::Bf16),
        other => bail!("expected token, block, bf16 or plain, not {other}"),
    })
}

fn parse_tile(text: &str) -> Result<Dims> {
    let sides: Vec<usize> = text.split('x').map(str::parse).collect::<Result<_, _>>()?;
    let &[m, n, k] = sides.as_slice() else { bail!("a tile is MxNxK, not {text}") };
    Ok(Dims { m, n, k })
}
