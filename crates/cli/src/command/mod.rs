//! One module per command: arguments in, report values out.

pub mod analyze;
pub mod bench;
pub mod check;
pub mod compare;
pub mod devices;
pub mod inspect;
pub mod overview;
pub mod quantize;
pub mod report;
pub mod run_module;
pub mod seal;
pub mod simulate;
pub mod test;
pub mod tools;
pub mod verify;

use std::path::PathBuf;

use anyhow::{Result, bail};
use octile_core::{Problem, Strategy};

use crate::{
    Verdict,
    args::{Args, Command, JudgeArgs, SimulateArgs, StrategyChoice, ToolsAction, WorkArgs},
    backend::{self, Backend},
    case::Case,
    interrupt, print,
    record::OutputFile,
};

/// Runs a command and prints its report.
pub fn dispatch(args: Args) -> Result<Verdict> {
    match args.command {
        None => overview::run(),
        Some(Command::Test(mut args)) => {
            args.work.backend = backend::choose(&args.work);
            args.work.require_sense()?;
            let json = args.work.json.as_deref().map(OutputFile::open).transpose()?;
            let job = test::Job::new(&args.work);
            require_memory(job.cases.iter().map(|case| &case.problem))?;
            let mut reports = Vec::new();
            for backend in backend::open(&args.work)? {
                let report = test::run(backend.as_ref(), &job)?;
                print::test::report(&report);
                reports.push(report);
            }
            if let Some(json) = json {
                let records: Vec<_> = reports.iter().flat_map(test::Report::records).collect();
                json.finish(&records)?;
            }
            Ok(Verdict::of(reports.iter().all(test::Report::passed)))
        }
        Some(Command::Bench(mut args)) => {
            args.work.backend = backend::choose(&args.work);
            args.work.require_sense()?;
            let json = args.work.json.as_deref().map(OutputFile::open).transpose()?;
            let backend = backend::open(&args.work)?.remove(0);
            let job = bench::Job::new(&args);
            require_memory(job.cases.iter().map(|case| &case.problem))?;
            let shapes = job.cases.len();
            let keep = |report: &_| interrupt::keep(Some(print::bench::so_far(report, shapes)));
            let report = bench::run(backend.as_ref(), &job, keep)?;
            interrupt::keep(None);
            print::bench::report(&report);
            if let Some(json) = json {
                json.finish(&report.records())?;
            }
            Ok(Verdict::of(report.refused().is_empty()))
        }
        Some(Command::Devices) => {
            print::devices::report(&devices::run());
            Ok(Verdict::Passed)
        }
        Some(Command::Inspect(args)) => {
            print::inspect::report(&inspect::run(&inspect::Job::new(&args)?)?);
            Ok(Verdict::Passed)
        }
        Some(Command::Analyze(args)) => {
            let versions = analyze::run(&analyze::Job::new(&args.inputs, &args.known))?;
            match args.json {
                true => print::analyze::json(&versions),
                false => print::analyze::report(&versions),
            }
            Ok(Verdict::of(versions.iter().all(|version| version.troubles.is_empty())))
        }
        Some(Command::Verify(args)) => {
            let junit = open_junit(&args.judge)?;
            let versions = analyze::run(&analyze::Job::new(&args.inputs, &args.known))?;
            judge(&verify::Report::new(versions, args.judge.strict), junit)
        }
        Some(Command::Compare(args)) => {
            let versions = analyze::run(&analyze::Job::new(&args.inputs, &args.known))?;
            let report = compare::run(&versions);
            match args.json {
                true => print::analyze::json(&report),
                false => print::compare::report(&report),
            }
            Ok(Verdict::of(versions.iter().all(|version| version.troubles.is_empty())))
        }
        Some(Command::Check(args)) => {
            let job = inspect::Job::new(&args.inspect)?;
            let junit = open_junit(&args.judge)?;
            if let Some(junit) = &junit {
                junit.require_outside(job.folders())?;
            }
            let report = check::run(&job, args.judge.strict)?;
            print::inspect::report(&report.compiled);
            print::compare::facts(&report.facts);
            judge(&report.verdicts, junit)
        }
        Some(Command::Report(args)) => {
            let output = OutputFile::open(&args.output)?;
            let versions = analyze::run(&analyze::Job::new(&args.inputs, &args.known))?;
            output.require_apart(versions.iter().flat_map(analyze::Version::all_files))?;
            let report = report::Report::new(verify::Report::new(versions, false));
            let page = print::report::page(&report);
            output.finish_with(&page)?;
            print::report::written(&args.output, page.len());
            print::report::troubles(&report);
            Ok(Verdict::of(!report.has_troubles()))
        }
        Some(Command::RunModule(args)) => {
            let report = run_module::run(run_module::Job::new(&args)?)?;
            print::run_module::report(&report);
            Ok(report.verdict())
        }
        Some(Command::Simulate(args)) if simulate::gpu::is_ptx(&args.kernel) => {
            let report = simulate::gpu::run(&simulate::gpu::Job::new(&args)?);
            match args.json {
                true => print::simulate::gpu::json(&report),
                false => print::simulate::gpu::report(&report),
            }
            Ok(report.verdict())
        }
        Some(Command::Simulate(args)) => {
            let job = simulate::Job::new(&args)?;
            let (trace, svg) = open_timelines(&args)?;
            let report = simulate::run(&job)?;
            if let Some(trace) = trace {
                trace.finish(&simulate::chrome_trace(&report.timeline))?;
            }
            if let Some(svg) = svg {
                svg.finish_with(&print::simulate::drawing(&report.timeline, &report.kernel))?;
            }
            match args.json {
                true => print::simulate::json(&report),
                false => print::simulate::report(&report),
            }
            Ok(report.verdict())
        }
        Some(Command::Quantize(args)) => {
            quantize::run(&quantize::Job::quantize(&args)).map(report_checkpoint)
        }
        Some(Command::Convert(args)) => quantize::run(&quantize::Job::convert(&args)).map(report_checkpoint),
        Some(Command::Dequantize(args)) => {
            quantize::run(&quantize::Job::dequantize(&args)).map(report_checkpoint)
        }
        Some(Command::Tools(args)) => {
            match args.action {
                None => print::tools::report(&tools::list()),
                Some(ToolsAction::Install { group }) => print::tools::installed(&tools::install(group)?),
            }
            Ok(Verdict::Passed)
        }
        Some(Command::CompileChild) => {
            octile_runtime::pjrt::compile::serve(std::io::stdin(), std::io::stdout())?;
            Ok(Verdict::Passed)
        }
    }
}

