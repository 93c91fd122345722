//! `octile simulate`, from its arguments to its report.

use std::{fs, path::PathBuf};

use clap::Parser;
use octile_cli::{
    Verdict,
    args::{Args, Command},
    command::simulate::{SimulateReport, SimulateRequest, chrome_trace, run},
    print::simulate::drawing,
};
use safetensors::{Dtype, tensor::TensorView};

/// A kernel that doubles its operand, with or without a wait for the last DMA.
fn kernel(wait: &str) -> String {
    let semaphore = "memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>";
    let (far, near) =
        ("memref<16x128xf32, #tpu.memory_space<hbm>>", "memref<16x128xf32, #tpu.memory_space<vmem>>");
    format!(
        "module {{
  func.func @double(%x: {far}, %out: {far}, %buffer: {near}, %s: {semaphore}) attributes {{scratch_operands = 2 : i64, window_params = [{{}}, {{}}]}} {{
    %c0 = arith.constant 0 : index
    tpu.enqueue_dma source(%x : {far}) target(%buffer : {near}) target_semaphore(%s : {semaphore})
    tpu.wait_dma2 semaphore(%s : {semaphore}) src(%x : {far}) dst(%buffer : {near})
    %0 = vector.load %buffer[%c0, %c0] : {near}, vector<16x128xf32>
    %1 = arith.addf %0, %0 : vector<16x128xf32>
    tpu.vector_store %buffer[%c0, %c0], %1 {{strides = array<i32>}} : {near}, vector<16x128xf32>,
    tpu.enqueue_dma source(%buffer : {near}) target(%out : {far}) target_semaphore(%s : {semaphore})
    {wait}
    return
  }}
}}"
    )
}

const WAIT: &str = "tpu.wait_dma2 semaphore(%s : memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>) src(%buffer : memref<16x128xf32, #tpu.memory_space<vmem>>) dst(%out : memref<16x128xf32, #tpu.memory_space<hbm>>)";

/// Writes a kernel and its tensors; returns the arguments.
fn arguments(folder: &tempfile::TempDir, text: &str, more: &[&str]) -> octile_cli::args::SimulateArgs {
    let path = |name: &str| folder.path().join(name);
    fs::write(path("kernel.mlir"), text).unwrap();
    let bytes =
        |factor: f32| (0..16 * 128).flat_map(|i| (i as f32 * factor).to_le_bytes()).collect::<Vec<u8>>();
    let wide =
        |factor: f64| (0..16 * 128).flat_map(|i| (i as f64 * factor).to_le_bytes()).collect::<Vec<u8>>();
    let (x, out) = (bytes(1.0), bytes(2.0));
    let tensor = |data| TensorView::new(Dtype::F32, vec![16, 128], data).unwrap();
    let (wide, codes) = (wide(2.0), vec![0; 16 * 128]);
    let reference = TensorView::new(Dtype::F64, vec![16, 128], &wide).unwrap();
    let narrow = TensorView::new(Dtype::F8_E4M3, vec![16, 128], &codes).unwrap();
    let tensors =
        [("x", tensor(&x)), ("out", tensor(&out)), ("reference_f64", reference), ("reference_f8", narrow)];
    fs::write(path("tensors.safetensors"), safetensors::serialize(tensors, None).unwrap()).unwrap();
    let files = [path("kernel.mlir"), path("tensors.safetensors")].map(|p: PathBuf| p.display().to_string());
    let mut line = vec!["octile", "simulate", &files[0], "--tensors", &files[1]];
    if !more.contains(&"--expect") {
        line.extend(["--expect", "out"]);
    }
    line.extend(more);
    match Args::parse_from(line).command {
        Some(Command::Simulate(args)) => args,
        other => panic!("{other:?}"),
    }
}

fn report(text: &str, more: &[&str]) -> anyhow::Result<SimulateReport> {
    let folder = tempfile::tempdir().unwrap();
    run(&SimulateRequest::new(&arguments(&folder, text, more))?)
}

#[test]
fn a_good_kernel_passes_and_has_a_timeline() {
    let report = report(&kernel(WAIT), &["--trace", "t.json"]).unwrap();
    assert_eq!(report.verdict(), Verdict::Passed, "{report:?}");
    assert_eq!(report.comparison.unwrap().max_difference, 0.0);
    assert_eq!((report.figures.copies, report.figures.bytes_moved), (2, 2 * 16 * 128 * 4));
    assert_eq!(report.shares.traffic, 1.0);
    let trace = chrome_trace(&report.timeline);
    let events = trace["traceEvents"].as_array().unwrap();
    let phases = |phase: &str| events.iter().filter(|event| event["ph"] == phase).count();
    assert_eq!((phases("b"), phases("e")), (2, 2), "{trace}");
    let svg = drawing(&report.timeline, "a < b");
    assert!(svg.starts_with("<svg") && svg.contains("a &lt; b") && svg.ends_with("</svg>\n"));
}

#[test]
fn a_result_is_compared_with_an_f64_reference() {
    let same = report(&kernel(WAIT), &["--expect", "reference_f64"]).unwrap();
    assert_eq!(same.verdict(), Verdict::Passed);
    assert_eq!(same.comparison.unwrap().max_difference, 0.0);
    let squared = kernel(WAIT).replace("arith.addf %0, %0", "arith.mulf %0, %0");
    let off = report(&squared, &["--expect", "reference_f64"]).unwrap();
    assert_eq!(off.verdict(), Verdict::Failed);
    assert!(off.comparison.unwrap().max_difference > 1e6);
}

