//! Correctness and repeatability of every kernel.

use anyhow::{Result, bail};
use octile_core::{
    ActivationKind, FloatKind, Problem, QuantBlock, ScaleGranularity, Strategy,
    plan::hopper::{Arguments, HopperPlan, PROMOTIONS},
    sample::Operands,
};
use octile_runtime::cuda::{Gpu, MultiplyKernel};

use crate::{compile_all, device::*, plans};

/// Checks that a thousand runs are bitwise equal.
pub(crate) fn repeat(gpu: &Gpu) -> Result<()> {
    let small = [(1, 4096, 7168), (16, 2112, 7168), (64, 4096, 7168), (128, 7168, 2048)];
    for (m, n, k) in small.into_iter().chain([(1000, 1000, 2000), (2048, 2048, 2048), (2048, 4096, 600)]) {
        let problem = Problem::new(m, n, k, QuantBlock::B128)?
            .with_x(ActivationKind::Fp8(ScaleGranularity::Token))
            .with_out(FloatKind::Bf16);
        let device = Device::new(gpu, &pieces(problem))?;
        let plan = HopperPlan::best(&problem, gpu.properties(), Strategy::Strip)?;
        let multiplication = MultiplyKernel::new(gpu, &plan)?;
        let prepared = multiplication.prepare(device.operands())?;
        let run = || -> Result<Vec<u8>> {
            device.guarded.fill(0xff)?;
            prepared.launch()?;
            let mut bytes = vec![0; m * n * problem.out.bytes()];
            device.out.read(&mut bytes)?;
            Ok(bytes)
        };
        let first = run()?;
        let mut other = 0;
        for _ in 1..1000 {
            other += usize::from(run()? != first);
        }
        println!("{problem} {}: {other} of 999 runs differ from the first", multiplication.entry());
    }
    Ok(())
}

/// Checks every promotion interval that a quantization block allows.
pub(crate) fn check_promotion(gpu: &Gpu, seed: u64) -> Result<()> {
    let (mut checked, mut failed) = (0, 0);
    for (m, n, k, quant_block) in [(3, 200, 1999, 512), (64, 264, 1024, 256), (200, 576, 2048, 512)] {
        let problem = Problem::new(m, n, k, QuantBlock::try_from(quant_block)?)?;
        let operands = Operands::random(problem, seed);
        let device = Device::new(gpu, &operands)?;
        let rows: Vec<usize> = (0..m).collect();
        for every in PROMOTIONS.into_iter().filter(|&every| every <= quant_block) {
            let reference = reference_promoting(&operands, &rows, every);
            for strategy in [Strategy::Dma, Strategy::Smem, Strategy::Strip] {
                let plan = HopperPlan::with_promotion(&problem, gpu.properties(), strategy, every)?;
                let multiplication = MultiplyKernel::new(gpu, &plan)?;
                let prepared = multiplication.prepare(device.operands())?;
                device.guarded.fill(0xff)?;
                prepared.launch()?;
                let (values, guarded) = result(&device, &problem, &rows)?;
                let worst = worst(&reference, &values);
                checked += 1;
                if worst > 1.0 || !guarded {
                    failed += 1;
                    println!("FAIL {problem} {}: worst {worst:.3}, guard {guarded}", multiplication.entry());
                }
            }
        }
    }
    println!("promotion: {checked} checked, {failed} failed");
    if failed > 0 { bail!("some kernels are wrong") } else { Ok(()) }
}

/// Checks all rows of random small problems with every strategy and every tile shape of `strip`.
pub(crate) fn check(gpu: &Gpu, seed: u64) -> Result<()> {
    let mut rng = octile_core::sample::Rng::new(seed, 3);
    let mut pick = |from: &[usize]| from[(rng.next_u64() % from.len() as u64) as usize];
    let mut problems = Vec::new();
    for m in (1..=256).chain([300, 513, 1000]) {
        let n = pick(&[1, 8, 60, 100, 129, 264, 576, 1001]);
        let k = pick(&[1, 16, 100, 128, 130, 513, 1024, 1999]);
        let quant_block = QuantBlock::try_from(pick(&[128, 128, 256, 512])).expect("valid");
        let granularity = [ScaleGranularity::Token, ScaleGranularity::Block][pick(&[0, 1])];
        let out = [FloatKind::Bf16, FloatKind::F16, FloatKind::F32][pick(&[0, 0, 1, 2])];
        let problem = Problem::new(m, n, k, quant_block).expect("valid");
        problems.push(problem.with_x(ActivationKind::Fp8(granularity)).with_out(out));
    }
    // More tiles than SMs, of few rows and of 256.
    let few_rows = [(1, 24_576, 1536), (16, 17_408, 1999), (32, 20_000, 1200), (64, 17_408, 640)];
    // So many stages that scales are copied in bulk.
    let long = [(300, 1001, 5300), (1000, 576, 5300)];
    let large = [(2000, 4008, 300), (2003, 4104, 1500)];
    for (m, n, k) in few_rows.into_iter().chain(large).chain(long) {
        let problem = Problem::new(m, n, k, QuantBlock::B128).expect("valid");
        problems.push(problem.with_x(ActivationKind::Fp8(ScaleGranularity::Token)).with_out(FloatKind::Bf16));
    }
    let all = |problem: &Problem| {
        let mut all = plans(gpu, problem);
        // The chosen plan, and a twelfth of the other candidates of `strip`, other ones each time.
        let mut turn = problem.m;
        all.retain(|_| {
            turn += 1;
            turn.is_multiple_of(12)
        });
        for strategy in Strategy::ALL {
            all.push(HopperPlan::best(problem, gpu.properties(), strategy).expect("fits"));
        }
        all
    };
    compile_all(gpu, &problems.iter().flat_map(&all).collect::<Vec<_>>());
    let (mut checked, mut failed, mut largest) = (0, 0, 0.0f64);
    for problem in &problems {
        let operands = Operands::random(*problem, seed);
        // Every second problem with row-major scales, the layout that no comparison uses.
        let arguments = if problem.m.is_multiple_of(2) { Arguments::fastest } else { Arguments::packed };
        let device = Device::with(gpu, &operands, arguments(problem))?;
        let rows: Vec<usize> = (0..problem.m).collect();
        let reference = reference(&operands, &rows);
        for plan in all(problem) {
            let multiplication = MultiplyKernel::new(gpu, &plan)?;
            let prepared = multiplication.prepare(device.operands())?;
            device.guarded.fill(0xff)?;
            prepared.launch()?;
            let (values, guarded) = result(&device, problem, &rows)?;
            let worst = worst(&reference, &values);
            checked += 1;
            largest = largest.max(worst);
            if worst > 1.0 || !guarded {
                failed += 1;
                println!(
                    "FAIL {problem} {} {} {}: worst {worst:.3}, guard {guarded}",
                    problem.x,
                    problem.out,
                    multiplication.entry()
                );
            }
        }
    }
    println!("{checked} checked, {failed} failed, worst {largest:.3} of the bound");
    if failed > 0 { bail!("some kernels are wrong") } else { Ok(()) }
}
