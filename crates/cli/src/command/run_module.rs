//! `octile run-module`: runs a StableHLO module on a device through its PJRT plugin.

mod tensors;

use std::{
    path::PathBuf,
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use octile_core::{Problem, bound::Accumulator, sample::Operands};
use octile_harness::{
    HarnessError,
    backend::{Contender, OutputBuffer},
    check::{Check, Expectation},
};
use octile_runtime::pjrt::{
    Buffer, Client, CompileOptions, HostTensor, LoadedExecutable, NamedValue, Plugin, Value,
};

use crate::{Verdict, args::RunModuleArgs, command::work::require_memory, input, print::shown};

pub use tensors::TensorDifference;

/// Module, operands and device of a run.
#[derive(Debug)]
pub struct RunModuleRequest {
    /// The device's plugin.
    pub plugin: PathBuf,
    /// Options of its client.
    pub options: Vec<NamedValue>,
    /// Time limit for finding the device.
    pub patience: Duration,
    /// StableHLO text.
    pub module: String,
    /// The arguments of its function.
    pub operands: Vec<HostTensor>,
    /// What to compare the result with.
    pub truth: Truth,
}

/// What to compare a result with.
#[derive(Debug)]
pub enum Truth {
    /// The f64 reference of these operands.
    Reference(Box<Operands>),
    /// A tensor, with a tolerance.
    Tensor(HostTensor, f64),
    /// Nothing.
    Unknown,
}

impl RunModuleRequest {
    /// Reads the module and its operands.
    pub fn new(args: &RunModuleArgs) -> Result<Self> {
        args.x.require_scales(args.x_scales)?;
        if let Some(problem) = args.problem() {
            require_memory([&problem])?;
        }
        let module = match (&args.module, args.problem()) {
            (Some(path), _) => input::read_text(path)?,
            (None, Some(problem)) => octile_kernels::reference::stablehlo(&problem).to_string(),
            (None, None) => bail!("name a module, or a --shape to run the operation itself"),
        };
        let (operands, truth) = match (args.problem(), &args.tensors) {
            (Some(problem), _) => {
                let operands = Operands::random(problem, args.seed);
                (tensors::of_operands(&operands)?, Truth::Reference(Box::new(operands)))
            }
            (None, Some(path)) => {
                let (operands, expected) = tensors::read(path, &args.operands, args.expect.as_deref())?;
                (operands, expected.map_or(Truth::Unknown, |tensor| Truth::Tensor(tensor, args.tolerance)))
            }
            (None, None) => bail!("name a --shape for random operands, or a file with --tensors"),
        };
        let options = args.options.iter().map(|option| client_option(option)).collect::<Result<_>>()?;
        let patience = Duration::from_secs(args.timeout);
        // The loader would search for a bare name elsewhere.
        let plugin = std::path::absolute(&args.plugin)?;
        Ok(Self { plugin, options, patience, module, operands, truth })
    }
}

/// Result of a run.
#[derive(Debug)]
pub struct RunModuleReport {
    /// The plugin's version of the PJRT interface.
    pub pjrt_api: (i32, i32),
    /// For example `cuda`.
    pub platform: String,
    /// The device that ran it.
    pub device: String,
    /// Element types and shapes of the results.
    pub results: Vec<String>,
    /// Time to compile and load.
    pub compile: Duration,
    /// Time of one run.
    pub run: Duration,
    /// Check of the first result.
    pub outcome: RunOutcome,
}

/// Check of a result.
#[derive(Debug)]
pub enum RunOutcome {
    /// Checked against an f64 reference.
    Checked(Check),
    /// Compared with a tensor, with a tolerance.
    Compared(TensorDifference, f64),
    /// Not compared.
    NotChecked,
}

impl RunModuleReport {
    /// Fails if the result was compared and is wrong.
    pub fn verdict(&self) -> Verdict {
        match &self.outcome {
            RunOutcome::Checked(check) => Verdict::of(check.passed()),
            RunOutcome::Compared(difference, tolerance) => Verdict::of(difference.within(*tolerance)),
            RunOutcome::NotChecked => Verdict::Passed,
        }
    }
}

/// Compiles, runs, and checks the first result.
pub fn run(request: RunModuleRequest) -> Result<RunModuleReport> {
    let (plugin, patience) = (shown(&request.plugin), request.patience);
    let work = move |found: mpsc::Sender<()>| {
        run_on_device(&request, || {
            // The receiver is gone after a timeout.
            let _ = found.send(());
        })
    };
    match limit_start(patience, work) {
        Some(report) => report,
        None => bail!(
            "{plugin} found no device in {} seconds: attach one, or wait longer with --timeout",
            patience.as_secs()
        ),
    }
}

/// Runs `work` in a thread. `None` if it does not report a successful start within `patience`; the thread is
/// then abandoned, because a call into a foreign library cannot be cancelled.
fn limit_start<T: Send + 'static>(
    patience: Duration,
    work: impl FnOnce(mpsc::Sender<()>) -> T + Send + 'static,
) -> Option<T> {
    let (sender, receiver) = mpsc::channel();
    let worker = thread::spawn(move || work(sender));
    if receiver.recv_timeout(patience) == Err(RecvTimeoutError::Timeout) {
        return None;
    }
    Some(worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
}

fn run_on_device(request: &RunModuleRequest, found: impl FnOnce()) -> Result<RunModuleReport> {
    let plugin = Plugin::load(&request.plugin)?;
    let no_device = || format!("{} found no device", shown(&request.plugin));
    let client = Client::new(&plugin, &request.options).with_context(no_device)?;
    let devices = client.devices()?;
    let device = devices.first().with_context(no_device)?;
    found();

    let start = Instant::now();
    let executable = client.compile(&request.module, &CompileOptions::default()).context("cannot compile")?;
    let compile = start.elapsed();
    let arguments = request.operands.iter().map(|tensor| Buffer::from_host(device, tensor));
    let mut program = Program::new(executable, arguments.collect::<Result<_, _>>()?)?;
    let outcome = match &request.truth {
        Truth::Reference(operands) => {
            program.expect_shape(operands.problem)?;
            RunOutcome::Checked(Expectation::whole(operands, Accumulator::F32).check(&mut program)?)
        }
        Truth::Tensor(expected, tolerance) => {
            let result = program.results.first().context("the module returns nothing to compare")?;
            RunOutcome::Compared(TensorDifference::between(result, expected)?, *tolerance)
        }
        Truth::Unknown => RunOutcome::NotChecked,
    };
    Ok(RunModuleReport {
        pjrt_api: plugin.api_version(),
        platform: client.platform_name()?,
        device: device.kind()?,
        results: program.results.iter().map(|r| format!("{}{:?}", r.element(), r.dims())).collect(),
        compile,
        run: program.run()?,
        outcome,
    })
}

/// A loaded program, its arguments, and the results of its last run.
struct Program {
    executable: LoadedExecutable,
    arguments: Vec<Buffer>,
    results: Vec<HostTensor>,
    output: OutputBuffer,
}

impl Program {
    /// Runs the program once.
    fn new(executable: LoadedExecutable, arguments: Vec<Buffer>) -> Result<Self> {
        let output = OutputBuffer::F32(Vec::new());
        let mut program = Self { executable, arguments, results: Vec::new(), output };
        program.execute()?;
        Ok(program)
    }

    fn execute(&mut self) -> Result<Duration> {
        let arguments: Vec<&Buffer> = self.arguments.iter().collect();
        let start = Instant::now();
        let results = self.executable.execute(&arguments).context("the run failed")?;
        let elapsed = start.elapsed();
        self.results = results.iter().map(|buffer| Ok(buffer.to_host()?)).collect::<Result<_>>()?;
        if let Some(output) = self.results.first().and_then(tensors::output) {
            self.output = output;
        }
        Ok(elapsed)
    }

    /// Rejects a module whose result does not fit the problem.
    fn expect_shape(&self, problem: Problem) -> Result<()> {
        let dims = [problem.m, problem.n];
        let Some(result) = self.results.first() else { bail!("the module returns nothing to check") };
        if result.dims() != dims || result.element() != tensors::element(problem.out) {
            bail!(
                "the module returns {}{:?}, but the result of {problem} is {}{dims:?}",
                result.element(),
                result.dims(),
                problem.out
            );
        }
        Ok(())
    }
}

impl Contender for Program {
    fn run(&mut self) -> Result<Duration, HarnessError> {
        self.execute().map_err(|error| HarnessError::Contender(error.into()))
    }

    fn output(&mut self) -> &mut OutputBuffer {
        &mut self.output
    }
}

/// Parses a client option `NAME=VALUE`; the value decides its type.
fn client_option(text: &str) -> Result<NamedValue> {
    let (name, value) = text.split_once('=').with_context(|| format!("option '{text}' is not NAME=VALUE"))?;
    let ints = || value.split(',').map(|part| part.parse().ok()).collect::<Option<Vec<i64>>>();
    let value = match value {
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        _ => match ints().as_deref() {
            Some([one]) => Value::Int(*one),
            Some(many) => Value::Ints(many.to_vec()),
            None => value.parse().map_or_else(|_| Value::Text(value.to_owned()), Value::Float),
        },
    };
    Ok(NamedValue::new(name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_start_times_out() {
        let patience = Duration::from_millis(200);
        let late = limit_start(patience, |_found| thread::sleep(Duration::from_secs(60)));
        assert_eq!(late, None);
        let slow_after_start = limit_start(patience, move |found| {
            found.send(()).unwrap();
            thread::sleep(2 * patience);
            "done"
        });
        assert_eq!(slow_after_start, Some("done"));
        assert_eq!(limit_start(patience, |_found| "failed at once"), Some("failed at once"));
    }

    #[test]
    fn values_decide_the_type_of_options() {
        let option = |text: &str| client_option(text).unwrap();
        assert_eq!(option("preallocate=false"), NamedValue::new("preallocate", Value::Bool(false)));
        assert_eq!(option("node_id=3"), NamedValue::new("node_id", Value::Int(3)));
        assert_eq!(
            option("visible_devices=0,1"),
            NamedValue::new("visible_devices", Value::Ints(vec![0, 1]))
        );
        assert_eq!(option("memory_fraction=0.5"), NamedValue::new("memory_fraction", Value::Float(0.5)));
        assert_eq!(option("allocator=bfc"), NamedValue::new("allocator", Value::Text("bfc".into())));
        assert_eq!(
            client_option("allocator").unwrap_err().to_string(),
            "option 'allocator' is not NAME=VALUE"
        );
    }
}
