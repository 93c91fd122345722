//! Every GPU kernel that plans use assembles for `sm_90a`, without a GPU: no register spills, matrix products by the
//! tensor cores, and the copy engine and its barriers exactly where the strategy says so.

use std::{collections::BTreeMap, path::PathBuf, process::Command, sync::OnceLock};

use octile_cli::tools::{NVDISASM, PTXAS, Places, Tool, install};
use octile_core::{
    ActivationKind, FloatKind, Problem, QuantBlock, ScaleGranularity, Strategy,
    device::hopper::HOPPER_GPUS,
    plan::hopper::{HopperPlan, Together, candidates},
};
use octile_kernels::hopper::{self, Kernel};

/// The tool, fetched into the target folder where the machine has none.
fn tool(tool: &'static Tool) -> PathBuf {
    if let Ok(found) = tool.find(&Places::of_process(tool, None)) {
        return found.path;
    }
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("tools");
    install(tool, &folder).expect("the wheel can be fetched").path
}

fn ptxas() -> &'static PathBuf {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| tool(&PTXAS))
}

fn nvdisasm() -> &'static PathBuf {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| tool(&NVDISASM))
}

/// What the assembler says of a kernel, and how often each mnemonic occurs in its machine code.
struct Assembled {
    registers: u32,
    mnemonics: BTreeMap<String, usize>,
}

fn assemble(kernel: &Kernel) -> Assembled {
    let folder = tempfile::tempdir().unwrap();
    let (ptx, cubin) = (folder.path().join("kernel.ptx"), folder.path().join("kernel.cubin"));
    std::fs::write(&ptx, &kernel.ptx).unwrap();
    let output = Command::new(ptxas())
        .args(["-arch=sm_90a", "-v"])
        .arg(&ptx)
        .arg("-o")
        .arg(&cubin)
        .output()
        .expect("ptxas runs");
    let log = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}: {log}", kernel.entry);
    assert!(log.contains("0 bytes spill stores, 0 bytes spill loads"), "{}: {log}", kernel.entry);
    assert!(!log.contains("Potential Performance Loss"), "{}: {log}", kernel.entry);
    let used = log.split("Used ").nth(1).and_then(|rest| rest.split(' ').next());
    let registers = used.and_then(|used| used.parse().ok()).expect("ptxas reports registers");
    let output = Command::new(nvdisasm()).arg("-c").arg(&cubin).output().expect("nvdisasm runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut mnemonics = BTreeMap::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        // `/*0120*/  @!P0 QGMMA.64x128x32... ;`
        let Some((_, code)) = line.split_once("*/") else { continue };
        let words = code.split_whitespace().find(|word| !word.starts_with('@'));
        if let Some(name) = words.and_then(|word| word.split(['.', ';']).next()) {
            *mnemonics.entry(name.to_owned()).or_default() += 1;
        }
    }
    Assembled { registers, mnemonics }
}

fn problem(m: usize, n: usize, k: usize) -> Problem {
    let x = ActivationKind::Fp8(ScaleGranularity::Token);
    Problem::new(m, n, k, QuantBlock::B128).unwrap().with_x(x).with_out(FloatKind::Bf16)
}

/// Checks a kernel against what its plan promises.
fn check(plan: &HopperPlan) {
    let kernel = hopper::multiply(plan);
    let Assembled { registers, mnemonics } = assemble(&kernel);
    let count = |name: &str| mnemonics.get(name).copied().unwrap_or(0);
    let entry = &kernel.entry;
    // Four steps along K in every wave.
    assert_eq!(count("QGMMA"), 4 * plan.waves(), "{entry}");
    let ring = plan.strategy != Strategy::Auto;
    assert_eq!(count("UTMALDG") > 0, ring, "{entry}");
    assert_eq!(count("SYNCS") > 0, ring, "{entry}");
    let staged = matches!(plan.strategy, Strategy::Smem | Strategy::Strip);
    assert_eq!(count("LDGSTS") > 0, staged, "{entry}: scales travel in the ring");
    assert_eq!(count("LDL") + count("STL"), 0, "{entry}");
    let hands_over = ring && plan.consumers == 2;
    assert_eq!(count("USETMAXREG"), if hands_over { 2 } else { 0 }, "{entry}");
    // All resident blocks start with registers for every thread.
    assert!(registers as usize * plan.threads() * plan.blocks_per_sm <= 65_536, "{entry}: {registers}");
    let splits = matches!(plan.shape.together, Together::SplitK(_));
    assert!(!splits || count("UCGABAR_ARV") + count("UCGABAR_WAIT") > 0, "{entry}");
}

#[test]
fn the_plain_strategies_are_what_they_say() {
    for strategy in [Strategy::Auto, Strategy::Dma, Strategy::Smem] {
        for (n, out) in [(512, FloatKind::Bf16), (511, FloatKind::F16), (512, FloatKind::F32)] {
            let problem = problem(512, n, 520 + n % 2).with_out(out);
            check(&HopperPlan::best(&problem, &HOPPER_GPUS[1], strategy).unwrap());
        }
    }
}

#[test]
fn every_shape_of_strip_assembles() {
    for m in [1, 16, 30, 64, 128, 4096] {
        for shape in candidates(&problem(m, 8192, 2048)) {
            check(
                &HopperPlan::new(&problem(m, 8192, 2048), &HOPPER_GPUS[1], Strategy::Strip, shape, None)
                    .unwrap(),
            );
        }
    }
}

#[test]
fn every_quantizing_kernel_assembles() {
    for kind in [FloatKind::F32, FloatKind::Bf16, FloatKind::F16] {
        for granularity in [ScaleGranularity::Token, ScaleGranularity::Block] {
            for quant_block in QuantBlock::ALL {
                for aligned in [true, false] {
                    let kernel = hopper::quantize(kind, granularity, quant_block.size(), aligned);
                    let assembled = assemble(&kernel);
                    assert!(assembled.mnemonics.contains_key("F2FP"), "{}", kernel.entry);
                    assert!(assembled.registers <= 64, "{}", kernel.entry);
                }
            }
        }
    }
}

#[test]
fn the_peak_is_products_alone() {
    let assembled = assemble(&hopper::peak().kernel);
    assert!(assembled.mnemonics["QGMMA"] >= 8);
    assert!(!assembled.mnemonics.contains_key("FFMA"));
}
