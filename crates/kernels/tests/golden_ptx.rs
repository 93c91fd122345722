//! PTX of the four strategies, kept in `filetests/ptx/kernels` for the reader of a diff, and read back.
//!
//! `BLESS=1 cargo test -p octile-kernels --test golden_ptx` rewrites the files.

use std::{fs, path::Path};

use octile_core::{
    ActivationKind, FloatKind, Problem, QuantBlock, ScaleGranularity, Strategy, device::hopper::HOPPER_GPUS,
    plan::hopper::HopperPlan,
};
use octile_kernels::hopper;
use octile_ptx::ir::Module;
use sha2::{Digest, Sha256};

fn kernel(problem: &Problem, strategy: Strategy) -> String {
    let plan = HopperPlan::best(problem, &HOPPER_GPUS[1], strategy).expect("it has a plan");
    hopper::multiply(&plan).ptx
}

fn problem(m: usize, n: usize, k: usize) -> Problem {
    let problem = Problem::new(m, n, k, QuantBlock::B128).expect("the shape is valid");
    problem.with_x(ActivationKind::Fp8(ScaleGranularity::Token)).with_out(FloatKind::Bf16)
}

/// A short kernel, or the start of a long one with a hash of the rest.
fn excerpt(text: &str) -> String {
    const SHORT: usize = 30_000;
    const SHOWN: usize = 20_000;
    if text.len() <= SHORT {
        return text.to_owned();
    }
    let end = text[..SHOWN].rfind('\n').expect("a kernel has lines") + 1;
    let (start, rest) = text.split_at(end);
    let hash: String = Sha256::digest(rest).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{start}// {} more lines with SHA-256 {hash}\n", rest.lines().count())
}

#[test]
fn kernels_are_as_recorded() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../filetests/ptx/kernels");
    for strategy in Strategy::ALL {
        let file = folder.join(format!("{strategy}.ptx"));
        let text = excerpt(&kernel(&problem(16, 512, 1024), strategy));
        if std::env::var_os("BLESS").is_some() {
            fs::write(&file, &text).expect("the file can be written");
        }
        let recorded = fs::read_to_string(&file).expect("the file can be read");
        assert!(text == recorded, "{} differs (BLESS=1 rewrites it)", file.display());
    }
}

#[test]
fn kernels_are_valid_and_print_as_they_were_parsed() {
    for (m, n, k) in [(1, 512, 1024), (16, 520, 900), (300, 264, 900), (2048, 2048, 2048)] {
        for strategy in Strategy::ALL {
            let text = kernel(&problem(m, n, k), strategy);
            let module = Module::parse(&text).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(module.verify(), []);
            assert!(module.to_string() == text, "{strategy} {m}x{n}x{k}");
        }
    }
}
