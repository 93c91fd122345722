//! Prints the PTX of a plan: `emit_ptx STRATEGY MxNxK:QB [A B SWAPPED TOGETHER]`.
use octile_core::{FloatKind, Problem, device::hopper::HOPPER_GPUS, plan::hopper::*};

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let problem: Problem = args[2].parse().unwrap();
    let problem = problem.with_out(FloatKind::Bf16);
    let strategy = args[1].parse().unwrap();
    let plan = if args.len() > 3 {
        let n = |i: usize| args[i].parse::<usize>().unwrap();
        let together = match &args[6][..] { "1" => Together::Alone, "a" => Together::ShareA, "b" => Together::ShareB, s => Together::SplitK(s.parse().unwrap()) };
        let shape = Shape { tile: GpuTile { a: n(3), b: n(4) }, swapped: n(5) == 1, together };
        HopperPlan::new(&problem, &HOPPER_GPUS[1], strategy, shape, None).unwrap()
    } else { HopperPlan::best(&problem, &HOPPER_GPUS[1], strategy).unwrap() };
    eprintln!("{plan:?}");
    print!("{}", octile_kernels::hopper::multiply(&plan).ptx);
}
