//! One module per command: arguments in, report values out.

pub mod bench;
pub mod devices;
pub mod inspect;
pub mod overview;
pub mod run_module;
pub mod test;
pub mod tools;

use anyhow::Result;
use octile_core::{Problem, Strategy};

use crate::{
    Verdict,
    args::{Args, Command, StrategyChoice, ToolsAction, WorkArgs},
    backend::{self, Backend},
    case::Case,
    print,
    record::JsonFile,
};

/// Runs a command and prints its report.
pub fn dispatch(args: Args) -> Result<Verdict> {
    match args.command {
        None => {
            let backend = backend::cpu::CpuBackend::open(None, None)?;
            overview::run(&backend)
        }
        Some(Command::Test(args)) => {
            let json = args.work.json.as_deref().map(JsonFile::open).transpose()?;
            let backend = backend::open(&args.work)?;
            let report = test::run(backend.as_ref(), &test::Job::new(&args.work))?;
            print::test::report(&report);
            if let Some(json) = json {
                json.finish(&report.records())?;
            }
            Ok(Verdict::of(report.passed()))
        }
        Some(Command::Bench(args)) => {
            let json = args.work.json.as_deref().map(JsonFile::open).transpose()?;
            let backend = backend::open(&args.work)?;
            let report = bench::run(backend.as_ref(), &bench::Job::new(&args))?;
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
        Some(Command::RunModule(args)) => {
            let report = run_module::run(&run_module::Job::new(&args)?)?;
            print::run_module::report(&report);
            Ok(report.verdict())
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

/// The user's shapes, or the standard ones, with the activations and result type that were asked for.
fn cases(work: &WorkArgs, standard: Vec<Case>) -> Vec<Case> {
    let cases = if work.shapes.is_empty() { standard } else { crate::case::named_cases(&work.shapes) };
    let with_types = |case: Case| Case {
        problem: case.problem.with_x(work.activation()).with_out(work.out_kind()),
        ..case
    };
    cases.into_iter().map(with_types).collect()
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
