//! The command on a machine with a GPU: the stand-in driver, which simulates the kernels, is preloaded.

use std::process::{Command, Output};

use octile_standin_driver::StandIn;

/// Runs the command on a machine with these GPUs.
fn octile(gpus: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_octile"));
    command.env("LD_PRELOAD", StandIn::path()).env("OCTILE_STANDIN_GPUS", gpus);
    command.args(arguments).output().expect("octile starts")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

const H200: &str = "NVIDIA H200,9.0,132";

#[test]
fn devices_names_the_gpu() {
    let output = octile(H200, &["devices"]);
    let said = said(&output);
    assert!(output.status.success() && said.contains("ready    NVIDIA H200, 132 SMs, 141 GiB"), "{said}");
    assert!(!said.contains("no GPU backend"), "{said}");
}

#[test]
fn the_gpu_is_used_where_there_is_one() {
    let shape = ["--shape", "3x40x200:128"];
    let test = |gpus: &str, more: &[&str]| {
        let output = octile(gpus, &[&["test"], &shape[..], more].concat());
        let said = said(&output);
        assert!(output.status.success(), "{said}");
        assert!(!said.contains("stand-in driver:"), "{said}");
        said
    };
    let on_gpu = test(H200, &[]);
    assert!(on_gpu.contains("gpu: NVIDIA H200, 132 SMs, sm_90a, driver CUDA 13.0"), "{on_gpu}");
    assert_eq!(test(H200, &["--backend", "best"]), on_gpu);
    test(H200, &["--x", "bf16", "--x-scales", "token", "--out", "bf16", "--backend", "gpu"]);
    // Work that only the CPU backend supports.
    for more in
        [&["--backend", "cpu"][..], &["--threads", "1"], &["--isa", "portable"], &["--x", "bf16-plain"]]
    {
        let said = test(H200, more);
        assert!(said.contains("\ncpu: "), "{said}");
    }
    assert!(test("NVIDIA A100,8.0,108", &[]).contains("\ncpu: "));
}

#[test]
fn a_gpu_that_cannot_run_the_kernels_is_named() {
    let output = octile("NVIDIA A100,8.0,108", &["test", "--backend", "gpu"]);
    let said = said(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("NVIDIA A100 has compute capability 8.0, but the kernels need 9.0"), "{said}");
}
