//! Mutants in which a warpgroup keeps or claims too many registers, or one of its warps diverges: the
//! simulator must stop each.

use octile_core::{
    Problem, Strategy,
    plan::hopper::{ClusterMode, GpuTile, HopperPlan, TileConfig},
    sample::Operands,
};
use octile_kernels::hopper;
use octile_ptx::simulate::FaultKind;

use crate::{GPU, mutants::executed_lines, problem, product_of, run, text::Text};

/// Plans with two and three consumer warpgroups, and with two CTAs per SM for either operand order.
fn plans() -> [HopperPlan; 4] {
    let plan = |problem: Problem, tile: GpuTile, swapped: bool| {
        let shape = TileConfig { tile, swapped, cluster: ClusterMode::Single };
        HopperPlan::new(&problem, &GPU, Strategy::Strip, shape, None).expect("it has a plan")
    };
    let plans = [
        plan(problem(140, 136, 300), GpuTile { a: 128, b: 128 }, false),
        plan(problem(200, 136, 300), GpuTile { a: 192, b: 96 }, false),
        plan(problem(140, 136, 300), GpuTile { a: 128, b: 32 }, false),
        plan(problem(16, 600, 1200), GpuTile { a: 128, b: 16 }, true),
    ];
    let kinds = plans.each_ref().map(|plan| (plan.consumers, plan.blocks_per_sm));
    assert_eq!(kinds, [(2, 1), (3, 1), (2, 2), (2, 2)]);
    plans
}

/// Replaces executed lines, at least `at_least` of them, one at a time, and returns each with the fault it
/// causes.
fn outcomes(
    plan: &HopperPlan,
    at_least: usize,
    change: impl Fn(&str) -> Option<String>,
) -> Vec<(String, Option<FaultKind>)> {
    let kernel = hopper::multiply(plan);
    let operands = Operands::random(plan.problem, 13);
    let text = Text::new(&kernel.ptx);
    let executed = executed_lines(plan, &kernel.ptx, &operands).into_iter();
    let outcomes = executed.filter_map(|line| {
        let old = text.0[line - 1];
        let mutant = text.with(line - 1, &change(old)?);
        let fault = run(&product_of(plan, &mutant), &operands, 1).err();
        Some((old.to_owned(), fault.map(|fault| fault.kind)))
    });
    let outcomes: Vec<_> = outcomes.collect();
    assert!(outcomes.len() >= at_least, "{}: only {} changes", kernel.entry, outcomes.len());
    outcomes
}

#[test]
fn eight_more_registers() {
    for plan in plans() {
        let more = |line: &str| {
            let (start, count) = line.strip_prefix("setmaxnreg.")?.trim_end_matches(';').split_once(' ')?;
            let count: u32 = count.parse().expect("it is a number");
            Some(format!("setmaxnreg.{start} {};", count + 8))
        };
        for (line, fault) in outcomes(&plan, 2, more) {
            let Some(FaultKind::Deadlock { waiting }) = fault else { panic!("{line}: {fault:?}") };
            assert!(waiting.contains("setmaxnreg.inc"), "{line}: {waiting}");
        }
    }
}

#[test]
fn without_the_first_warp() {
    for plan in plans() {
        // Registers `%r0` and `%p0` are unused.
        let without = |line: &str| {
            let is_joint = line.starts_with("wgmma.") || line.starts_with("setmaxnreg.");
            let text = format!(
                "mov.u32 %r0, %tid.x;\nand.b32 %r0, %r0, 127;\nsetp.lt.u32 %p0, %r0, 32;\n\
                 @%p0 bra SKIP;\n{line}\nSKIP:"
            );
            is_joint.then_some(text)
        };
        for (line, fault) in outcomes(&plan, 10, without) {
            let is_expected = match &fault {
                Some(FaultKind::WarpgroupDiverged { .. } | FaultKind::WarpgroupExited) => true,
                Some(FaultKind::WgmmaNotFenced) => line.starts_with("wgmma.fence"),
                Some(FaultKind::AccumulatorInFlight { .. }) => {
                    line.starts_with("wgmma.commit_group") || line.starts_with("wgmma.wait_group")
                }
                // The first wgmma of a chain: the next one accumulates onto uninitialized registers.
                Some(FaultKind::UninitializedRegister) => line.starts_with("wgmma.mma_async"),
                // Too few registers are released.
                Some(FaultKind::Deadlock { .. }) => line.starts_with("setmaxnreg.dec"),
                _ => false,
            };
            assert!(is_expected, "{line}: {fault:?}");
        }
    }
}
