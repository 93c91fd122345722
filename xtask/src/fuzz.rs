//! `cargo xtask fuzz`: fuzzes the readers of untrusted files, with libFuzzer and the stable compiler.

mod archive;

use std::{
    fs::{self, File},
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::{root, run};

/// Targets, and what to do with them.
#[derive(Debug, Args)]
pub(crate) struct FuzzArgs {
    /// Targets: file names in fuzz/src/bin [default: all]
    targets: Vec<String>,
    /// Minutes per target
    #[arg(long, default_value_t = 1)]
    minutes: u32,
    /// Processes per target
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    jobs: u32,
    /// Build only, into target/fuzz/bin
    #[arg(long, conflicts_with_all = ["minutes", "jobs", "merge"])]
    build: bool,
    /// Add inputs of target/fuzz/corpus that reach new code to fuzz/corpus.tar.gz
    #[arg(long, conflicts_with_all = ["minutes", "jobs"])]
    merge: bool,
}

/// The host. Naming it explicitly keeps instrumentation out of build scripts.
const HOST: &str = "x86_64-unknown-linux-gnu";
/// Limits per input: seconds, megabytes of memory.
const LIMITS: [&str; 2] = ["-timeout=10", "-rss_limit_mb=1024"];
/// Kilobytes of address space, beyond which allocations fail; libFuzzer's own allocation limit needs
/// AddressSanitizer.
const ADDRESS_SPACE: u32 = 1536 << 10;
/// Longest input: enough for a small kernel and the module around it.
const MAX_LEN: &str = "-max_len=32768";

/// Folders and files of a campaign.
struct Places {
    /// Binaries, one per target.
    bin: PathBuf,
    /// Inputs, one folder per target.
    corpus: PathBuf,
    /// Inputs that fail.
    findings: PathBuf,
    /// The committed corpus.
    archive: PathBuf,
    /// Tokens of the grammars.
    dictionaries: PathBuf,
}

impl Places {
    fn new() -> Self {
        let (root, out) = (root(), root().join("target/fuzz"));
        Self {
            bin: out.join("bin"),
            corpus: out.join("corpus"),
            findings: out.join("findings"),
            archive: root.join("fuzz/corpus.tar.gz"),
            dictionaries: root.join("fuzz/dictionaries"),
        }
    }
}

/// Builds the targets, then fuzzes or merges.
pub(crate) fn fuzz(args: &FuzzArgs) -> Result<()> {
    let targets = chosen(&args.targets)?;
    let places = Places::new();
    build(&targets, &places)?;
    if args.build {
        println!("== built {} targets in {}", targets.len(), places.bin.display());
        return Ok(());
    }
    archive::unpack(&places.archive, &places.corpus)?;
    if args.merge {
        return merge(&targets, &places);
    }
    let mut failed = Vec::new();
    for target in &targets {
        println!("== {target}, {} minutes", args.minutes);
        if !campaign(target, args, &places)? {
            failed.push(target.as_str());
        }
    }
    if failed.is_empty() {
        return Ok(());
    }
    bail!(
        "{} failed: the inputs are in {}; reproduce one with `cargo run -p octile-fuzz --bin TARGET INPUT`",
        failed.join(", "),
        places.findings.display()
    )
}

/// Returns the requested targets, or all.
fn chosen(wanted: &[String]) -> Result<Vec<String>> {
    let mut known = Vec::new();
    for entry in fs::read_dir(root().join("fuzz/src/bin"))? {
        known.extend(entry?.path().file_stem().map(|name| name.to_string_lossy().into_owned()));
    }
    known.sort();
    if let Some(unknown) = wanted.iter().find(|name| !known.contains(name)) {
        bail!("no fuzz target '{unknown}': use one of {}", known.join(", "));
    }
    Ok(if wanted.is_empty() { known } else { wanted.to_vec() })
}

/// Compiles with the coverage counters that guide libFuzzer. These LLVM passes work on the stable compiler.
fn build(targets: &[String], places: &Places) -> Result<()> {
    let coverage = ["level=4", "inline-8bit-counters", "pc-table", "trace-compares"]
        .map(|option| format!("-Cllvm-args=-sanitizer-coverage-{option}"));
    let flags = format!("--cfg fuzzing -Cpasses=sancov-module {}", coverage.join(" "));
    let out = root().join("target/fuzz");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--package", "octile-fuzz", "--profile", "fuzz", "--target", HOST, "--target-dir"]);
    cargo.arg(&out).args(targets.iter().flat_map(|target| ["--bin", target])).env("RUSTFLAGS", flags);
    run(&mut cargo)?;
    fs::create_dir_all(&places.bin)?;
    for target in targets {
        let built = out.join(HOST).join("fuzz").join(target);
        fs::copy(&built, places.bin.join(target))
            .with_context(|| format!("cannot copy {}", built.display()))?;
    }
    Ok(())
}

/// Fuzzes one target. Returns whether it survived.
fn campaign(target: &str, args: &FuzzArgs, places: &Places) -> Result<bool> {
    fs::create_dir_all(&places.findings)?;
    let (corpus, log) = (places.corpus.join(target), places.findings.join(format!("{target}.log")));
    fs::create_dir_all(&corpus)?;
    let mut command = limited(&places.bin.join(target));
    command.arg("-print_final_stats=1");
    command.arg(format!("-max_total_time={}", args.minutes * 60));
    command.arg(format!("-dict={}", places.dictionaries.join(format!("{target}.dict")).display()));
    command.arg(format!("-artifact_prefix={}/{target}-", places.findings.display()));
    if args.jobs > 1 {
        // The parent only coordinates, and stops when a child finds something.
        command.arg(format!("-fork={}", args.jobs));
    }
    let log_file = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
    let status = command.arg(corpus).stdout(log_file.try_clone()?).stderr(log_file).status();
    let status = status.with_context(|| format!("cannot start {target}"))?;
    println!("   {}", last_figures(&log)?);
    if !status.success() {
        println!("   FAILED ({status}): see {}", log.display());
    }
    Ok(status.success())
}

/// A target with its limits. Fewer threads, because each takes address space.
fn limited(target: &Path) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -v {ADDRESS_SPACE} && exec \"$0\" \"$@\"")]).arg(target);
    command.env("MALLOC_ARENA_MAX", "2").env("RAYON_NUM_THREADS", "2").args(LIMITS).arg(MAX_LEN);
    command
}

/// Returns the last coverage line of the log.
fn last_figures(log: &Path) -> Result<String> {
    let lines = BufReader::new(File::open(log)?).split(b'\n').map_while(std::result::Result::ok);
    let figures =
        lines.map(|line| String::from_utf8_lossy(&line).into_owned()).filter(|l| l.contains("cov: "));
    Ok(figures.last().unwrap_or_else(|| "no input was run".to_owned()))
}

/// Reduces the corpus to a minimal set with the same coverage.
fn merge(targets: &[String], places: &Places) -> Result<()> {
    for target in targets {
        let (all, kept) = (places.corpus.join(target), places.corpus.join(format!("{target}.kept")));
        fs::create_dir_all(&kept)?;
        // With execution counters as coverage, five times as many inputs would be kept.
        let mut command = limited(&places.bin.join(target));
        run(command.args(["-set_cover_merge=1", "-use_counters=0"]).args([&kept, &all]))?;
        fs::remove_dir_all(&all)?;
        fs::rename(kept, all)?;
    }
    archive::pack(&places.corpus, &places.archive)
}
