//! Chores of the workspace: `cargo xtask test` runs everything that must hold before a change lands.

#![forbid(unsafe_code)]

mod fuzz;
mod memcheck;
mod tidy;

use std::{
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    time::Instant,
};

use anyhow::{Context, Result, bail};
use clap::Parser;

/// Chores of the workspace.
#[derive(Debug, Parser)]
enum Args {
    /// Everything: formatting, lints, tidy rules, all tests
    Test {
        /// Also run the memory checkers (valgrind must be installed)
        #[arg(long)]
        memcheck: bool,
    },
    /// Only the tidy rules: dependencies between rooms, file length, where unsafe and unwrap may stand
    Tidy,
    /// Only the memory checkers, valgrind and AddressSanitizer: CPU kernels of every ISA, and the CUDA layer on the stand-in driver
    Memcheck,
    /// Look for inputs that break the readers of foreign files: see fuzz/README.md
    Fuzz(fuzz::FuzzArgs),
    /// Only octile and candle in one program, see tests/beside-candle; fetches candle
    TestCandle,
    /// Only the checkpoints against transformers and compressed-tensors, which are installed under target/peers (5 GB)
    TestTransformers {
        /// A Python that has the libraries already
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
        Args::TestCandle => test_candle(),
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

/// The workspace, wherever it was called from.
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
    cargo(&["test", "--workspace"])?;
    test_candle()?;
    if with_memcheck {
        memcheck::run()?;
    } else {
        println!("== memcheck did not run: it takes minutes; cargo xtask test --memcheck includes it");
    }
    println!(
        "== test-transformers did not run: it installs 5 GB; cargo xtask test-transformers is that alone"
    );
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

/// Builds octile beside candle, multiplies with both,
/// and checks octile with the cudarc features of candle's CUDA backend.
fn test_candle() -> Result<()> {
    let package = ["--manifest-path", "tests/beside-candle/Cargo.toml"];
    let target = ["--target-dir", "target/beside-candle"];
    // What was fetched before will do where nothing can be fetched.
    let is_online = cargo(&[&["fetch"], &package[..]].concat()).is_ok();
    let offline: &[&str] = if is_online { &[] } else { &["--offline"] };
    cargo(&[&["test"], &package[..], &target, offline].concat())?;
    cargo(&[&["check", "--features", "candle-cuda-linking"], &package[..], &target, offline].concat())
}

/// Compares checkpoints with those of the real libraries.
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