fn report_checkpoint(report: quantize::Report) -> Verdict {
    print::quantize::report(&report);
    Verdict::Passed
}

fn open_junit(args: &JudgeArgs) -> Result<Option<OutputFile>> {
    args.junit.as_deref().map(OutputFile::open).transpose()
}

/// Prints verdicts, and writes them where they were asked for.
fn judge(report: &verify::Report, junit: Option<OutputFile>) -> Result<Verdict> {
    if let Some(junit) = &junit {
        junit.require_apart(report.versions.iter().flat_map(|judged| judged.version.all_files()))?;
    }
    print::verify::report(report);
    if let Some(junit) = junit {
        junit.finish_with(&report.junit()?)?;
    }
    Ok(Verdict::of(report.passed()))
}

/// The files for the trace and the drawing, which are neither one another nor what is read.
fn open_timelines(args: &SimulateArgs) -> Result<(Option<OutputFile>, Option<OutputFile>)> {
    let read = [Some(&args.kernel), args.tensors.as_ref()];
    let open = |path: &Option<PathBuf>| path.as_deref().map(OutputFile::open).transpose();
    let (trace, svg) = (open(&args.trace)?, open(&args.svg)?);
    for output in [&trace, &svg].into_iter().flatten() {
        output.require_apart(read.into_iter().flatten().cloned())?;
    }
    if let (Some(trace), Some(svg)) = (&trace, &args.svg) {
        trace.require_apart([svg.clone()])?;
    }
    Ok((trace, svg))
}

/// The user's shapes, or the standard ones, with the activations and result type that were asked for.
fn cases(work: &WorkArgs, standard: Vec<Case>) -> Vec<Case> {
    let cases = if work.shapes.is_empty() { standard } else { crate::case::named_cases(&work.shapes) };
    let with_types = |case: Case| Case {
        problem: case.problem.with_x(work.activation()).with_out(work.out_kind()),
        ..case
    };
    cases.into_iter().map(with_types).collect()
}

/// Refuses problems whose operands, result and reference do not fit into this machine's memory.
fn require_memory<'a>(problems: impl IntoIterator<Item = &'a Problem>) -> Result<()> {
    let system = sysinfo::System::new_with_specifics(
        sysinfo::RefreshKind::nothing().with_memory(sysinfo::MemoryRefreshKind::nothing().with_ram()),
    );
    // A container may have less than the machine around it.
    let container = system.cgroup_limits().map_or(u64::MAX, |limits| limits.total_memory);
    let memory = system.total_memory().min(container);
    for problem in problems {
        let Problem { m, n, k, .. } = *problem;
        // Samples are made as f32 beside their codes; the reference and its bounds are f64. In floats, because no size overflows
        // there.
        let needed = 24.0 * m as f64 * n as f64 + 9.0 * (m as f64 + n as f64) * k as f64;
        if needed > memory as f64 {
            let gib = |bytes: f64| bytes / f64::from(1 << 30);
            bail!(
                "shape {problem} needs about {:.0} GiB of memory here, and this machine has {:.0}: ask for a smaller one",
                gib(needed),
                gib(memory as f64)
            );
        }
    }
    Ok(())
}

/// The strategies to run on one problem, each once, in version order.
fn strategies(choices: &[StrategyChoice], backend: &dyn Backend, problem: &Problem) -> Vec<Strategy> {
    let wanted = |strategy: &Strategy| {
        choices.iter().any(|choice| match choice {
            StrategyChoice::One(one) => one == strategy,
            StrategyChoice::All => true,
            StrategyChoice::Best => backend.best(problem) == *strategy,
        })
    };
    Strategy::ALL.into_iter().filter(wanted).collect()
}
