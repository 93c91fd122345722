//! Workspace tasks: `cargo xtask test` runs everything that must pass before a change is merged.

#![forbid(unsafe_code)]

mod arm;
mod chart;
mod fuzz;
mod memcheck;
mod plot;
mod python;
mod tidy;

use std::{
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    time::Instant,
};

use anyhow::{Context, Result, bail};
use clap::{CommandFactory, Parser};

/// Tasks of the workspace
#[derive(Debug, Parser)]
enum Args {
    /// Run formatting, lints, tidy rules, documentation and all tests
    Test {
        /// Also run the memory checkers (needs valgrind)
        #[arg(long)]
        memcheck: bool,
    },
    /// Check the tidy rules: dependencies, file length, line width, unsafe, unwrap, links in documents
    Tidy,
    /// Run valgrind and AddressSanitizer on the CPU kernels and the CUDA layer
    Memcheck,
    /// Fuzz the readers of untrusted files (fuzz/README.md)
    Fuzz(fuzz::FuzzArgs),
    /// Check that the workspace builds with the oldest supported Rust, and for aarch64
    Portability,
    /// Run the tests of the CPU kernels for aarch64 in an emulator (needs qemu-user and a cross linker)
    TestArm,
    /// Build docs/ with mdBook, into target/book
    Book,
    /// Draw the README's chart and the plots of the documents from the benchmark records
    Chart,
    /// Draw a record of a sample of shapes as ratios against M
    Plot {
        /// Record of compare.py, torch_cpu.py or a search
        record: PathBuf,
        /// Drawing to write
        svg: PathBuf,
    },
    /// Test the layers for candle (crates/candle, outside the workspace; fetches candle)
    TestCandle,
    /// Build the wheel of python/ and run its tests (also part of `test`)
    TestPython,
    /// Run the PyTorch tests of python/ (installs 5 GB under target/python-torch)
    TestTorch {
        /// Use this Python, which has PyTorch, numpy, pytest and maturin
        #[arg(long, value_name = "PATH")]
        python: Option<PathBuf>,
    },
    /// Run the tests of the vLLM plugin, and a small model with it (docs/vllm.md)
    TestVllm {
        /// Use this Python, which has vLLM for CPUs, pytest and maturin
        #[arg(long, value_name = "PATH")]
        python: PathBuf,
    },
    /// Compare checkpoints with transformers and compressed-tensors (installs 5 GB under target/peers)
    TestTransformers {
        /// Use this Python, which has the libraries
        #[arg(long, value_name = "PATH")]
        python: Option<PathBuf>,
    },
}

fn main() -> ExitCode {
    let result = match Args::parse() {
        Args::Test { memcheck } => test(memcheck),
        Args::Tidy => tidy::run(&root()),
        Args::Memcheck => memcheck::run(),
        Args::Fuzz(args) => fuzz::fuzz(&args),
        Args::Portability => portability(),
        Args::TestArm => arm::test(),
        Args::Book => book(),
        Args::Chart => charts(),
        Args::Plot { record, svg } => plot::write(&record, &svg),
        Args::TestCandle => test_candle().and_then(|ran| ran.then_some(()).context("cannot fetch candle")),
        Args::TestPython => {
            python::test().and_then(|ran| ran.then_some(()).context("cannot fetch the packages"))
        }
        Args::TestTorch { python } => python::test_torch(python),
        Args::TestVllm { python } => python::test_vllm(&python),
        Args::TestTransformers { python } => test_transformers(python),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn charts() -> Result<()> {
    let root = root();
    chart::write(&root)?;
    plot::PLOTS.iter().try_for_each(|(record, svg)| plot::write(&root.join(record), &root.join(svg)))
}

/// Whether `cargo xtask` has this task.
fn is_task(name: &str) -> bool {
    Args::command().find_subcommand(name).is_some()
}

/// Root of the workspace, wherever the command runs.
fn root() -> PathBuf {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().map_or_else(|| xtask.to_owned(), Path::to_owned)
}

fn test(with_memcheck: bool) -> Result<()> {
    let start = Instant::now();
    cargo(&["fmt", "--all", "--check"])?;
    println!("== tidy");
    tidy::run(&root())?;
    cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])?;
    println!("== cargo doc --workspace --no-deps");
    run(Command::new(env!("CARGO"))
        .args(["doc", "--workspace", "--no-deps", "--quiet"])
        .env("RUSTDOCFLAGS", "-D warnings"))?;
    cargo(&["test", "--workspace"])?;
    if !test_candle()? {
        println!("== not run: test-candle (candle cannot be fetched)");
    }
    if !python::test()? {
        println!("== not run: test-python (packages from PyPI cannot be fetched)");
    }
    if std::env::var_os("OCTILE_TEST_TORCH").is_some() {
        python::test_torch(None)?;
    } else {
        println!("== not run: test-torch (installs 5 GB; cargo xtask test-torch, or OCTILE_TEST_TORCH=1)");
    }
    if with_memcheck {
        memcheck::run()?;
    } else {
        println!("== not run: memcheck (takes minutes; cargo xtask test --memcheck)");
    }
    println!("== not run: test-transformers (installs 5 GB; cargo xtask test-transformers)");
    println!("== not run: test-vllm (needs a Python with vLLM; cargo xtask test-vllm --python PATH)");
    println!("== not run: test-arm (emulates an aarch64 CPU for minutes; cargo xtask test-arm)");
    println!("== not run: portability (builds the workspace twice; cargo xtask portability)");
    println!("== all passed in {} s", start.elapsed().as_secs());
    Ok(())
}

