//! One module per command: arguments in, report values out.

pub mod analyze;
pub mod bench;
pub mod check;
pub mod compare;
pub mod devices;
pub mod inspect;
pub mod inspect_model;
mod junit;
pub mod model;
pub mod overview;
pub mod quantize;
pub mod report;
pub mod run_module;
pub mod seal;
pub mod simulate;
pub mod test;
pub mod tools;
pub mod tune;
pub mod verify;
mod work;

use anyhow::{Context, Result, bail};
use clap::CommandFactory;
use octile_harness::{
    bench::BenchReport,
    compare::{BenchComparison, CompareError},
    correctness::{self, TestRecord, TestReport},
    record::{BenchBaseline, BenchRecord, Schema},
};
use serde::Serialize;

use crate::{
    Verdict,
    args::{Args, BenchArgs, Command, CompareArgs, JudgeArgs, SimulateArgs, TestArgs, ToolsAction, TuneArgs},
    input,
    output::{Destination, OutputFile},
    print,
    progress::Progress,
};

/// Runs a command and prints its report.
pub fn dispatch(args: Args) -> Result<Verdict> {
    if args.command.as_ref().is_none_or(Command::multiplies) {
        octile_runtime::switches::require_known()?;
    }
    match args.command {
        None => overview::run(),
        Some(Command::Test(args)) => test_strategies(args),
        Some(Command::Bench(args)) => bench_strategies(args),
        Some(Command::Tune(args)) => tune_shapes(&args),
        Some(Command::Devices) => {
            print::devices::report(&devices::run()?);
            Ok(Verdict::Passed)
        }
        Some(Command::Inspect(args)) => {
            let request = inspect::InspectRequest::new(&args)?;
            print::inspect::report(&inspect::run(&request)?);
            Ok(Verdict::Passed)
        }
        Some(Command::Analyze(args)) => {
            let json = Destination::open_json(&args.json)?;
            let report = analyze::AnalyzeReport::new(&args.inputs, &args.known)?;
            require_apart(json.as_ref(), &report.versions)?;
            deliver(json, Schema::v1("octile-analyze"), &report, || {
                print::analyze::report(&report.versions)
            })?;
            Ok(report.verdict())
        }
        Some(Command::Verify(args)) => {
            let outputs = VerdictOutputs::open(&args.judge)?;
            let versions = analyze::run(&analyze::AnalyzeRequest::new(&args.inputs, &args.known))?;
            judge(&verify::VerifyReport::new(versions, args.judge.strict), outputs)
        }
        Some(Command::Compare(args)) => compare_inputs(&args),
        Some(Command::Check(args)) => {
            let request = inspect::InspectRequest::new(&args.inspect)?;
            let outputs = VerdictOutputs::open(&args.judge)?;
            for output in [&outputs.junit, &outputs.json].into_iter().flatten() {
                output.require_outside(request.folders())?;
            }
            let report = check::run(&request, args.judge.strict)?;
            if !outputs.takes_stdout() {
                print::inspect::report(&report.compiled);
                print::compare::facts(&report.facts);
            }
            judge(&report.verdicts, outputs)
        }
        Some(Command::Report(args)) => {
            let output = Destination::open(&args.output)?;
            let versions = analyze::run(&analyze::AnalyzeRequest::new(&args.inputs, &args.known))?;
            output.require_apart(versions.iter().flat_map(analyze::Version::all_files))?;
            let report = report::ReportPage::new(verify::VerifyReport::new(versions, false));
            let page = print::report::page(&report);
            let is_stdout = output.is_stdout();
            output.finish(&page)?;
            if !is_stdout {
                print::report::written(&args.output, page.len());
                print::report::troubles(&report);
            }
            Ok(Verdict::of(!report.has_troubles()))
        }
        Some(Command::RunModule(args)) => {
            let report = run_module::run(run_module::RunModuleRequest::new(&args)?)?;
            print::run_module::report(&report);
            Ok(report.verdict())
        }
        Some(Command::Simulate(args)) if simulate::gpu::is_ptx(&args.kernel) => {
            let SimulateOutputs { json, junit, .. } = SimulateOutputs::open(&args)?;
            let is_replaced = takes_stdout([&json, &junit]);
            let report = simulate::gpu::run(&simulate::gpu::GpuSimulateRequest::new(&args)?);
            let document = simulate::JudgedReport::new(report.verdict(), &report);
            junit.map_or(Ok(()), |junit| junit.finish(&report.junit()?))?;
            deliver(json, Schema::v1("octile-simulate-gpu"), &document, || {
                if !is_replaced {
                    print::simulate::gpu::report(&report);
                }
            })?;
            if args.github {
                print::annotate(&print::simulate::gpu_annotations(&report), is_replaced);
            }
            Ok(report.verdict())
        }
        Some(Command::Simulate(args)) => {
            let requests = simulate::SimulateRequest::all(&args)?;
            // A kernel that cannot be run does not stop those after it.
            let verdicts: Vec<_> = requests.iter().map(|request| simulate_kernel(&args, request)).collect();
            let mut passed = true;
            for (verdict, request) in verdicts.into_iter().zip(&requests) {
                let verdict = match requests.len() {
                    1 => verdict,
                    _ => verdict.with_context(|| request.name.clone()),
                };
                passed &= verdict? == Verdict::Passed;
            }
            Ok(Verdict::of(passed))
        }
        Some(Command::Quantize(args)) => {
            quantize::run(&quantize::CheckpointRequest::quantize(&args)).map(report_checkpoint)
        }
        Some(Command::Convert(args)) => {
            quantize::run(&quantize::CheckpointRequest::convert(&args)).map(report_checkpoint)
        }
        Some(Command::Dequantize(args)) => {
            quantize::run(&quantize::CheckpointRequest::dequantize(&args)).map(report_checkpoint)
        }
        Some(Command::InspectModel(args)) => {
            let outputs = inspect_model::ModelOutputs::open(&args)?;
            let report = inspect_model::run(&args, &outputs)?;
            let is_replaced = takes_stdout([&outputs.json, &outputs.html]);
            outputs.html.map_or(Ok(()), |html| html.finish(&print::inspect_model::page(&report)))?;
            let document = simulate::JudgedReport::new(report.verdict(), &report);
            deliver(outputs.json, Schema::v1("octile-inspect-model"), &document, || {
                if !is_replaced {
                    print::inspect_model::report(&report, args.worst);
                }
            })?;
            Ok(report.verdict())
        }
        Some(Command::Tools(args)) => {
            match args.action {
                None => print::tools::report(&tools::list()),
                Some(ToolsAction::Install { group }) => print::tools::installed(&tools::install(group)?),
            }
            Ok(Verdict::Passed)
        }
        Some(Command::Completions { shell }) => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Args::command(), "octile", &mut script);
            print::emit_document(&String::from_utf8_lossy(&script));
            Ok(Verdict::Passed)
        }
        Some(Command::Man { command }) => {
            print::emit_document(&man_page(command.as_deref())?);
            Ok(Verdict::Passed)
        }
        Some(Command::CompileChild) => {
            octile_runtime::pjrt::compile::serve(std::io::stdin(), std::io::stdout())?;
            Ok(Verdict::Passed)
        }
    }
}

