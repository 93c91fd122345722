//! Golden files of printed modules. The first line of a file says what to print:
//!
//! ```text
//! // dma large 256x256x512:128 x=bf16 scales=block out=f32 print=mosaic
//! ```
//!
//! `BLESS=1 cargo test -p octile-kernels --test golden` rewrites them; review the diff.

use std::{fs, path::Path};

use octile_core::{
    ActivationKind, FloatKind, Problem, ScaleGranularity,
    device::tpu::TpuChip,
    plan::tpu::{Dims, TpuPlan},
};

/// Prints what the first line of a file asks for.
fn printed(header: &str) -> String {
    let words: Vec<&str> = header.trim_start_matches("//").split_whitespace().collect();
    let option = |name: &str, default: &'static str| -> String {
        let prefix = format!("{name}=");
        let given = words.iter().find_map(|word| word.strip_prefix(prefix.as_str()));
        given.unwrap_or(default).to_owned()
    };
    let granularity = match option("scales", "block").as_str() {
        "block" => ScaleGranularity::Block,
        "token" => ScaleGranularity::Token,
        other => panic!("'{other}' in '{header}' is no granularity"),
    };
    let x = match option("x", "fp8").as_str() {
        "fp8" => ActivationKind::Fp8(granularity),
        "bf16" => ActivationKind::Quantized(FloatKind::Bf16, granularity),
        "f32" => ActivationKind::Quantized(FloatKind::F32, granularity),
        "plain-bf16" => ActivationKind::Plain(FloatKind::Bf16),
        other => panic!("'{other}' in '{header}' is no kind of activations"),
    };
    let out = match option("out", "f32").as_str() {
        "f32" => FloatKind::F32,
        "bf16" => FloatKind::Bf16,
        "f16" => FloatKind::F16,
        other => panic!("'{other}' in '{header}' is no result type"),
    };
    let problem: Problem = words[2].parse().unwrap();
    let problem = problem.with_x(x).with_out(out);
    let (strategy, mode) = (words[0].parse().unwrap(), words[1].parse().unwrap());
    let chip = TpuChip::named("tpu7x").unwrap();
    let tile = words.iter().find_map(|word| word.strip_prefix("tile="));
    let plan = || match tile.map(tile_of) {
        Some(tile) => TpuPlan::with_tile(&problem, chip, strategy, mode, tile).unwrap(),
        None => TpuPlan::new(&problem, chip, strategy, mode).unwrap(),
    };
    match option("print", "mosaic").as_str() {
        "mosaic" => octile_kernels::tpu::emit(&plan()).mosaic.to_string(),
        "stablehlo" => without_body(&octile_kernels::tpu::emit(&plan()).stablehlo.to_string()),
        "reference" => octile_kernels::reference::stablehlo(&problem).to_string(),
        other => panic!("'{other}' in '{header}' is nothing to print"),
    }
}

/// `MxNxK`.
fn tile_of(text: &str) -> Dims {
    let sides: Vec<usize> = text.split('x').map(|side| side.parse().unwrap()).collect();
    Dims { m: sides[0], n: sides[1], k: sides[2] }
}

/// A module without the kernel's base64, which has a golden file of its own.
fn without_body(module: &str) -> String {
    let key = "\\\"body\\\":\\\"";
    let begin = module.find(key).expect("the call holds a kernel") + key.len();
    let end = begin + module[begin..].find('\\').expect("the kernel ends");
    format!("{}...{}", &module[..begin], &module[end..])
}

#[test]
fn printed_modules_are_as_recorded() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let bless = std::env::var_os("BLESS").is_some();
    let mut files: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty(), "no files in {}", folder.display());
    let mut changed = Vec::new();
    for file in files {
        let recorded = fs::read_to_string(&file).unwrap();
        let (header, recorded) =
            recorded.split_once('\n').expect("a file begins with what it is the text of");
        let printed = printed(header);
        if printed == recorded {
            continue;
        }
        if bless {
            fs::write(&file, format!("{header}\n{printed}")).unwrap();
        } else {
            let line = printed.lines().zip(recorded.lines()).position(|(now, then)| now != then);
            let line = line.unwrap_or_else(|| printed.lines().count().min(recorded.lines().count()));
            changed.push(format!("{} from line {}", file.display(), line + 2));
        }
    }
    assert!(
        changed.is_empty(),
        "printed otherwise than recorded (BLESS=1 records anew):\n{}",
        changed.join("\n")
    );
}
