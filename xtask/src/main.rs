//! Chores of the workspace: `cargo xtask test` runs everything that must hold before a change lands.

#![forbid(unsafe_code)]

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
        /// Also run the CPU kernels under valgrind's memcheck (valgrind must be installed)
        #[arg(long)]
        memcheck: bool,
    },
    /// Only the tidy rules: dependencies between rooms, file length, where unsafe and unwrap may stand
    Tidy,
    /// Only valgrind's memcheck on the portable and AVX2 kernels
    Memcheck,
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
        Args::Memcheck => memcheck(),
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
    if with_memcheck {
        memcheck()?;
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

/// Runs the kernels that valgrind can decode under its memory checker.
fn memcheck() -> Result<()> {
    println!("== valgrind memcheck");
    cargo(&["test", "--package", "octile-runtime", "--test", "memcheck", "--no-run"])?;
    let binary = newest_test_binary("memcheck-")?;
    run(Command::new("valgrind")
        .args(["--error-exitcode=9", "--quiet", "--leak-check=no"])
        .arg(binary)
        .arg("--test-threads=1"))
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
            run(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
            let install = ["-m", "pip", "install", "--quiet", "--requirement"];
            run(Command::new(&python).args(install).arg(tests.join("requirements.txt")))?;
            python
        }
    };
    cargo(&["build", "--package", "octile"])?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let octile = target.join("debug/octile");
    run(Command::new(python).arg(tests.join("check.py")).arg("--octile").arg(octile))
}

/// The test binary that cargo built last under this name.
fn newest_test_binary(prefix: &str) -> Result<PathBuf> {
    let folder = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let folder = folder.join("debug/deps");
    let mut newest = None;
    for entry in std::fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with(prefix) && !name.contains('.') {
            newest = newest.max(Some((entry.metadata()?.modified()?, entry.path())));
        }
    }
    newest.map(|(_, path)| path).with_context(|| format!("cargo built no {prefix}* in {}", folder.display()))
}
