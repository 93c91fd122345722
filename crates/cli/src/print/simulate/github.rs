//! Annotations for GitHub Actions, which shows them beside the lines of a pull request.

use std::path::Path;

use crate::{
    command::simulate::{PythonPlace, SimulateReport, gpu::GpuSimulateReport},
    print::simulate::findings,
};

/// One `::error` command per finding, per rejected line, and for a wrong result.
pub fn annotations(report: &SimulateReport) -> String {
    let mut text = String::new();
    for rejection in &report.violations {
        let at = location(rejection.python.as_ref(), &report.kernel);
        text += &error(&at, "rejected by the compiler", &rejection.violation.message);
    }
    for finding in &report.findings {
        let at = location(finding.python.as_ref(), &report.kernel);
        text += &error(&at, finding.title, &findings::finding(finding));
    }
    if let Some(comparison) = report.comparison.as_ref().filter(|comparison| !comparison.passed) {
        let message = format!("the largest difference is {:.3} of the tolerance", comparison.of_allowed);
        text += &error(&location(comparison.python.as_ref(), &report.kernel), "wrong result", &message);
    }
    text
}

/// One `::error` command for a fault or a wrong result.
pub fn gpu_annotations(report: &GpuSimulateReport) -> String {
    let file = |line: Option<usize>| Location { file: report.kernel.clone(), line };
    match &report.fault {
        Some(fault) => error(&file(Some(fault.line)), "fault", &fault.problem),
        None if report.verdict() == crate::Verdict::Failed => {
            error(&file(None), "wrong result", "the result is wrong, or differs between schedules")
        }
        None => String::new(),
    }
}

struct Location {
    file: String,
    line: Option<usize>,
}

/// The Python line where the file is; else the kernel's file, whose Mosaic may be embedded in it.
fn location(python: Option<&PythonPlace>, kernel: &str) -> Location {
    match python {
        Some(place) => {
            let path = place.line.path.as_deref().map(Path::to_string_lossy);
            let folder = std::env::current_dir().unwrap_or_default();
            let short = place.line.path.as_deref().and_then(|path| path.strip_prefix(folder).ok());
            let short = short.map(|path| path.to_string_lossy());
            let file = short.or(path).map_or_else(|| place.line.file.clone(), Into::into);
            Location { file, line: Some(place.line.line as usize) }
        }
        None => Location { file: kernel.to_owned(), line: None },
    }
}

fn error(at: &Location, title: &str, message: &str) -> String {
    let line = at.line.map(|line| format!(",line={line}")).unwrap_or_default();
    format!(
        "::error file={}{line},title={}::{}\n",
        property(at.file.strip_prefix("./").unwrap_or(&at.file)),
        property(title),
        data(message)
    )
}

/// Escapes a message as GitHub's toolkit does.
fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// Escapes a property, where colons and commas separate.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_and_properties_are_escaped() {
        let at = Location { file: "./a,b:c%.py".to_owned(), line: Some(12) };
        assert_eq!(
            error(&at, "RACE", "50 %: x\ny, z\r"),
            "::error file=a%2Cb%3Ac%25.py,line=12,title=RACE::50 %25: x%0Ay, z%0D\n"
        );
        let at = Location { file: "k.mlir".to_owned(), line: None };
        assert_eq!(error(&at, "A: B", "::error::x"), "::error file=k.mlir,title=A%3A B::::error::x\n");
    }
}
