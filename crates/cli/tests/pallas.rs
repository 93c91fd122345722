//! Pallas kernels as JAX lowers them: every form of a file, operands, and tolerances.

use std::{
    fs,
    path::{Path, PathBuf},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use clap::Parser;
use octile_cli::{
    Verdict,
    args::{Args, Command, SimulateArgs},
    command::simulate::{SimulateReport, SimulateRequest, run, saved},
};
use safetensors::{Dtype, SafeTensors, tensor::TensorView};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/pallas").join(name)
}

fn arguments(kernel: &Path, more: &[&str]) -> SimulateArgs {
    let kernel = kernel.display().to_string();
    let line = ["octile", "simulate", &kernel].into_iter().chain(more.iter().copied());
    match Args::parse_from(line).command {
        Some(Command::Simulate(args)) => args,
        other => panic!("{other:?}"),
    }
}

fn report(kernel: &Path, more: &[&str]) -> anyhow::Result<SimulateReport> {
    run(&SimulateRequest::new(&arguments(kernel, more))?)
}

fn refusal(kernel: &Path, more: &[&str]) -> String {
    format!("{:#}", report(kernel, more).expect_err("it is refused"))
}

/// Writes f32 tensors; returns the file's name.
fn write(folder: &Path, tensors: &[(&str, &[usize], &[f32])]) -> String {
    let bytes: Vec<Vec<u8>> =
        tensors.iter().map(|(_, _, values)| values.iter().flat_map(|v| v.to_le_bytes()).collect()).collect();
    let view = |((name, shape, _), bytes): (&(&str, &[usize], &[f32]), _)| {
        ((*name).to_owned(), TensorView::new(Dtype::F32, shape.to_vec(), bytes).unwrap())
    };
    let views: Vec<_> = tensors.iter().zip(bytes.iter().map(Vec::as_slice)).map(view).collect();
    let path = folder.join("tensors.safetensors");
    fs::write(&path, safetensors::serialize(views, None).unwrap()).unwrap();
    path.display().to_string()
}

/// Numbers between -4 and 4 that do not repeat soon.
fn sample(count: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 7919 % 16384) as f32 / 2048.0) - 4.0).collect()
}

#[test]
fn every_form_of_a_kernel_gives_the_same_result() {
    let folder = tempfile::tempdir().unwrap();
    let base64 = folder.path().join("base64.txt");
    let bytecode = fs::read(data("dma.bc")).unwrap();
    fs::write(&base64, STANDARD.encode(&bytecode)).unwrap();
    let dumps = folder.path().join("dumps");
    fs::create_dir(&dumps).unwrap();
    let mosaic = fs::read(data("dma.mosaic.mlir")).unwrap();
    fs::write(dumps.join("17-mosaic-dump-dma-original.txt"), &mosaic).unwrap();
    fs::write(dumps.join("18-mosaic-dump-dma-post-apply-vector-layout.txt"), "later").unwrap();
    let lowered = report(&data("dma.lowered.mlir"), &[]).unwrap();
    assert_eq!(lowered.verdict(), Verdict::Passed, "{:?}", lowered.findings);
    assert_eq!((lowered.results, lowered.seed), (1, Some(42)));
    let forms = [data("dma.bc"), data("dma.stable.mlir"), data("dma.mosaic.mlir"), base64, dumps];
    for form in forms {
        let other = report(&form, &[]).unwrap();
        assert_eq!(other.outputs, lowered.outputs, "{}", form.display());
    }
}

#[test]
fn other_files_are_named_and_the_way_to_a_right_one_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let files: [(&[u8], &str); 6] = [
        (b"HloModule jit_f", "HLO text"),
        (b"import jax\n", "a Python program"),
        (b"{\"a\": 1}", "JSON"),
        (b"\xff\xfe\x00", "binary, but not MLIR bytecode"),
        (b"", "is empty"),
        (b"{ lambda ; a:f32[8]. let", "a jaxpr"),
    ];
    for (content, named) in files {
        fs::write(&path, content).unwrap();
        let said = refusal(&path, &[]);
        assert!(said.contains(named) && said.contains("lowering_platforms"), "{said}");
    }
    let said = refusal(folder.path(), &[]);
    assert!(said.contains("a folder without a Mosaic dump"), "{said}");
    fs::write(&path, &fs::read(data("dma.bc")).unwrap()[..100]).unwrap();
    let said = refusal(&path, &[]);
    assert!(said.contains("is MLIR bytecode that cannot be read"), "{said}");
}

