//! `octile tune`: searches plans, and keeps those that beat the default.

use std::{
    collections::{HashMap, HashSet, hash_map::Entry},
    fmt,
    path::PathBuf,
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, anyhow, bail};
use octile_core::{
    ActivationKind, Problem,
    device::tpu::TpuChip,
    tuned::{TunedDevice, TunedEntry, TunedTables, TunedTarget},
};
use octile_harness::{
    HarnessError, Observer,
    backend::has_usable_gpu,
    case::{Case, UNNAMED, named_cases},
    static_cycles::StaticCounter,
    tune::{self, CpuTuner, GpuTuner, SearchEffort, TpuTuner, TunedShape, Tuner},
};
use octile_runtime::{
    cuda::CudaError,
    pjrt::compile::TEMPORARY_PREFIX,
    tuned::{FOLDER_VARIABLE, TunedFolder, is_enabled},
};
use serde::Serialize;

use super::{
    inspect::CHILD_COMMAND,
    model::Model,
    work::{problem_cases, require_memory, with_advice},
};
use crate::{
    abandoned,
    args::{ChipChoice, TuneArgs, TuneBackend},
    interrupt,
    print::{self, joined_lines, shown},
    progress::Progress,
    restart,
    tools::{LIBTPU, ToolPaths},
};

/// What a search of several shapes found.
#[derive(Debug, Serialize)]
pub struct TuneReport {
    /// The device.
    pub device: TunedDevice,
    /// Unit of the costs: `ms` or `cycles`.
    pub unit: &'static str,
    /// The shapes that are done.
    pub shapes: Vec<TunedShape>,
    /// The shapes that could not be searched.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<TuneFailure>,
    /// Shapes that were asked for.
    pub asked: usize,
    /// The table, unless nothing is kept.
    pub table: Option<String>,
    /// Whether commands and the library will use the table, as the environment is now.
    pub is_used: bool,
}

/// A shape that could not be searched.
#[derive(Debug, Serialize)]
pub struct TuneFailure {
    /// Name in tables.
    pub label: String,
    /// The problem.
    pub problem: Problem,
    /// Why not.
    pub error: String,
}

impl fmt::Display for TuneFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { label, problem, error } = self;
        let name = if label == UNNAMED { String::new() } else { format!(" ({label})") };
        f.write_str(&joined_lines(&format!("cannot tune {problem}{name}: {error}")))
    }
}

/// Failures that are printed one by one.
const MOST_FAILURES: usize = 8;

impl TuneReport {
    /// An error unless every shape is done, after sentences about those that are not.
    pub fn require_complete(&self) -> Result<()> {
        let (done, asked) = (self.shapes.len(), self.asked);
        if done == asked {
            return Ok(());
        }
        if let (1, [failure]) = (asked, &self.failures[..]) {
            bail!("{failure}");
        }
        for failure in self.failures.iter().take(MOST_FAILURES) {
            print::say(&format!("octile: {failure}"));
        }
        bail!(
            "{} of {asked} shapes are not tuned: leave out what fails, or run it again to go on",
            asked - done
        )
    }

    /// Shapes that were searched by this command.
    pub fn searched(&self) -> impl Iterator<Item = &TunedShape> {
        self.shapes.iter().filter(|shape| !shape.is_known)
    }
}

/// The shapes that the arguments name.
pub fn cases(args: &TuneArgs) -> Result<Vec<Case>> {
    let problems = &args.problems;
    problems.require_sense()?;
    if let Some(shape) = args.explain {
        return problem_cases(problems, named_cases(&[shape]));
    }
    if !problems.is_named() {
        bail!("no shape is named: use --shape, --shapes-from, --sample or --model, or --explain for one");
    }
    let cases = match Model::layers_of(problems, args.tp)? {
        Some(cases) => cases,
        None => problem_cases(problems, Vec::new())?,
    };
    Ok(distinct(cases))
}

/// One case per problem: layers that share one are searched once, under the names of all.
fn distinct(cases: Vec<Case>) -> Vec<Case> {
    let mut distinct: Vec<Case> = Vec::new();
    let (mut at, mut names) = (HashMap::new(), HashSet::new());
    for case in cases {
        let is_new = names.insert((case.problem, case.label.clone()));
        match at.entry(case.problem) {
            Entry::Vacant(entry) => {
                entry.insert(distinct.len());
                distinct.push(case);
            }
            Entry::Occupied(entry) => {
                if is_new {
                    distinct[*entry.get()].label += &format!("; {}", case.label);
                }
            }
        }
    }
    distinct
}

