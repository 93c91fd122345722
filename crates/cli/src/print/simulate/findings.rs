//! Prints simulator findings.

use octile_mosaic::{
    interpret::{Agent, Area, Finding, Range, Site, Trouble, Waiter},
    verify::Violation,
};

/// Describes a finding and quotes the lines involved.
pub(super) fn finding(finding: &Finding, lines: &[String]) -> String {
    let (title, sites) = describe(&finding.trouble);
    let mut text = title;
    for (role, site) in sites {
        text += &format!("\n     {role:<8} {}", place(site));
        text += &quote(site.line, lines);
    }
    if finding.times > 1 {
        text += &format!("\n     {} times in all", finding.times);
    }
    text
}

/// Describes what the compiler would reject.
pub(super) fn violation(violation: &Violation, lines: &[String]) -> String {
    let line = violation.place.map(|place| place.line);
    let at = line.map(|line| format!("line {line}: ")).unwrap_or_default();
    format!("   {at}{}{}", violation.message, quote(line, lines))
}

fn quote(line: Option<u32>, lines: &[String]) -> String {
    let source = line.and_then(|line| lines.get(line as usize - 1));
    let shorten = |source: &String| {
        let source = source.trim();
        let short: String = source.chars().take(90).collect();
        format!("\n              | {short}{}", if short.len() < source.len() { " ..." } else { "" })
    };
    source.map(shorten).unwrap_or_default()
}

fn place(site: &Site) -> String {
    let who = match &site.agent {
        Agent::Core => "the core".to_owned(),
        Agent::Copy(number) => format!("DMA {number}"),
        Agent::Window(number) => format!("the window of operand {number}"),
    };
    let line = site.line.map(|line| format!("line {line}, ")).unwrap_or_default();
    format!("{line}{} by {who}{} in step {:?}", site.op, of_device(site.device), site.step)
}

/// Names the device, if there are several.
fn of_device(device: Option<usize>) -> String {
    device.map(|device| format!(" of device {device}")).unwrap_or_default()
}

fn area(area: &Area) -> String {
    let range = |range: &Range| match range.len {
        1 => range.start.to_string(),
        len => format!("{}:{}", range.start, range.start + len),
    };
    let ranges = match &area.ranges {
        Some(ranges) if !ranges.is_empty() => {
            let ranges: Vec<String> = ranges.iter().map(range).collect();
            format!("[{}]", ranges.join(", "))
        }
        _ => String::new(),
    };
    format!("{}{ranges}{}", area.buffer, of_device(area.device))
}

