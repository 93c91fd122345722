//! `octile inspect` of modules that JAX lowered, with the real TPU compiler.

mod common;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::Value;
use tempfile::TempDir;

const SOFTMAX: &str = include_str!("lowered/softmax.mlir");
const GELU: &str = include_str!("lowered/gelu_tanh.mlir");
const UNALIGNED: &str = include_str!("lowered/oob_vmem.mlir");
const PAGED: &str = include_str!("lowered/paged.mlir");

const RING: &str = include_str!("../../mosaic/tests/sharded/all_gather_ring.mlir");
const MESH: &str = include_str!("../../mosaic/tests/sharded/mesh_2d_column_sum.mlir");
const SOFTMAX_BYTECODE: &[u8] = include_bytes!("../../mosaic/tests/bytecode/softmax.bc");
const SOFTMAX_MOSAIC: &str = include_str!("../../mosaic/tests/bytecode/softmax.mlir");
const PREFETCHED: &str = include_str!("../../mosaic/tests/lowered/scalar_prefetch.mlir");

/// A folder with a lowered module.
struct Lowered {
    place: TempDir,
}

impl Lowered {
    fn new(module: &str) -> Self {
        let place = TempDir::new().unwrap();
        fs::write(place.path().join("lowered.mlir"), module).unwrap();
        Self { place }
    }

    fn octile(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("octile runs")
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_octile"));
        command.args(arguments).current_dir(self.place.path()).env("OCTILE_LIBTPU", common::libtpu());
        command
    }

