//! Runs the files of `filetests/mosaic`: each holds the body of a kernel and what is expected of it.
//! `runner` describes the form of a file. `run: simulate` runs the kernel, `run: verify CHIP` reports what
//! the compiler would reject.

#[path = "../../../filetests/runner.rs"]
mod runner;
mod support;

use octile_core::device::tpu::TpuChip;
use octile_mosaic::{
    interpret::{Finding, Options, Tensor, simulate},
    parse,
    verify::{Violation, verify},
};
use serde_json::Value;
use support::{floats, rates};

/// The kernel around a body. `%x` holds 0, 1, 2, … in HBM, `%out` is the result; `%a`, `%b` are buffers, `%s`
/// and `%t` semaphores of DMAs, `%r` is one that counts.
const PROLOGUE: &str = "\
!hbm = memref<32x128xf32, #tpu.memory_space<hbm>>
!rows = memref<8x128xf32, #tpu.memory_space<hbm>>
!vmem = memref<8x128xf32, #tpu.memory_space<vmem>>
!dma = memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>
!count = memref<!tpu.semaphore, #tpu.memory_space<semaphore_mem>>
!vector = vector<8x128xf32>
module {
  func.func @k(%x: !hbm, %out: !rows, %a: !vmem, %b: !vmem, %s: !dma, %t: !dma, %r: !count)
      attributes {scratch_operands = 5 : i64, window_params = [{}, {}]} {
    %c0 = arith.constant 0 : index
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %eight = arith.constant 8 : i32
    %x0 = tpu.memref_slice %x[%zero, %zero] : !hbm -> !rows
    %x1 = tpu.memref_slice %x[%eight, %zero] : !hbm -> !rows
";

fn outcome(run: &str, lines: &[&str]) -> String {
    let text = format!("{PROLOGUE}{}\n    return\n  }}\n}}\n", lines.join("\n"));
    let module = match parse(&text) {
        Ok(module) => module,
        Err(error) => return format!("parse error: {}", in_file(&error.to_string())),
    };
    match run.split_once(' ').unwrap_or((run, "")) {
        ("verify", chip) => {
            let violations = verify(&module, TpuChip::named(chip).expect("the chip is known"));
            let rule = |found: &Violation| {
                let line = found.place.map_or(0, |place| place.line);
                format!("line {}: {}", line_in_file(line.into()), found.message)
            };
            join(violations.iter().map(rule).collect())
        }
        ("simulate", "") => {
            match simulate(&module, &[floats(&[32, 128], |i| i as f32)], &Options::new(rates())) {
                Ok(run) => {
                    let mut parts: Vec<String> = run.findings.iter().map(described).collect();
                    parts.extend(run.completed.then(|| written(&run.outputs[0])).flatten());
                    join(parts)
                }
                Err(error) => in_file(&error.to_string()),
            }
        }
        _ => panic!("`run: {run}` is neither `simulate` nor `verify CHIP`"),
    }
}

fn join(parts: Vec<String>) -> String {
    if parts.is_empty() { "ok".to_owned() } else { parts.join("; ") }
}

/// First and last element of a result, if all of it is written.
fn written(out: &Tensor) -> Option<String> {
    let values = out.to_f32();
    let whole = values.iter().all(|value| !value.is_nan());
    whole.then(|| format!("out {} .. {}", values[0], values[values.len() - 1]))
}

/// `deadlock: available 0, needed 4096, semaphore s, wait line 5`
fn described(finding: &Finding) -> String {
    let value = serde_json::to_value(finding).expect("findings are serializable");
    let fields = value.as_object().expect("a finding has fields");
    let kind = fields["kind"].as_str().expect("a finding has a kind");
    let shown = fields.iter().filter(|(name, _)| !["kind", "times", "area"].contains(&name.as_str()));
    let area = fields.get("area").map(|area| format!(" {}", rendered(area))).unwrap_or_default();
    let shown: Vec<String> = shown.map(|(name, value)| format!("{name} {}", rendered(value))).collect();
    format!("{kind}{area}: {}", shown.join(", "))
}

fn rendered(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(values) => format!("[{}]", values.iter().map(rendered).collect::<Vec<_>>().join(", ")),
        Value::Object(fields) => match (fields.get("line"), fields.get("buffer")) {
            (Some(line), _) => format!("line {}", line_in_file(line.as_u64().unwrap_or(0))),
            (None, Some(buffer)) => rendered(buffer),
            (None, None) => value.to_string(),
        },
        other => other.to_string(),
    }
}

fn line_in_file(line: u64) -> i64 {
    line as i64 - PROLOGUE.lines().count() as i64
}

/// The line at the start of an error, as a line of the file.
fn in_file(error: &str) -> String {
    let first = error.lines().next().unwrap_or_default();
    let first = first.split("; supported operations").next().unwrap_or_default();
    match first.split_once(':').and_then(|(line, rest)| Some((line.parse().ok()?, rest))) {
        Some((line, rest)) => format!("{}:{rest}", line_in_file(line)),
        None => first.to_owned(),
    }
}

#[test]
fn files_behave_as_stated() {
    runner::check_files("mosaic", "mlir", 10, outcome);
}