/// A sentence, and the sites with their roles.
fn describe(trouble: &Trouble) -> (String, Vec<(&'static str, &Site)>) {
    match trouble {
        Trouble::ReadDuringCopyIn { area: part, copy, read, semaphore } => (
            format!(
                "RACE: {} is read while a DMA into it may be in flight; wait on {semaphore} first",
                area(part)
            ),
            vec![("read", read), ("DMA", copy)],
        ),
        Trouble::WriteDuringCopyIn { area: part, copy, write, semaphore } => (
            format!(
                "RACE: {} is written while a DMA into it may be in flight; wait on {semaphore} first",
                area(part)
            ),
            vec![("write", write), ("DMA", copy)],
        ),
        Trouble::OverwrittenDuringCopyOut { area: part, copy, write, semaphore } => (
            format!(
                "RACE: {} is overwritten while a DMA out of it may be in flight; wait on {semaphore} first",
                area(part)
            ),
            vec![("write", write), ("DMA", copy)],
        ),
        Trouble::Deadlock { semaphore, wait, needed, available, signalled_by } => {
            let mut sites = vec![("wait", wait)];
            sites.extend(signalled_by.iter().map(|site| ("signal", site)));
            let who = if signalled_by.is_empty() { "; nothing signals it" } else { "" };
            (format!("DEADLOCK: wait for {needed} on {semaphore}, which stays at {available}{who}"), sites)
        }
        Trouble::SemaphoreLeftOver { semaphore, count, signalled_by, device } => (
            format!(
                "SEMAPHORE: {semaphore}{} is {count} when the kernel ends: a DMA is not waited for",
                of_device(*device)
            ),
            signalled_by.iter().map(|site| ("signal", site)).collect(),
        ),
        Trouble::DeviceDeadlock { waiting, finished } => device_deadlock(waiting, finished),
        Trouble::DeviceRace { area: part, copy, access, writes, semaphore } => {
            let verb = if *writes { "written" } else { "read" };
            let (from, to) = (of_device(copy.device), of_device(part.device));
            (
                format!(
                    "RACE: {} is {verb} while a DMA{from} may be writing it; wait on {semaphore}{to} before the \
                     access, or signal from there that the memory is free and wait for that signal before \
                     the DMA",
                    area(part)
                ),
                vec![(if *writes { "write" } else { "read" }, access), ("DMA", copy)],
            )
        }
        Trouble::MissingBarrier { device, access } => (
            format!(
                "MISSING BARRIER: device {device} may not have entered the kernel; wait for its signal on the \
                 barrier semaphore first"
            ),
            vec![("access", access)],
        ),
        Trouble::NoSuchDevice { device, devices, access } => (
            format!(
                "NO SUCH DEVICE: {device} is addressed, but there are {devices}; run more with --devices N, or \
                 correct the device id"
            ),
            vec![("access", access)],
        ),
        Trouble::ReadOfUnwritten { area: part, read } => (
            format!("UNINITIALIZED: {} is read before all of it is written", area(part)),
            vec![("read", read)],
        ),
        Trouble::OutOfBounds { buffer, dimension, index, size, extent, access } => (
            format!(
                "OUT OF BOUNDS: {size} elements from index {index} in dimension {dimension} of {buffer}, whose \
                 extent is {extent}"
            ),
            vec![("access", access)],
        ),
        Trouble::OutputNotWritten { area: part, elements, of } => (
            format!(
                "UNWRITTEN RESULT: {elements} of {of} elements are never written, the first at {}",
                area(part)
            ),
            Vec::new(),
        ),
        Trouble::OutOfOperations { operations, site } => (
            format!(
                "ENDLESS: stopped after {operations} operations; raise the limit with --max-operations N if the \
                 kernel ends"
            ),
            vec![("next", site)],
        ),
        Trouble::AssertionFailed { message, site } => {
            (format!("ASSERTION: {message}"), vec![("assert", site)])
        }
        Trouble::MemoryExceeded { memory, bytes, limit, buffers, site } => {
            let largest: Vec<String> =
                buffers.iter().take(3).map(|(name, bytes)| format!("{name} {bytes}")).collect();
            let title = format!(
                "OUT OF {memory}: the kernel needs {bytes} bytes of {memory}, the limit is {limit}; largest: {}",
                largest.join(", ")
            );
            (title, site.iter().map(|site| ("allocate", site)).collect())
        }
        Trouble::ParallelDependence { area: part, dimension, write, access, reads } => {
            let verb = if *reads { "reads" } else { "overwrites" };
            let title = format!(
                "PARALLEL: a step {verb} {} of another step along parallel grid dimension {dimension}; make the                  dimension \"arbitrary\"",
                area(part)
            );
            (title, vec![(if *reads { "read" } else { "write" }, access), ("earlier", write)])
        }
        Trouble::OutputRevisited { area: part, block, left, access } => (
            format!(
                "REVISITED: block {block:?} of {} was left in step {left:?} and is visited again: what was \
                 written before is lost; visit each block of a result in consecutive steps",
                area(part)
            ),
            vec![("again", access)],
        ),
        Trouble::EndlessLoop { site } => {
            ("ENDLESS: an iteration of this loop changes nothing".to_owned(), vec![("loop", site)])
        }
    }
}

/// Every waiting device, what it waits for, and how far it got.
fn device_deadlock<'t>(waiting: &'t [Waiter], finished: &[usize]) -> (String, Vec<(&'static str, &'t Site)>) {
    let mut title = format!("DEADLOCK BETWEEN DEVICES: {} wait", waiting.len());
    if !finished.is_empty() {
        let names: Vec<String> = finished.iter().map(usize::to_string).collect();
        title += &format!(", finished: {}", names.join(", "));
    }
    let mut sites = Vec::new();
    for Waiter { semaphore, wait, needed, available, signalled_by } in waiting {
        let who = if signalled_by.is_empty() { "; nothing signals it" } else { "" };
        title += &format!(
            "\n     {:<8} wait for {needed} on {semaphore}, which stays at {available}{who}",
            wait.device.map(|device| format!("device {device}")).unwrap_or_default()
        );
        sites.push(("wait", wait));
        sites.extend(signalled_by.iter().map(|site| ("signal", site)));
    }
    (title, sites)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_race_names_both_sides_and_quotes_them() {
        let site = |agent, line, op: &str| Site {
            agent,
            line: Some(line),
            source: vec![],
            op: op.to_owned(),
            step: vec![0, 1],
            device: None,
        };
        let race = Finding {
            trouble: Trouble::ReadDuringCopyIn {
                area: Area {
                    buffer: "w_x2".to_owned(),
                    ranges: Some(vec![Range { start: 1, len: 1 }, Range { start: 0, len: 128 }]),
                    device: None,
                },
                copy: site(Agent::Copy(5), 2, "tpu.enqueue_dma"),
                read: site(Agent::Core, 3, "vector.load"),
                semaphore: "semaphores[1, 1]".to_owned(),
            },
            times: 11,
        };
        let lines = ["module {", "  tpu.enqueue_dma a", "  %1 = vector.load b", "}"].map(str::to_owned);
        insta::assert_snapshot!(finding(&race, &lines), @r"
        RACE: w_x2[1, 0:128] is read while a DMA into it may be in flight; wait on semaphores[1, 1] first
             read     line 3, vector.load by the core in step [0, 1]
                      | %1 = vector.load b
             DMA      line 2, tpu.enqueue_dma by DMA 5 in step [0, 1]
                      | tpu.enqueue_dma a
             11 times in all
        ");
    }

    #[test]
    fn a_deadlock_names_the_semaphore() {
        let wait = Site {
            agent: Agent::Core,
            line: None,
            source: vec![],
            op: "tpu.wait_dma2".to_owned(),
            step: vec![],
            device: None,
        };
        let semaphore = "s[0]".to_owned();
        let deadlock = Trouble::Deadlock { semaphore, wait, needed: 512, available: 0, signalled_by: vec![] };
        let text = finding(&Finding { trouble: deadlock, times: 1 }, &[]);
        assert!(text.starts_with("DEADLOCK: wait for 512 on s[0], which stays at 0; nothing signals it"));
    }
}
