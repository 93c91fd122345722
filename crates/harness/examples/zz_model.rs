use octile_core::{
    ActivationKind, FloatKind, Problem, ScaleGranularity, Strategy,
    device::tpu::TpuChip,
    plan::tpu::{BlockMode, TpuPlan},
};
use octile_harness::static_cycles::CycleBound;
fn main() {
    let chip = TpuChip::named("tpu7x").unwrap();
    let mut x = ActivationKind::Fp8(ScaleGranularity::Token);
    let mut out = vec![];
    for s in std::env::args().skip(1) {
        if s == "--block" {
            x = ActivationKind::Fp8(ScaleGranularity::Block);
            continue;
        }
        let p: Problem = s.parse().unwrap();
        let p = p.with_x(x).with_out(FloatKind::Bf16);
        let Ok(plan) = TpuPlan::new(&p, chip, Strategy::Strip, BlockMode::Auto) else {
            println!("{p} none");
            continue;
        };
        let b = CycleBound::new(&p, chip, plan.arithmetic);
        let kind = if plan.mxu_pipeline.is_some() {
            "MXU"
        } else if plan.row_pipeline.is_some() {
            "rows"
        } else if plan.rows_in_lanes {
            "lanes"
        } else if plan.weight_pipeline.is_some() {
            "weights"
        } else {
            "stepped"
        };
        out.push((
            p.m,
            b.larger(),
            plan.modelled_cycles() / b.larger(),
            format!(
                "{p} {} {kind} {:?} bound {:.0} model {:.0} ratio {:.3}",
                plan.tile,
                plan.arithmetic,
                b.larger(),
                plan.modelled_cycles(),
                plan.modelled_cycles() / b.larger()
            ),
        ));
    }
    out.sort_by(|a, b| a.2.total_cmp(&b.2));
    for o in out {
        println!("{}", o.3);
    }
}