/// Runs a kernel, and writes the documents that are asked for.
fn simulate_kernel(args: &SimulateArgs, request: &simulate::SimulateRequest) -> Result<Verdict> {
    let SimulateOutputs { json, junit, trace, svg, save } = SimulateOutputs::open(args)?;
    let is_replaced = takes_stdout([&json, &junit, &trace, &svg]);
    let report = simulate::run(request)?;
    if let Some(trace) = trace {
        trace.finish_plain_json(&simulate::chrome_trace(&report.timeline))?;
    }
    if let Some(save) = save.filter(|_| report.completed) {
        save.finish_bytes(&simulate::saved(&report)?)?;
    }
    if let Some(svg) = svg {
        svg.finish(&print::simulate::drawing(&report.timeline, &report.kernel))?;
    }
    junit.map_or(Ok(()), |junit| junit.finish(&report.junit(print::simulate::finding)?))?;
    let document = simulate::JudgedReport::new(report.verdict(), &report);
    deliver(json, Schema::v1("octile-simulate"), &document, || {
        if !is_replaced {
            print::simulate::report(&report);
        }
    })?;
    if args.github {
        print::annotate(&print::simulate::annotations(&report), is_replaced);
    }
    Ok(report.verdict())
}

/// The man page of the program, or of one of its commands.
fn man_page(command: Option<&str>) -> Result<String> {
    let mut program = Args::command();
    program.build();
    let page = match command {
        None => program,
        Some(name) => match program.find_subcommand(name) {
            Some(found) => found.clone(),
            None => bail!("octile has no command '{name}': see octile --help"),
        },
    };
    let mut text = Vec::new();
    clap_mangen::Man::new(page).render(&mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Checks the strategies on every requested backend.
fn test_strategies(mut args: TestArgs) -> Result<Verdict> {
    args.work.backend = work::choose_backend(&args.work);
    args.work.require_sense()?;
    let json = Destination::open_json(&args.work.json)?;
    let model = model::Model::open(&args.work.problems)?;
    let request = test::request(&args.work, model.as_ref())?;
    work::require_memory(request.cases.iter().map(|case| &case.problem))?;
    let mut reports = Vec::new();
    let is_replaced = json.as_ref().is_some_and(Destination::is_stdout);
    if let (Some(model), false) = (&model, is_replaced) {
        print::model::layers(model);
    }
    for backend in work::open_backends(&args.work)? {
        work::print_table_notes(backend.as_ref(), &request.cases);
        let progress = Progress::new(request.cases.len() as u64);
        let report = match &model {
            None => correctness::run(backend.as_ref(), &request, &progress)?,
            Some(model) => {
                correctness::run_with_weights(backend.as_ref(), &request, &mut model.loader(), &progress)?
            }
        };
        drop(progress);
        if !is_replaced {
            print::test::report(&report);
        }
        reports.push(report);
    }
    if let Some(json) = json {
        json.finish_json(Schema::TEST, &TestRecord::new(&reports))?;
    }
    Ok(Verdict::of(reports.iter().all(TestReport::passed)))
}

/// Times the strategies, and compares them with the baseline where there is one.
fn bench_strategies(mut args: BenchArgs) -> Result<Verdict> {
    args.work.backend = work::choose_backend(&args.work);
    args.work.require_sense()?;
    let json = Destination::open_json(&args.work.json)?;
    if let (Some(json), Some(baseline)) = (&json, &args.baseline) {
        json.require_apart([baseline.clone()])?;
    }
    let baseline = args.baseline.as_deref().map(bench::read_baseline).transpose()?;
    let model = model::Model::open(&args.work.problems)?;
    let request = bench::request(&args, model.as_ref())?;
    if args.list {
        if json.is_some() {
            bail!("--list prints shapes and has no --json: remove one of them");
        }
        print::tune::list(&request.cases);
        return Ok(Verdict::Passed);
    }
    args.work.default_plans = args.untuned;
    if baseline.as_ref().is_some_and(|baseline| !baseline.shares_with(&request)) {
        return Err(CompareError::NothingInCommon.into());
    }
    work::require_memory(request.cases.iter().map(|case| &case.problem))?;
    let backend = work::open_backends(&args.work)?.remove(0);
    work::print_table_notes(backend.as_ref(), &request.cases);
    if let Some(reason) = bench::why_not_tuned(&args, backend.as_ref(), &request) {
        print::say(&format!("octile: --tuned has no effect here: {reason}"));
    }
    let report = bench::run(backend.as_ref(), &request)?;
    let comparison = baseline.map(|baseline| BenchComparison::new(&baseline, &BenchBaseline::from(&report)));
    let comparison = comparison.transpose()?;
    let timings =
        model.map(|model| model::ModelTimings::new(&model, &args.work.problems, &report)).transpose()?;
    let record = ModelBenchRecord { record: BenchRecord::from(&report), model: timings.as_ref() };
    deliver(json, Schema::BENCH, &record, || {
        print::bench::report(&report);
        if let Some(timings) = &timings {
            print::model::timings(timings);
        }
        if let Some(comparison) = &comparison {
            print::bench::comparison(comparison);
        }
    })?;
    judge_timings(&report, comparison.as_ref(), args.fail_if_slower)
}

/// Searches plans for the shapes, or explains the candidates of one.
fn tune_shapes(args: &TuneArgs) -> Result<Verdict> {
    args.require_search()?;
    let cases = tune::cases(args)?;
    if args.list {
        print::tune::list(&cases);
        return Ok(Verdict::Passed);
    }
    let json = Destination::open_json(&args.json)?;
    let html = args.html.as_deref().map(Destination::open).transpose()?;
    json.as_ref().map_or(Ok(()), |json| json.require_apart(args.html.clone()))?;
    for output in [&json, &html].into_iter().flatten() {
        output.require_apart(tune::tables())?;
    }
    let is_replaced = takes_stdout([&html]);
    let report = tune::run(args, &cases)?;
    if report.shapes.is_empty() {
        report.require_complete()?;
    }
    html.map_or(Ok(()), |html| html.finish(&print::tune::page(&report)))?;
    deliver(json, Schema::v1("octile-tune"), &report, || match args.explain {
        _ if is_replaced => {}
        Some(_) => print::tune::explanation(&report),
        None => print::tune::report(&report),
    })?;
    report.require_complete()?;
    Ok(Verdict::of(report.shapes.iter().all(|shape| shape.refusal.is_none())))
}

/// A benchmark record, with the model where there is one.
#[derive(Serialize)]
struct ModelBenchRecord<'a> {
    #[serde(flatten)]
    record: BenchRecord,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<&'a model::ModelTimings>,
}

/// Fails where a result is wrong, or a strategy is slower than the limit.
fn judge_timings(
    report: &BenchReport,
    comparison: Option<&BenchComparison>,
    limit: Option<f64>,
) -> Result<Verdict> {
    let mut passed = report.refused().is_empty();
    if let (Some(comparison), Some(limit)) = (comparison, limit) {
        let slower = comparison.slower_than(limit)?;
        print::bench::gate(&slower, limit);
        passed &= slower.is_empty();
    }
    Ok(Verdict::of(passed))
}

/// Compares two benchmark records, or the dumps of several versions.
fn compare_inputs(args: &CompareArgs) -> Result<Verdict> {
    let json = Destination::open_json(&args.json)?;
    if let Some(json) = &json {
        json.require_apart(args.inputs.iter().filter(|path| !input::is_stream(path)).cloned())?;
    }
    if let Some(comparison) = compare::records(&args.inputs)? {
        deliver(json, Schema::BENCH_COMPARISON, &comparison, || print::bench::comparison(&comparison))?;
        return Ok(Verdict::Passed);
    }
    let versions = analyze::run(&analyze::AnalyzeRequest::new(&args.inputs, &args.known))?;
    let report = compare::run(&versions);
    require_apart(json.as_ref(), &versions)?;
    deliver(json, Schema::v1("octile-dump-comparison"), &report, || print::compare::report(&report))?;
    Ok(Verdict::of(versions.iter().all(|version| version.troubles.is_empty())))
}

/// Prints the report unless its JSON goes to standard output, and writes the JSON where requested.
fn deliver(
    json: Option<Destination>,
    schema: Schema,
    document: &impl Serialize,
    print: impl FnOnce(),
) -> Result<()> {
    if !json.as_ref().is_some_and(Destination::is_stdout) {
        print();
    }
    json.map_or(Ok(()), |json| json.finish_json(schema, document))
}

/// Whether one of these documents takes the place of the report.
fn takes_stdout<const N: usize>(outputs: [&Option<Destination>; N]) -> bool {
    outputs.into_iter().flatten().any(Destination::is_stdout)
}

/// Rejects a destination that is one of the files read.
fn require_apart(output: Option<&Destination>, versions: &[analyze::Version]) -> Result<()> {
    let files = versions.iter().flat_map(analyze::Version::all_files);
    output.map_or(Ok(()), |output| output.require_apart(files))
}

fn report_checkpoint(report: quantize::CheckpointReport) -> Verdict {
    print::quantize::report(&report);
    Verdict::Passed
}

/// Where `octile verify` and `octile check` write documents.
struct VerdictOutputs {
    junit: Option<Destination>,
    json: Option<Destination>,
}

impl VerdictOutputs {
    /// Opens the destinations, which must differ.
    fn open(args: &JudgeArgs) -> Result<Self> {
        let junit = args.junit.as_deref().map(Destination::open).transpose()?;
        let json = Destination::open_json(&args.json)?;
        if [&junit, &json].into_iter().flatten().filter(|output| output.is_stdout()).count() > 1 {
            bail!("only one of --json and --junit can go to standard output: name a file for the other");
        }
        json.as_ref().map_or(Ok(()), |json| json.require_apart(args.junit.clone()))?;
        Ok(Self { junit, json })
    }

    /// Whether a document takes the place of the report.
    fn takes_stdout(&self) -> bool {
        takes_stdout([&self.junit, &self.json])
    }
}

/// Prints the verdicts, and writes JUnit and JSON where requested.
fn judge(report: &verify::VerifyReport, outputs: VerdictOutputs) -> Result<Verdict> {
    for output in [&outputs.junit, &outputs.json].into_iter().flatten() {
        output.require_apart(report.versions.iter().flat_map(|judged| judged.version.all_files()))?;
    }
    if !outputs.takes_stdout() {
        print::verify::report(report);
    }
    if let Some(junit) = outputs.junit {
        junit.finish(&report.junit()?)?;
    }
    let verdict = Verdict::of(report.passed());
    if let Some(json) = outputs.json {
        json.finish_json(Schema::v1("octile-verify"), &simulate::JudgedReport::new(verdict, report))?;
    }
    Ok(verdict)
}

/// Where `octile simulate` writes documents.
struct SimulateOutputs {
    json: Option<Destination>,
    junit: Option<Destination>,
    trace: Option<Destination>,
    svg: Option<Destination>,
    save: Option<OutputFile>,
}

impl SimulateOutputs {
    /// Opens the destinations, which must differ from each other and from the inputs.
    fn open(args: &SimulateArgs) -> Result<Self> {
        let paths = [&args.json.json, &args.junit, &args.trace, &args.svg];
        let [json, junit, trace, svg] = paths.map(|path| path.as_deref().map(Destination::open).transpose());
        if args.save.as_ref().is_some_and(|path| path.as_os_str() == "-") {
            bail!("--save writes a file, not standard output: name one");
        }
        let save = args.save.as_deref().map(OutputFile::open).transpose()?;
        let outputs = Self { json: json?, junit: junit?, trace: trace?, svg: svg?, save };
        let opened = [&outputs.json, &outputs.junit, &outputs.trace, &outputs.svg];
        if opened.iter().filter(|output| output.as_ref().is_some_and(Destination::is_stdout)).count() > 1 {
            bail!(
                "only one of --json, --junit, --trace and --svg can go to standard output: name files for the \
                 others"
            );
        }
        // Files of the kernel's folder that describe how to launch it.
        let beside = ["manifest.json", "quantize/kernel.ptx"].map(|name| args.kernel.with_file_name(name));
        let inputs = || [&args.kernel].into_iter().chain(&args.tensors).chain(&beside);
        for (index, output) in opened.into_iter().enumerate() {
            let others = paths[..index].iter().filter_map(|path| path.as_ref());
            let used = inputs().chain(others).filter(|path| path.as_os_str() != "-");
            output.as_ref().map_or(Ok(()), |output| output.require_apart(used.cloned()))?;
        }
        if let Some(save) = &outputs.save {
            let others = paths.iter().filter_map(|path| path.as_ref());
            save.require_apart(inputs().chain(others).filter(|path| path.as_os_str() != "-").cloned())?;
        }
        Ok(outputs)
    }
}