    /// Standard output of a command that succeeds.
    fn says(&self, arguments: &[&str]) -> String {
        let output = self.octile(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn inspect(&self, chip: &str) {
        self.says(&["inspect", "lowered.mlir", "--chip", chip, "-o", chip]);
    }

    fn json(&self, folder: &str) -> Value {
        serde_json::from_str(&self.says(&["analyze", folder, "--json"])).unwrap()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = entries.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_lowered_module_is_compiled_and_verified_on_every_recent_chip() {
    let module = Lowered::new(SOFTMAX);
    for chip in ["tpu7x", "v6e"] {
        module.inspect(chip);
        assert_eq!(names(&module.path(chip)), ["k"]);
        let manifest: Value =
            serde_json::from_str(&fs::read_to_string(module.path(chip).join("k/manifest.json")).unwrap())
                .unwrap();
        assert_eq!((&manifest["kernel"]["name"], &manifest["kernel"]["chip"]), (&"k".into(), &chip.into()));
        assert!(manifest.get("plan").is_none());
        assert!(module.says(&["verify", chip, "--strict"]).contains("PASS: 1 version"));
    }
    let compared = module.says(&["compare", "tpu7x", "v6e"]);
    assert!(compared.contains("tpu7x/k") && compared.contains("v6e/k"), "{compared}");
}

#[test]
fn cycles_are_attributed_to_python_lines() {
    let module = Lowered::new(SOFTMAX);
    module.inspect("tpu7x");
    let version = &module.json("tpu7x")["versions"][0];
    let (cycles, source) = (&version["facts"]["cycles"], &version["source"]);
    assert_eq!(source["basis"], "executed");
    let row = &source["rows"][0];
    assert_eq!((row["file"].as_str(), row["line"].as_u64()), (Some("src/kernel/pallas/suite1.py"), Some(10)));
    let rows = source["rows"].as_array().unwrap().iter().chain([&source["elsewhere"]]);
    let sum: f64 = rows.map(|row| row["cycles"].as_f64().unwrap()).sum();
    assert!((sum - cycles["issued"].as_f64().unwrap()).abs() < 1e-6, "{sum} of {cycles}");
    // The source is shown where it is.
    fs::create_dir_all(module.path("src/kernel/pallas")).unwrap();
    let python = format!("{}    o_ref[...] = softmax(x_ref[...])\n", "\n".repeat(9));
    fs::write(module.path("src/kernel/pallas/suite1.py"), python).unwrap();
    let table = module.says(&["analyze", "tpu7x"]);
    assert!(table.contains("o_ref[...] = softmax(x_ref[...])"), "{table}");
    module.says(&["report", "tpu7x", "-o", "report.html"]);
    let page = fs::read_to_string(module.path("report.html")).unwrap();
    assert!(page.contains("Cycles by source line") && page.contains("o_ref[...] = softmax"));
}

#[test]
fn a_kernel_whose_branches_depend_on_data_still_has_a_source_view() {
    let module = Lowered::new(PAGED);
    module.inspect("tpu7x");
    let version = &module.json("tpu7x")["versions"][0];
    assert!(version["facts"]["cycles"].is_null() && version["troubles"].as_array().unwrap().is_empty());
    assert_eq!(version["source"]["basis"], "assumed");
    assert!(module.says(&["verify", "tpu7x"]).contains("PASS: 1 version"));
}

#[test]
fn every_kernel_of_a_module_has_its_own_folder() {
    let call = |module: &'static str| module.lines().find(|line| line.contains("custom_call")).unwrap();
    let second = call(GELU).replace("%0 =", "%1 =").replace("%arg0", "%arg1");
    let module = format!(
        "module @two {{\n  func.func public @main(%arg0: tensor<256x512xf32>, %arg1: tensor<64x256xf32>) -> \
         (tensor<256x512xf32>, tensor<64x256xf32>) {{\n{}\n{second}\n    return %0, %1 : tensor<256x512xf32>, \
         tensor<64x256xf32>\n  }}\n}}\n",
        call(SOFTMAX)
    );
    let module = Lowered::new(&module);
    module.inspect("tpu7x");
    assert_eq!(names(&module.path("tpu7x")), ["k", "k_2"]);
    let versions = module.json("tpu7x");
    let shape = |index: usize| versions["versions"][index]["facts"]["operands"].to_string();
    assert!(shape(0).contains("[256,512]") && shape(1).contains("[64,256]"), "{versions}");
    assert!(module.says(&["verify", "tpu7x"]).contains("PASS  k_2"));
}

#[test]
fn a_folder_that_the_compiler_wrote_is_grouped_by_kernel() {
    let module = Lowered::new(SOFTMAX);
    module.says(&["inspect", "lowered.mlir", "-o", "out", "--keep-dumps"]);
    fs::rename(module.path("out/k/raw"), module.path("dump")).unwrap();
    let said = module.says(&["analyze", "dump", "--chip", "tpu7x"]);
    assert!(said.contains("jit_softmax/name.1\nkernel of a compiler dump; tpu7x"), "{said}");
    assert!(said.contains("ignored ") && said.contains("suite1.py") && !said.contains("WARNING"), "{said}");
    assert!(module.says(&["verify", "dump", "--chip", "tpu7x"]).contains("PASS: 1 version"));
}

#[test]
fn a_kernel_without_a_program_is_compiled_in_every_form() {
    let module = Lowered::new(SOFTMAX);
    let inspect = |name: &str, kernel: &[u8]| {
        fs::write(module.path(name), kernel).unwrap();
        module.says(&["inspect", name, "-o", "out"]);
        assert_eq!(names(&module.path("out")), ["k"], "{name}");
        let version = module.json("out")["versions"][0].clone();
        assert!(version["facts"]["operands"].to_string().contains("[256,512]"), "{name}: {version}");
        version["facts"]["cycles"]["issued"].clone()
    };
    let cycles = inspect("lowered.mlir", SOFTMAX.as_bytes());
    assert_eq!(inspect("kernel.bc", SOFTMAX_BYTECODE), cycles);
    assert_eq!(inspect("kernel.mlir", SOFTMAX_MOSAIC.as_bytes()), cycles);
    // Bytecode has the Python lines.
    inspect("kernel.bc", SOFTMAX_BYTECODE);
    assert!(module.says(&["analyze", "out"]).contains("suite1.py"));
}

#[test]
fn a_kernel_comes_from_standard_input_too() {
    use std::{io::Write, process::Stdio};
    let module = Lowered::new(SOFTMAX);
    let body = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, SOFTMAX_BYTECODE);
    let mut command = module.command(&["inspect", "-", "-o", "out"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(body.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
    let manifest = fs::read_to_string(module.path("out/k/manifest.json")).unwrap();
    assert!(manifest.contains("\"source\": \"stdin\""), "{manifest}");
}

#[test]
fn extents_that_depend_on_operands_are_assumed() {
    let module = Lowered::new(PREFETCHED);
    let said = module.says(&["inspect", "lowered.mlir", "-o", "out"]);
    assert!(said.contains("are assumed to be the\nsmallest"), "{said}");
}

#[test]
fn a_module_with_a_mesh_is_compiled_for_its_devices() {
    for (name, text, devices, topology) in
        [("ring", RING, "4 devices", "tpu7x:2x2x1"), ("mesh", MESH, "4 devices", "tpu7x:2x2x1")]
    {
        let module = Lowered::new(text);
        let said = module.says(&["inspect", "lowered.mlir", "-o", "out"]);
        assert!(said.contains(devices), "{name}: {said}");
        let kernel = &names(&module.path("out"))[0];
        let manifest = fs::read_to_string(module.path("out").join(kernel).join("manifest.json")).unwrap();
        assert!(manifest.contains(topology), "{name}: {manifest}");
        assert!(module.says(&["verify", "out"]).contains("PASS: 1 version"), "{name}");
    }
}

#[test]
fn a_kernel_is_compiled_for_the_devices_that_are_asked_for() {
    let module = Lowered::new(RING);
    let (_, body) = RING.split_once("body\\22: \\22").unwrap();
    fs::write(module.path("kernel.txt"), body.split('\\').next().unwrap()).unwrap();
    let said = module.says(&["inspect", "kernel.txt", "--devices", "16", "-o", "out"]);
    assert!(said.contains("16 devices"), "{said}");
}

#[test]
fn a_folder_of_several_modules_is_grouped() {
    let module = Lowered::new(SOFTMAX);
    module.says(&["inspect", "lowered.mlir", "-o", "first", "--keep-dumps"]);
    fs::write(module.path("lowered.mlir"), GELU).unwrap();
    module.says(&["inspect", "lowered.mlir", "-o", "second", "--keep-dumps"]);
    copy_into(&module.path("first/k/raw"), &module.path("dump"));
    copy_into(&module.path("second/k/raw"), &module.path("dump"));
    let said = module.says(&["analyze", "dump", "--chip", "tpu7x"]);
    assert!(said.contains("jit_softmax/") && said.contains("jit_f/"), "{said}");
    assert!(!said.contains("WARNING") && !said.contains("damaged"), "{said}");
    assert!(module.says(&["verify", "dump", "--chip", "tpu7x"]).contains("PASS: all 2 versions"));
    // The simulator runs both kernels, or one.
    let said = module.says(&["simulate", "dump"]);
    assert_eq!(said.matches("verdict   PASS").count(), 2, "{said}");
    let said = module.says(&["simulate", "dump", "--kernel", "k#2"]);
    assert_eq!(said.matches("verdict   PASS").count(), 1, "{said}");
    let output = module.octile(&["simulate", "dump", "--json"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("holds 2 kernels: pick one for --json with --kernel: k, k#2"), "{said}");
}

/// Copies files and folders, and keeps what is there.
fn copy_into(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        match path.is_dir() {
            true => copy_into(&path, &target),
            false => drop(fs::copy(&path, &target).unwrap()),
        }
    }
}

#[test]
fn a_kernel_that_the_compiler_rejects_names_its_python_line() {
    let module = Lowered::new(UNALIGNED);
    let output = module.octile(&["inspect", "lowered.mlir", "-o", "out"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(said.contains("src/kernel/pallas/suite4.py:30: E2003:"), "{said}");
    assert!(!module.path("out").exists());
}

#[test]
fn what_is_not_a_lowered_module_is_rejected() {
    let said = |text: &str, arguments: &[&str]| {
        let module = Lowered::new(text);
        let output = module.octile(&[&["inspect", "lowered.mlir"], arguments].concat());
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(said("module {}", &[]).contains("calls no Pallas kernel"));
    let kernel = "module { func.func @k(%arg0: memref<8xf32, #tpu.memory_space<vmem>>) { return } }";
    assert!(said(kernel, &[]).contains("writes none of its operands"));
    assert!(said(SOFTMAX, &["--devices", "2000"]).contains("--devices"));
    assert!(said(RING, &["--devices", "8"]).contains("is for 4 devices, not 8"));
    assert!(said(RING, &["--chip", "v5e", "--devices", "1"]).contains("is for 4 devices, not 1"));
    assert!(said(SOFTMAX, &["--chip", "v5e", "--devices", "512"]).contains("the largest v5e has 256"));
    assert!(said(SOFTMAX, &["--shape", "512x512x512:128"]).contains("cannot be used with"));
    assert!(said(SOFTMAX, &["--chip", "sm_90a"]).contains("is a module for TPUs"));
}