fn cargo(arguments: &[&str]) -> Result<()> {
    println!("== cargo {}", arguments.join(" "));
    run(Command::new(env!("CARGO")).args(arguments))
}

fn run(command: &mut Command) -> Result<()> {
    let name = format!("{command:?}");
    let status = command.current_dir(root()).status().with_context(|| format!("cannot start {name}"))?;
    if !status.success() {
        bail!("{name} failed ({status})");
    }
    Ok(())
}

/// Checks the minimum supported Rust version and another architecture. `rustup` fetches what is missing.
fn portability() -> Result<()> {
    const AARCH64: &str = "aarch64-unknown-linux-gnu";
    let manifest: toml::Table = std::fs::read_to_string(root().join("Cargo.toml"))?.parse()?;
    let oldest = manifest["workspace"]["package"]["rust-version"].as_str().context("no rust-version")?;
    let check = ["check", "--workspace", "--all-targets", "--target-dir"];
    println!("== Rust {oldest}");
    run(Command::new("rustup").args(["toolchain", "install", "--profile", "minimal", oldest]))?;
    let target = root().join("target").join(oldest);
    run(Command::new("rustup").args(["run", oldest, "cargo"]).args(check).arg(target))?;
    println!("== {AARCH64}");
    run(Command::new("rustup").args(["target", "add", AARCH64]))?;
    let target = root().join("target/aarch64");
    run(Command::new(env!("CARGO")).args(check).arg(target).args(["--target", AARCH64]))
}

/// Builds the documents as a book. `cargo xtask tidy` checks their links without mdBook.
fn book() -> Result<()> {
    run(Command::new("mdbook").args(["build", "docs", "--dest-dir", "../target/book"]))
        .context("mdBook is needed: cargo install mdbook")
}

/// Lints and tests the layers for candle, and type-checks those for CUDA. Returns false if candle can be
/// neither fetched nor found in cargo's cache.
fn test_candle() -> Result<bool> {
    let package = ["--manifest-path", "crates/candle/Cargo.toml"];
    let target = ["--target-dir", "target/candle"];
    let choices: [&[&str]; 2] = [&[], &["--offline"]];
    let Some(network) =
        choices.into_iter().find(|network| cargo(&[&["fetch"], &package[..], network].concat()).is_ok())
    else {
        return Ok(false);
    };
    let options = [&package[..], &target, network].concat();
    cargo(&[&["fmt", "--check"], &package[..]].concat())?;
    cargo(&[&["test"], &options[..]].concat())?;
    // candle compiles its own CUDA kernels when it is built. Type-checking needs none of them, so an `nvcc`
    // that writes empty files takes the place of the compiler.
    let nvcc = root().join("crates/candle/tests/without-cuda");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(std::iter::once(nvcc.clone()).chain(std::env::split_paths(&path)))?;
    let lints = ["--all-targets", "--", "-D", "warnings"];
    let check = [&["clippy", "--features", "cuda"], &options[..], &lints].concat();
    println!("== cargo {} (no CUDA kernels)", check.join(" "));
    run(Command::new(env!("CARGO"))
        .args(check)
        .env("PATH", path)
        .env("NVCC", nvcc.join("nvcc"))
        .env("CUDA_COMPUTE_CAP", "90"))?;
    Ok(true)
}

/// Compares checkpoints with those of the reference libraries.
fn test_transformers(python: Option<PathBuf>) -> Result<()> {
    let tests = root().join("crates/checkpoint/tests/transformers");
    let python = match python {
        Some(python) => python,
        None => {
            let folder = root().join("target/peers/transformers-venv");
            let python = folder.join("bin/python");
            println!("== virtual environment {}", folder.display());
            run(Command::new("python3").args(["-I", "-m", "venv"]).arg(&folder))?;
            let install = ["-I", "-m", "pip", "install", "--quiet", "--requirement"];
            run(Command::new(&python).args(install).arg(tests.join("requirements.txt")))?;
            python
        }
    };
    cargo(&["build", "--package", "octile-cli"])?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let octile = target.join("debug/octile");
    run(Command::new(python).arg(tests.join("check.py")).arg("--octile").arg(octile))
}