#[test]
fn a_missing_wait_fails_with_the_line_of_the_dma() {
    let report = report(&kernel(""), &[]).unwrap();
    assert_eq!(report.verdict(), Verdict::Failed);
    assert_eq!(report.findings.len(), 1, "{:?}", report.findings);
    assert_eq!(report.findings[0].finding.trouble.lines(), [Some(4), Some(9)]);
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["findings"][0]["kind"], "semaphore_left_over");
}

#[test]
fn unusable_input_is_an_error_in_one_sentence() {
    let error = |text: &str, more: &[&str]| format!("{:#}", report(text, more).unwrap_err());
    let nonsense = error("nonsense", &[]);
    assert!(nonsense.contains("kernel.mlir is text that begins with 'nonsense', not a kernel"), "{nonsense}");
    assert!(nonsense.contains("lower(lowering_platforms=(\"tpu\",)).as_text()"), "{nonsense}");
    let binary = error(&"\0".repeat(1000), &[]);
    assert!(binary.contains("kernel.mlir is binary, but not MLIR bytecode: pass a kernel as"), "{binary}");
    let unfinished = error("module {\n  func.func", &[]);
    assert!(unfinished.contains("kernel.mlir:2:12: "), "{unfinished}");
    assert!(error(&kernel(WAIT), &["--operands", "y"]).contains("has no tensor 'y', only "));
    let too_many = error(&kernel(WAIT), &["--operands", "x,x,x"]);
    assert!(too_many.contains("on operands x, x, x; choose others with --operands"), "{too_many}");
    assert!(too_many.contains("takes at most 2 operands"), "{too_many}");
    let narrow = error(&kernel(WAIT), &["--operands", "reference_f8"]);
    assert!(narrow.contains("the tensor given for it is f8E4M3FN of shape [16, 128]"), "{narrow}");
    let other = error(&kernel(WAIT), &["--expect", "reference_f8"]);
    let sentence = "the result is f32[16, 128], but the expected tensor is f8E4M3FN[16, 128]";
    assert!(other.contains(sentence), "{other}");
    assert!(error(&kernel(WAIT), &["--chip", "v9"]).contains("unknown TPU chip 'v9'"));
    let unknown = kernel(WAIT).replace(
        "arith.addf %0, %0 : vector<16x128xf32>",
        "\"tpu.sparkle\"(%0) : (vector<16x128xf32>) -> vector<16x128xf32>",
    );
    assert!(
        error(&unknown, &[])
            .contains("7:5: 'tpu.sparkle' is not supported; supported operations: arith.addf")
    );
}

/// The kernel with other lines instead of its wait.
fn changed(lines: &str) -> String {
    kernel(&format!("{WAIT}\n{lines}"))
}

#[test]
fn a_kernel_that_does_not_end_is_stopped_and_fails() {
    let endless = changed(
        "%i0 = arith.constant 0 : i32
    %i1 = arith.constant 1 : i32
    %n = arith.constant 2147483647 : i32
    scf.for %i = %i0 to %n step %i1 : i32 {
    }",
    );
    let report = report(&endless, &["--max-operations", "1000"]).unwrap();
    assert_eq!(report.verdict(), Verdict::Failed);
    assert!(!report.completed);
    let found = format!("{:?}", report.findings);
    assert!(found.contains("OutOfOperations { operations: 1000"), "{found}");
}

#[test]
fn the_operation_limit_can_be_raised() {
    let long = changed(
        "%i0 = arith.constant 0 : i32
    %i1 = arith.constant 1 : i32
    %n = arith.constant 5000 : i32
    scf.for %i = %i0 to %n step %i1 : i32 {
    }",
    );
    assert_eq!(report(&long, &["--max-operations", "1000"]).unwrap().verdict(), Verdict::Failed);
    assert_eq!(report(&long, &["--max-operations", "100000"]).unwrap().verdict(), Verdict::Passed);
    assert_eq!(report(&long, &[]).unwrap().verdict(), Verdict::Passed);
}

#[test]
fn f32_matmuls_get_a_note() {
    let multiplies = changed(
        "%big = arith.constant dense<1.001> : vector<16x128xf32>
    %wide = arith.constant dense<1.001> : vector<128x128xf32>
    %p = tpu.matmul %big, %wide, %big : vector<16x128xf32>, vector<128x128xf32>, vector<16x128xf32> -> vector<16x128xf32>
    tpu.vector_store %buffer[%c0, %c0], %p {strides = array<i32>} : memref<16x128xf32, #tpu.memory_space<vmem>>, vector<16x128xf32>,",
    );
    let report = report(&multiplies, &[]).unwrap();
    assert_eq!(report.notes.len(), 1);
    assert!(report.notes[0].note.line.is_some() && report.notes[0].note.message.contains("rounded to bf16"));
}

#[test]
fn kernels_that_need_too_much_memory_are_rejected() {
    let refused = |lines: &str| format!("{:#}", report(&changed(lines), &[]).unwrap_err());
    let said = refused("%d = tpu.iota {dimensions = array<i32: 0>} : vector<131072x131072xi32>");
    assert!(
        said.contains("tpu.iota: vector<131072x131072xi32> exceeds the limit of 16777216 elements"),
        "{said}"
    );
    let said = refused("%d = \"tpu.sparkle\"() : () -> i32");
    assert!(said.contains("'tpu.sparkle' is not supported"), "{said}");
    let folder = tempfile::tempdir().unwrap();
    let mut args = arguments(&folder, &changed(""), &[]);
    args.kernel = PathBuf::from("/dev/zero");
    let said = format!("{:#}", SimulateRequest::new(&args).err().unwrap());
    assert!(said.contains("/dev/zero: it is a device, not a regular file"), "{said}");
}