#[test]
fn random_operands_follow_the_seed() {
    let run = |more: &[&str]| report(&data("softmax.mlir"), more).unwrap().outputs;
    assert_eq!(run(&[]), run(&["--seed", "42"]));
    assert_ne!(run(&[]), run(&["--seed", "43"]));
}

#[test]
fn random_indices_stay_in_range() {
    for kernel in ["scalar_prefetch.mlir", "gather_lane.mlir"] {
        for seed in ["1", "2", "3"] {
            let report = report(&data(kernel), &["--seed", seed]).unwrap();
            assert_eq!(report.verdict(), Verdict::Passed, "{kernel}: {:?}", report.findings);
        }
    }
}

/// Softmax over rows of 512 in f64.
fn softmax(x: &[f32]) -> Vec<f32> {
    let row = |row: &[f32]| {
        let exp: Vec<f64> = row.iter().map(|&v| f64::from(v).exp()).collect();
        let sum: f64 = exp.iter().sum();
        exp.into_iter().map(|v| (v / sum) as f32).collect::<Vec<_>>()
    };
    x.chunks(512).flat_map(row).collect()
}

/// GELU with the approximation by tanh, in f64.
fn gelu(x: &[f32]) -> Vec<f32> {
    let one = |&v: &f32| {
        let v = f64::from(v);
        let inner = (2.0 / std::f64::consts::PI).sqrt() * (v + 0.044715 * v.powi(3));
        (0.5 * v * (1.0 + inner.tanh())) as f32
    };
    x.iter().map(one).collect()
}

type Reference = fn(&[f32]) -> Vec<f32>;

#[test]
fn transcendental_kernels_pass_with_the_default_tolerance_and_wrong_results_fail() {
    let cases: [(&str, &[usize], Reference); 2] =
        [("softmax.mlir", &[256, 512], softmax), ("gelu_tanh.mlir", &[64, 256], gelu)];
    for (kernel, shape, reference) in cases {
        let folder = tempfile::tempdir().unwrap();
        let x = sample(shape.iter().product());
        let expected = reference(&x);
        // A relative error of 1e-4 in one element is far above rounding.
        let mut wrong = expected.clone();
        let largest = (0..wrong.len()).max_by(|&a, &b| wrong[a].total_cmp(&wrong[b])).unwrap();
        wrong[largest] *= 1.0001;
        let tensors = [("a00", shape, &x[..]), ("out", shape, &expected), ("reference_wrong", shape, &wrong)];
        let file = write(folder.path(), &tensors);
        let right = report(&data(kernel), &["--tensors", &file, "--expect", "out"]).unwrap();
        assert_eq!(right.verdict(), Verdict::Passed, "{kernel}: {:?}", right.comparison);
        let off = report(&data(kernel), &["--tensors", &file, "--expect", "reference_wrong"]).unwrap();
        let compared = off.comparison.clone().unwrap();
        assert_eq!((off.verdict(), compared.wrong), (Verdict::Failed, 1), "{kernel}: {compared:?}");
        let worst = compared.worst.unwrap();
        assert_eq!(worst.index, [largest / shape[1], largest % shape[1]], "{kernel}");
        let loose = ["--tensors", &file, "--expect", "reference_wrong", "--rtol", "2e-4"];
        assert_eq!(report(&data(kernel), &loose).unwrap().verdict(), Verdict::Passed, "{kernel}");
    }
}

#[test]
fn operands_whose_order_is_unknown_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tensors.safetensors");
    let bytes = vec![0u8; 256 * 384 * 2];
    let view = || TensorView::new(Dtype::BF16, vec![256, 384], &bytes).unwrap();
    fs::write(&path, safetensors::serialize([("x", view()), ("w", view())], None).unwrap()).unwrap();
    let file = path.display().to_string();
    let said = refusal(&data("dma.lowered.mlir"), &["--tensors", &file]);
    assert!(said.contains("cannot tell the order of w and x"), "{said}");
    assert!(said.contains("--operands x,w"), "{said}");
    let named = report(&data("dma.lowered.mlir"), &["--tensors", &file, "--operands", "x,w"]).unwrap();
    assert_eq!(named.operands, ["x", "w"]);
}

