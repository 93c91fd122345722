//! Generated kernels are byte-identical to those on record: one SHA-256 for each group of plans.
//!
//! `golden.rs` shows the text of a few kernels; this test covers every strategy, mode, tile candidate and
//! dtype. `BLESS=1 cargo test -p octile-kernels --test identical` records the hashes of the current kernels.

use std::{collections::BTreeMap, fmt::Write as _, fs, path::Path};

use octile_core::{
    ActivationKind, FloatKind, Problem, QuantBlock, ScaleGranularity, Strategy,
    device::{hopper::HOPPER_GPUS, tpu::TPU_CHIPS},
    plan::{
        hopper::{HopperPlan, PROMOTIONS, candidates},
        tpu::{BlockMode, TpuPlan},
    },
};
use octile_kernels::{hopper, reference, tpu};
use sha2::{Digest, Sha256};

const SHAPES: [(usize, usize, usize); 12] = [
    (1, 1024, 1024),
    (5, 129, 130),
    (16, 7168, 2048),
    (64, 4096, 1536),
    (96, 4096, 1536),
    (300, 1000, 3000),
    (512, 512, 512),
    (1000, 1111, 1500),
    (1536, 1536, 1536),
    (2048, 2048, 2048),
    (4096, 2112, 7168),
    (3072, 5120, 5120),
];

const FLOATS: [(FloatKind, &str); 3] =
    [(FloatKind::F32, "f32"), (FloatKind::Bf16, "bf16"), (FloatKind::F16, "f16")];

/// Every kind of activations, with a label that does not depend on how the library prints it.
fn activations() -> Vec<(ActivationKind, String)> {
    let mut kinds = Vec::new();
    for (granularity, scales) in [(ScaleGranularity::Block, "block"), (ScaleGranularity::Token, "token")] {
        kinds.push((ActivationKind::Fp8(granularity), format!("fp8/{scales}")));
        for (float, name) in FLOATS {
            kinds.push((ActivationKind::Quantized(float, granularity), format!("{name}/{scales}")));
        }
    }
    kinds.extend(FLOATS.map(|(float, name)| (ActivationKind::Plain(float), format!("plain-{name}"))));
    kinds
}

/// Every problem: shapes, block sizes, activations and results.
fn problems() -> Vec<(Problem, String)> {
    let mut problems = Vec::new();
    for (x, x_name) in activations() {
        for (out, _) in FLOATS {
            for (m, n, k) in SHAPES {
                for qb in QuantBlock::ALL {
                    let problem = Problem::new(m, n, k, qb).expect("the shape is valid");
                    problems.push((problem.with_x(x).with_out(out), format!("x={x_name}")));
                }
            }
        }
    }
    problems
}

/// Hashes of the kernels of each group, in the order in which they were added.
#[derive(Default)]
struct Groups(BTreeMap<String, (usize, Sha256)>);

impl Groups {
    fn add(&mut self, group: String, text: Option<&str>) {
        let (count, hash) = self.0.entry(group).or_default();
        *count += usize::from(text.is_some());
        hash.update(text.unwrap_or("refused"));
        hash.update([0]);
    }

    fn finish(self) -> String {
        let mut lines = String::new();
        for (group, (count, hash)) in self.0 {
            let hash = hash.finalize();
            let hash: String = hash[..16].iter().map(|byte| format!("{byte:02x}")).collect();
            writeln!(lines, "{hash} {count:4} {group}").expect("strings can be written to");
        }
        lines
    }
}

fn tpu_kernels(groups: &mut Groups) {
    for (index, (problem, label)) in problems().into_iter().enumerate() {
        for strategy in Strategy::ALL {
            for mode in BlockMode::ALL {
                // Every problem on the first chip, and on one of the others.
                for chip in [&TPU_CHIPS[0], &TPU_CHIPS[1 + index % (TPU_CHIPS.len() - 1)]] {
                    let plan = TpuPlan::new(&problem, chip, strategy, mode);
                    let module = plan.ok().map(|plan| tpu::emit(&plan).stablehlo.to_string());
                    groups.add(format!("{} {strategy} {mode} {label}", chip.name), module.as_deref());
                }
            }
        }
    }
}

fn hopper_kernels(groups: &mut Groups) {
    let ptx = |plan: &HopperPlan| hopper::multiply(plan).ptx;
    for (problem, label) in problems() {
        for gpu in &HOPPER_GPUS {
            let name = gpu.name;
            for strategy in Strategy::ALL {
                let plan = HopperPlan::best(&problem, gpu, strategy).ok();
                groups.add(format!("{name} {strategy} {label}"), plan.as_ref().map(ptx).as_deref());
                let plan = plan.map(HopperPlan::for_racecheck);
                groups.add(format!("{name} {strategy} racecheck {label}"), plan.as_ref().map(ptx).as_deref());
            }
        }
        let quantize = hopper::quantize_for(&problem);
        groups.add(format!("sm_90a quantize {label}"), quantize.as_ref().map(|(kernel, _)| &kernel.ptx[..]));
    }
    let gpu = &HOPPER_GPUS[1];
    for (problem, label) in problems().into_iter().filter(|(_, label)| label.starts_with("x=fp8")) {
        for shape in candidates(&problem) {
            let plan = HopperPlan::new(&problem, gpu, Strategy::Strip, shape, None).ok();
            groups.add(format!("h200 strip candidates {label}"), plan.as_ref().map(ptx).as_deref());
        }
        for every in PROMOTIONS {
            let plan = HopperPlan::with_promotion(&problem, gpu, Strategy::Strip, every).ok();
            groups.add(format!("h200 strip promotion {label}"), plan.as_ref().map(ptx).as_deref());
        }
    }
}

#[test]
fn kernels_are_identical_to_those_on_record() {
    let mut groups = Groups::default();
    let mut hopper = Groups::default();
    std::thread::scope(|scope| {
        scope.spawn(|| hopper_kernels(&mut hopper));
        tpu_kernels(&mut groups);
    });
    groups.0.append(&mut hopper.0);
    for (problem, label) in problems() {
        groups.add(format!("reference {label}"), Some(&reference::stablehlo(&problem).to_string()));
    }
    let current = groups.finish();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/identical.txt");
    if std::env::var_os("BLESS").is_some() {
        fs::write(&file, &current).expect("the record can be written");
    }
    let recorded = fs::read_to_string(&file).expect("the record can be read");
    let changed: Vec<&str> =
        current.lines().filter(|line| !recorded.lines().any(|old| old == *line)).collect();
    assert!(changed.is_empty(), "kernels differ from those on record:\n{}", changed.join("\n"));
    assert_eq!(current.lines().count(), recorded.lines().count(), "groups are missing");
}
