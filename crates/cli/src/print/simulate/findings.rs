//! Prints simulator findings.

use octile_mosaic::interpret::Agent;

use crate::{
    command::simulate::{
        DiagnosedSite, Diagnosis, LocatedNote, LocatedPrint, MosaicLine, PythonLine, PythonPlace, Rejection,
    },
    print::one_line,
};

/// Characters of a line that is quoted.
const QUOTED: usize = 90;
/// Indentation of what belongs to a site.
const INDENT: &str = "\n              ";

/// Describes a finding: the Python line to look at, what is wrong, and the operations concerned.
pub fn finding(finding: &Diagnosis) -> String {
    let mut text = match &finding.python {
        Some(place) => format!("{}\n   {}", python(place, "\n     "), finding.sentence),
        None => finding.sentence.clone(),
    };
    for (number, site) in finding.sites.iter().enumerate() {
        text += &self::site(site, number == 0);
    }
    for could in &finding.could_signal {
        let lead = could.python.as_ref().map(|place| format!("{}{INDENT}", python(place, INDENT)));
        let kind = if lead.is_some() { "Mosaic line" } else { "line" };
        let line = format!("{kind} {}, which could signal it", could.mosaic.line);
        text += &format!("\n     {:<8} {}{line}{}", "could", lead.unwrap_or_default(), quote(&could.mosaic));
    }
    for argument in &finding.arguments {
        text += &format!("\n     {:<8} {}", argument.name, argument.description);
    }
    if finding.finding.times > 1 {
        text += &format!("\n     {} times in all", finding.finding.times);
    }
    text
}

/// Describes what the compiler would reject.
pub(super) fn rejection(rejection: &Rejection) -> String {
    let quote = rejection.mosaic.as_ref().map(quote).unwrap_or_default();
    let line = rejection.mosaic.as_ref().map(|mosaic| mosaic.line);
    let message = &rejection.violation.message;
    match &rejection.python {
        Some(place) => {
            let line = line.map(|line| format!("Mosaic line {line}: ")).unwrap_or_default();
            format!("   {}\n   {line}{message}{quote}", python(place, "\n     "))
        }
        None => {
            let line = line.map(|line| format!("line {line}: ")).unwrap_or_default();
            format!("   {line}{message}{quote}")
        }
    }
}

/// A remark on a line.
pub(super) fn note(LocatedNote { note, python, times }: &LocatedNote) -> String {
    let line = match (python, note.line) {
        (Some(place), _) => format!("{}:{}, ", one_line(&place.line.file), place.line.line),
        (None, Some(line)) => format!("line {line}, "),
        (None, None) => String::new(),
    };
    let more = match times - 1 {
        0 => String::new(),
        1 => " (and one more)".to_owned(),
        more => format!(" (and {more} more)"),
    };
    format!("{line}{}{more}: {}", note.op, note.message)
}

/// What a kernel printed.
pub(super) fn print(print: &LocatedPrint) -> String {
    let place =
        print.python.as_ref().map(|place| format!("{}:{}, ", one_line(&place.line.file), place.line.line));
    let device = print.device.map(|device| format!("device {device}, ")).unwrap_or_default();
    format!("{}{device}step {:?}: {}", place.unwrap_or_default(), print.step, one_line(&print.text))
}

/// A Python line, `kernel.py:12  cw(0, 0).start()`, and the helpers that it calls.
fn python(place: &PythonPlace, indent: &str) -> String {
    let mut text = python_line(&place.line);
    for helper in &place.helpers {
        text += &format!("{indent}in {}", python_line(helper));
    }
    text
}

pub(super) fn python_line(line: &PythonLine) -> String {
    let code = line.code.as_ref().map(|code| format!("  {}", shortened(code))).unwrap_or_default();
    format!("{}:{}{code}", one_line(&line.file), line.line)
}

/// An operation concerned; the Python line of the first one leads the finding already.
fn site(site: &DiagnosedSite, leads: bool) -> String {
    let who = match &site.agent {
        Agent::Core => "the core".to_owned(),
        Agent::Copy(number) => format!("DMA {number}"),
        Agent::Window(number) => format!("the window of operand {number}"),
    };
    let device = site.device.map(|device| format!(" of device {device}")).unwrap_or_default();
    let operation = format!("{} by {who}{device} in step {:?}", site.op, site.step);
    let line = site.mosaic.as_ref().map(|mosaic| mosaic.line);
    let place = match (&site.python, line) {
        (Some(_), Some(line)) => format!("Mosaic line {line}, {operation}"),
        (None, Some(line)) => format!("line {line}, {operation}"),
        (_, None) => operation,
    };
    let lead = match &site.python {
        Some(place) if !leads => format!("{}{INDENT}", python(place, INDENT)),
        _ => String::new(),
    };
    let quote = site.mosaic.as_ref().map(quote).unwrap_or_default();
    format!("\n     {:<8} {lead}{place}{quote}", site.role)
}