#[test]
fn results_are_saved_as_tensors() {
    let report = report(&data("gelu_tanh.mlir"), &[]).unwrap();
    let bytes = saved(&report).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    assert_eq!(file.names(), ["out"]);
    assert_eq!(file.tensor("out").unwrap().data(), *report.outputs[0].bytes);
}

#[test]
fn a_kernel_beyond_the_memory_of_the_chip_is_rejected() {
    let report = report(&data("vmem_512MiB.mlir"), &[]).unwrap();
    assert_eq!(report.verdict(), Verdict::Failed);
    assert_eq!(report.findings.len(), 1, "{report:?}");
    assert_eq!(report.findings[0].title, "OUT OF VMEM");
}

#[test]
fn one_kernel_is_picked_by_name() {
    let said = refusal(&data("softmax.mlir"), &["--kernel", "none"]);
    assert!(said.contains("has no kernel 'none', only "), "{said}");
    let name = said.rsplit("only ").next().unwrap();
    let alone = report(&data("softmax.mlir"), &["--kernel", name]).unwrap();
    assert_eq!(alone.outputs, report(&data("softmax.mlir"), &[]).unwrap().outputs);
    let said = refusal(&data("dma.bc"), &["--kernel", name]);
    assert!(said.contains("is a kernel itself"), "{said}");
}

/// Bare kernels in a folder, as `--xla_mosaic_dump_to` writes them.
#[test]
fn the_kernels_of_a_dump_folder_run_one_by_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let kernels = ["softmax", "gelu_tanh", "softmax"];
    for (number, name) in kernels.iter().enumerate() {
        let text = std::fs::read_to_string(format!(
            "{}/../mosaic/tests/bytecode/{name}.mlir",
            env!("CARGO_MANIFEST_DIR")
        ));
        let file = format!("179-000{number}-mosaic-dump-anonymous-original.txt");
        std::fs::write(folder.path().join(file), text.expect("a kernel")).expect("written");
    }
    let args = |only: Option<&str>| SimulateArgs {
        kernel: folder.path().to_owned(),
        only: only.map(str::to_owned),
        ..SimulateArgs::default()
    };
    let requests = SimulateRequest::all(&args(None)).expect("kernels");
    assert_eq!(requests.len(), 3);
    for request in &requests {
        assert!(run(request).expect("runs").completed);
    }
    let second = SimulateRequest::new(&args(Some("k#2"))).expect("a kernel");
    assert!(second.name.contains("179-0001"), "{}", second.name);
    let unknown = SimulateRequest::new(&args(Some("q"))).err().expect("no such kernel").to_string();
    assert!(unknown.ends_with("no kernel 'q', only k, k#2, k#3"), "{unknown}");
    let traced = SimulateArgs { trace: Some("t.json".into()), ..args(None) };
    let refused = SimulateRequest::all(&traced).err().expect("several").to_string();
    assert!(
        refused.contains("holds 3 kernels: pick one for --trace with --kernel: k, k#2, k#3"),
        "{refused}"
    );
}

#[test]
fn an_unwritten_result_of_a_dynamic_grid_names_the_grid() {
    let report = simulate_lowered("dynamic_grid");
    let finding = report.findings.first().expect("a small random grid leaves most unwritten");
    let remedy = finding.remedy.as_deref().unwrap_or_default();
    assert!(remedy.starts_with("the grid is dynamic, and was ["), "{remedy}");
    assert!(finding.python.is_some(), "{finding:?}");
}

#[test]
fn findings_about_a_whole_kernel_have_its_line() {
    let report = simulate_lowered("vmem_512MiB");
    let finding = report.findings.first().expect("too much VMEM");
    let place = finding.python.as_ref().expect("a Python line");
    assert!(place.line.file.ends_with(".py") && place.line.line > 0, "{place:?}");
}

/// Runs a lowered module on random operands.
fn simulate_lowered(name: &str) -> SimulateReport {
    let path = format!("{}/tests/lowered/{name}.mlir", env!("CARGO_MANIFEST_DIR"));
    let args = SimulateArgs { kernel: path.into(), ..SimulateArgs::default() };
    run(&SimulateRequest::new(&args).expect("a kernel")).expect("runs")
}