/// Searches the plans of every shape.
pub fn run(args: &TuneArgs, cases: &[Case]) -> Result<TuneReport> {
    let backend = choose_backend(args);
    args.require_sense(backend)?;
    require_memory(cases.iter().map(|case| &case.problem).filter(|_| backend != TuneBackend::Tpu))?;
    let tuner = open(args, backend)?;
    let target = tuner.device().target;
    let folder = match args.explain {
        Some(_) => None,
        None => Some(TunedFolder::of_user().with_context(|| {
            format!("no folder for tables: set {FOLDER_VARIABLE}, XDG_DATA_HOME or HOME")
        })?),
    };
    if let Some(folder) = &folder {
        patiently(folder, target, || folder.require_writable(target))?;
    }
    let table = folder.as_ref().map(|folder| folder.read(target)).transpose()?.unwrap_or_default();
    let tables = TunedTables::of_user(table);
    let asked: HashSet<&Problem> = cases.iter().map(|case| &case.problem).collect();
    let with = |entry: &TunedEntry| tuner.with(&entry.problem, entry.choice);
    // Of other problems no kernels are generated: a table may hold thousands, and any sizes.
    if let Some(note) = tables.stale(&tuner.device(), |problem| asked.contains(problem), with) {
        print::say(&format!("octile: {note}"));
    }
    let mut report = TuneReport {
        device: tuner.device(),
        unit: tuner.unit(),
        shapes: Vec::new(),
        failures: Vec::new(),
        asked: cases.len(),
        table: folder.as_ref().map(|folder| shown(&folder.file(target)).to_string()),
        is_used: is_enabled(),
    };
    let effort = SearchEffort {
        budget: args.budget,
        stops_early: args.explain.is_none(),
        explains: args.explain.is_some() || args.json.json.is_some(),
        ..SearchEffort::default()
    };
    let progress = Progress::new(cases.len() as u64);
    for case in cases {
        let known = (!args.again).then(|| tune::known(tuner.as_ref(), &tables, &case.problem)).flatten();
        let shape = match (known, &folder) {
            (Some(entry), Some(_)) => TunedShape {
                label: case.label.clone(),
                problem: case.problem,
                entry,
                is_known: true,
                candidates: Vec::new(),
                refusal: None,
                unconfirmed: None,
                lost: Vec::new(),
                seconds: 0.0,
            },
            _ => {
                if !report.shapes.is_empty() {
                    interrupt::keep(Some(print::tune::so_far(&report)));
                }
                let failure =
                    |error: String| TuneFailure { label: case.label.clone(), problem: case.problem, error };
                let shape = match tune::tune(tuner.as_ref(), case, &effort, &progress) {
                    Ok(shape) => shape,
                    Err(error) => {
                        report.failures.push(failure(format!("{:#}", with_advice(error))));
                        Observer::step(&progress);
                        continue;
                    }
                };
                let record =
                    |folder: &TunedFolder| patiently(folder, target, || folder.record(shape.entry.clone()));
                if let Some(Err(error)) = folder.as_ref().map(record) {
                    // What others find could not be kept either.
                    report.failures.push(failure(error.to_string()));
                    break;
                }
                shape
            }
        };
        report.shapes.push(shape);
        Observer::step(&progress);
    }
    interrupt::keep(None);
    Ok(report)
}

/// The user's tables, which no document may replace.
pub fn tables() -> impl Iterator<Item = PathBuf> {
    let folder = TunedFolder::of_user();
    folder.into_iter().flat_map(|folder| TunedTarget::ALL.map(|target| folder.file(target)))
}

/// Time to wait for another process in silence.
const PATIENCE: Duration = Duration::from_secs(1);

/// Writes to a table. Another process may hold its lock: if that takes long, the user is told.
fn patiently<R>(folder: &TunedFolder, target: TunedTarget, write: impl FnOnce() -> R) -> R {
    let (done, is_done) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let watch = move || {
            if is_done.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                let lock = folder.lock_file(target);
                print::say(&format!("octile: waiting for another process that has locked {}", shown(&lock)));
            }
        };
        // Without the thread, it waits in silence.
        let _ = thread::Builder::new().spawn_scoped(scope, watch);
        let result = write();
        drop(done);
        result
    })
}

fn choose_backend(args: &TuneArgs) -> TuneBackend {
    match args.backend {
        TuneBackend::Best => {
            let is_plain = matches!(args.problems.activation(), ActivationKind::Plain(_));
            let for_cpu = args.threads.is_some() || is_plain;
            let for_tpu = args.chip.is_some() || args.libtpu.is_some();
            match (for_cpu, for_tpu) {
                (_, true) => TuneBackend::Tpu,
                (false, false) if has_usable_gpu() => TuneBackend::Gpu,
                _ => TuneBackend::Cpu,
            }
        }
        named => named,
    }
}

/// Adds what can be tuned without a GPU.
fn without_gpu(error: HarnessError) -> anyhow::Error {
    match error {
        HarnessError::Cuda(CudaError::NoDriver | CudaError::NoGpu) => {
            anyhow!("{error}; `octile tune --backend cpu` tunes this machine's CPU")
        }
        other => with_advice(other),
    }
}

fn open(args: &TuneArgs, backend: TuneBackend) -> Result<Box<dyn Tuner>> {
    Ok(match backend {
        TuneBackend::Gpu => Box::new(GpuTuner::open().map_err(without_gpu)?),
        TuneBackend::Tpu => {
            let chip = match args.chip {
                Some(ChipChoice::Tpu(chip)) => chip,
                Some(ChipChoice::Gpu(_)) => {
                    bail!("--backend tpu needs a TPU: use --chip tpu7x, or --backend gpu")
                }
                None => TpuChip::named("tpu7x")?,
            };
            // What compilers of searches that were killed left.
            abandoned::remove(&std::env::temp_dir(), TEMPORARY_PREFIX);
            let libtpu = LIBTPU.find(&ToolPaths::of_process(&LIBTPU, args.libtpu.clone()))?;
            let version = libtpu.version_text();
            let counter = StaticCounter::new(libtpu.path, restart::command(CHILD_COMMAND)?, chip);
            let tuner = TpuTuner::new(chip, counter, version);
            Box::new(match args.candidates {
                Some(most) => tuner.with_candidates(most.into()),
                None => tuner,
            })
        }
        TuneBackend::Cpu | TuneBackend::Best => {
            Box::new(CpuTuner::open(args.threads.map(usize::from)).map_err(with_advice)?)
        }
    })
}