fn quote(mosaic: &MosaicLine) -> String {
    mosaic.text.as_ref().map(|text| format!("{INDENT}| {}", shortened(text))).unwrap_or_default()
}

/// The beginning of a line.
fn shortened(line: &str) -> String {
    let line = line.trim();
    let short: String = line.chars().take(QUOTED).collect();
    let rest = if short.len() < line.len() { " ..." } else { "" };
    one_line(&format!("{short}{rest}"))
}

#[cfg(test)]
mod tests {
    use octile_mosaic::interpret::{Area, Finding, Site, Trouble};

    use super::*;
    use crate::command::simulate::ArgumentNote;

    fn line(file: &str, line: u32, code: Option<&str>) -> PythonLine {
        let code = code.map(str::to_owned);
        PythonLine { file: file.to_owned(), line, function: None, code, path: None }
    }

    fn race(read: Option<PythonPlace>, copy: Option<PythonPlace>) -> Diagnosis {
        let site = |role, python, line, op: &str| DiagnosedSite {
            role,
            op: op.to_owned(),
            agent: if role == "DMA" { Agent::Copy(5) } else { Agent::Core },
            step: vec![0, 1],
            device: None,
            python,
            mosaic: Some(MosaicLine { line, text: Some(format!("%1 = {op} b")) }),
        };
        let core = Site {
            agent: Agent::Core,
            line: None,
            source: vec![],
            op: String::new(),
            step: vec![],
            device: None,
        };
        let area = Area { buffer: "w".to_owned(), ranges: None, device: None };
        let trouble = Trouble::ReadOfUnwritten { area, read: core };
        Diagnosis {
            finding: Finding { trouble, times: 11 },
            kernel: "k".to_owned(),
            title: "RACE",
            message: String::new(),
            remedy: None,
            python: read.clone(),
            mosaic: None,
            device: None,
            step: None,
            sites: vec![site("read", read, 3, "vector.load"), site("DMA", copy, 2, "tpu.enqueue_dma")],
            could_signal: vec![],
            arguments: vec![],
            sentence: "RACE: w[1] is read while a DMA into it may be in flight; wait on s[1] first"
                .to_owned(),
        }
    }

    #[test]
    fn a_finding_leads_with_the_python_line() {
        let helper = line("helpers.py", 4, Some("c.start()"));
        let start = line("kernel.py", 12, Some("start(x,\u{1b}\n y)"));
        let copy = PythonPlace { line: start, helpers: vec![helper] };
        let read = PythonPlace { line: line("kernel.py", 20, Some("y = xb[slot]")), helpers: vec![] };
        let mut race = race(Some(read), Some(copy));
        race.arguments
            .push(ArgumentNote { name: "arg5".to_owned(), description: "scratch 2, f32".to_owned() });
        insta::assert_snapshot!(finding(&race), @r"
        kernel.py:20  y = xb[slot]
           RACE: w[1] is read while a DMA into it may be in flight; wait on s[1] first
             read     Mosaic line 3, vector.load by the core in step [0, 1]
                      | %1 = vector.load b
             DMA      kernel.py:12  start(x,\u001b\u000a y)
                      in helpers.py:4  c.start()
                      Mosaic line 2, tpu.enqueue_dma by DMA 5 in step [0, 1]
                      | %1 = tpu.enqueue_dma b
             arg5     scratch 2, f32
             11 times in all
        ");
    }

    #[test]
    fn without_a_source_the_mosaic_lines_are_quoted() {
        insta::assert_snapshot!(finding(&race(None, None)), @r"
        RACE: w[1] is read while a DMA into it may be in flight; wait on s[1] first
             read     line 3, vector.load by the core in step [0, 1]
                      | %1 = vector.load b
             DMA      line 2, tpu.enqueue_dma by DMA 5 in step [0, 1]
                      | %1 = tpu.enqueue_dma b
             11 times in all
        ");
    }
}
